import { sleep } from "./backoff.js";
import { warn } from "./log.js";

/** How long the bot may take to leave; at most as long as the fence itself. */
const LEAVE_LIMIT_S = 30;
const EXIT_CODE = 75;

/**
 * Lets a bot whose heartbeats Botpool does not answer leave its meeting: Botpool may have replaced it. A
 * bot that does not leave then is ended with its process. A bot that has left may finish, for example to
 * save its recording.
 */
export class SelfFence {
  readonly #limitS: number;
  readonly #left = new AbortController();
  #answeredAt = performance.now();

  constructor(limitS: number) {
    this.#limitS = limitS;
  }

  answered(): void {
    this.#answeredAt = performance.now();
  }

  /** Notes that the bot has left its call. */
  left(): void {
    this.#left.abort();
  }

  /** Waits for the end of the limit, then lets the bot leave, or ends this process. */
  async keep(leave: () => void, ended: AbortSignal): Promise<void> {
    for (;;) {
      const remainingS = this.#limitS - (performance.now() - this.#answeredAt) / 1000;
      if (ended.aborted) return;
      if (remainingS <= 0) break;
      await sleep(remainingS, ended);
    }
    warn(`Botpool has not answered for ${this.#limitS} s: the bot leaves.`);
    leave();
    const limitS = Math.min(LEAVE_LIMIT_S, this.#limitS);
    await sleep(limitS, this.#left.signal);
    if (this.#left.signal.aborted || ended.aborted) return;
    warn(`The bot did not leave within ${limitS} s: its process ends.`);
    process.exit(EXIT_CODE);
  }
}
