import { sleep } from "./backoff.js";
import type { OnceEvent } from "./instructions.js";

/** A timer of Node.js ends at once if its time is longer than 24 days. */
const LONGEST_SLEEP_S = 3600;

/**
 * The time at which a scheduled bot joins, by this process's monotonic clock; heartbeats may move it. The
 * control plane sends durations, because the container's clock may be wrong.
 */
export class JoinTime {
  #at: number | undefined;
  #moved = new AbortController();

  /** Sets the time from the duration that the control plane sent. */
  set(remainingMs: number): void {
    this.#at = performance.now() + remainingMs;
    this.#moved.abort();
  }

  /** Waits until the time has come; false if `interrupted` was set before. */
  async wait(interrupted: OnceEvent): Promise<boolean> {
    while (!interrupted.isSet && this.#remainingS > 0) {
      this.#moved = new AbortController();
      const moved = this.#moved;
      await Promise.race([sleep(Math.min(this.#remainingS, LONGEST_SLEEP_S), moved.signal), interrupted.wait()]);
      moved.abort();
    }
    return !interrupted.isSet;
  }

  get #remainingS(): number {
    return this.#at === undefined ? 0 : (this.#at - performance.now()) / 1000;
  }
}
