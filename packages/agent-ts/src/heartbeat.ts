import { sleep, spread } from "./backoff.js";
import { Refused, Unavailable } from "./errors.js";
import { warn } from "./log.js";
import type { Transport } from "./transport.js";

type Json = Record<string, unknown>;

const ACKNOWLEDGED_PER_CALL = 100;

/** The contents of the next heartbeats: phase, progress, media and acknowledged commands. */
export class HeartbeatBody {
  readonly #fields: Json = {};
  #acknowledged: number[] = [];
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

  media(): void {
    this.#fields["lastMediaAt"] = new Date().toISOString();
  }

  /** Acknowledges a command in the next heartbeats, until one of them is answered. */
  acknowledge(commandId: number, { atOnce }: { atOnce: boolean }): void {
    if (this.#acknowledged.includes(commandId)) return;
    this.#acknowledged.push(commandId);
    if (atOnce) this.#urgent.abort();
  }

  /** Returns the body as JSON, undefined if it is empty, and the commands that it acknowledges. */
  next(): { text: string | undefined; acknowledged: readonly number[] } {
    const acknowledged = this.#acknowledged.slice(0, ACKNOWLEDGED_PER_CALL);
    const fields = acknowledged.length > 0 ? { ...this.#fields, acknowledged } : this.#fields;
    const text = Object.keys(fields).length > 0 ? JSON.stringify(fields) : undefined;
    return { text, acknowledged };
  }

  /** Forgets acknowledgements that have arrived. */
  answered(acknowledged: readonly number[]): void {
    this.#acknowledged = this.#acknowledged.filter((each) => !acknowledged.includes(each));
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
    const { text, acknowledged } = body.next();
    try {
      const answer = await transport.call("POST", `/v1/agent/bots/${botId}/heartbeat`, ended, text);
      body.answered(acknowledged);
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
