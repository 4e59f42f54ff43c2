import { sleep, spread } from "./backoff.js";
import { Refused, Unavailable } from "./errors.js";
import { warn } from "./log.js";
import type { Transport } from "./transport.js";

type Json = Record<string, unknown>;

/** What the next heartbeats tell: that the bot is finishing, and its progress. */
export class HeartbeatBody {
  readonly #fields: Json = {};
  #urgent = new AbortController();

  /** Tells that the bot is finishing, in a heartbeat that is sent at once. */
  finishing(): void {
    if (this.#fields["phase"] !== undefined) return;
    this.#fields["phase"] = "finishing";
    this.#urgent.abort();
  }

  progress(figures: object): void {
    this.#fields["progress"] = JSON.parse(JSON.stringify(figures));
  }

  /** Returns the body as JSON; undefined if there is nothing to tell. */
  text(): string | undefined {
    return Object.keys(this.#fields).length > 0 ? JSON.stringify(this.#fields) : undefined;
  }

  /** Waits for the time of the next heartbeat, or until one is urgent. */
  async wait(seconds: number, ended: AbortSignal): Promise<void> {
    const stop = (): void => this.#urgent.abort();
    ended.addEventListener("abort", stop);
    await sleep(seconds, this.#urgent.signal);
    ended.removeEventListener("abort", stop);
    this.#urgent = new AbortController();
  }
}

/**
 * Sends heartbeats until the control plane instructs the bot to exit. A failure never ends the
 * heartbeat: the meeting continues while the control plane is unreachable.
 */
export async function keepHeartbeat(
  transport: Transport,
  botId: number,
  intervalS: number,
  body: HeartbeatBody,
  apply: (answer: Json) => void,
  ended: AbortSignal,
): Promise<void> {
  while (!ended.aborted) {
    let waitS = spread(intervalS, 0.9, 1.1);
    try {
      const answer = await transport.call("POST", `/v1/agent/bots/${botId}/heartbeat`, ended, body.text());
      apply(answer);
      if (answer["shouldExit"]) return;
    } catch (error) {
      if (error instanceof Unavailable) waitS = Math.max(waitS, error.retryAfterS);
      else if (error instanceof Refused) warn(`A heartbeat was refused; the bot continues. ${error.message}`);
      else throw error;
    }
    if (!ended.aborted) await body.wait(waitS, ended);
  }
}
