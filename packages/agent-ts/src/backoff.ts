import { Unavailable } from "./errors.js";

/** The delays between retries, in seconds. */
export interface BackoffOptions {
  readonly firstS: number;
  readonly capS: number;
}

export const DEFAULT_BACKOFF: BackoffOptions = { firstS: 0.5, capS: 30 };

/** Yields delays that double up to the cap, each reduced by up to half, so that agents do not return all at once. */
export function* delaysS({ firstS, capS }: BackoffOptions): Generator<number, never> {
  for (let delay = firstS; ; delay = Math.min(delay * 2, capS)) {
    yield spread(delay, 0.5, 1.0);
  }
}

export function spread(seconds: number, low: number, high: number): number {
  return seconds * (low + Math.random() * (high - low));
}

/** Waits; returns early if the signal is aborted. */
export function sleep(seconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const finish = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, seconds * 1000);
    signal.addEventListener("abort", finish);
  });
}

/** Repeats an idempotent call until the control plane answers, also with a refusal, or the signal is aborted. */
export async function untilAnswered<T>(
  call: () => Promise<T>,
  backoff: BackoffOptions,
  signal: AbortSignal,
): Promise<T> {
  const delays = delaysS(backoff);
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof Unavailable) || signal.aborted) throw error;
      await sleep(error.retryAfterS + delays.next().value, signal);
      if (signal.aborted) throw error;
    }
  }
}
