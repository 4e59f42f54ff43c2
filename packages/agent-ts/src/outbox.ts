import { type BackoffOptions, untilAnswered } from "./backoff.js";
import { Refused } from "./errors.js";
import { warn } from "./log.js";
import type { Transport } from "./transport.js";

const EVENTS_PER_CALL = 100;
const EVENT_BYTES = 8 * 1024;
/** The limit of queued events; during a long outage further events are dropped, statuses never. */
const WAITING_EVENTS = 1000;

interface Message {
  readonly resource: "status" | "events";
  /** JSON, serialised when the report was made, so that later changes are not sent. */
  readonly text: string;
}

/**
 * Delivers reports in order, with retries. It keeps each at the head until the control plane has
 * answered, so an outage loses nothing and DONE never overtakes IN_CALL.
 */
export class Outbox {
  readonly #transport: Transport;
  readonly #path: string;
  readonly #backoff: BackoffOptions;
  readonly #ended = new AbortController();
  #waiting: Message[] = [];
  #delivering = false;
  #whenDrained: (() => void)[] = [];

  constructor(transport: Transport, botId: number, backoff: BackoffOptions) {
    this.#transport = transport;
    this.#path = `/v1/agent/bots/${botId}`;
    this.#backoff = backoff;
  }

  get length(): number {
    return this.#waiting.length;
  }

  putStatus(body: Record<string, unknown>): void {
    this.#put({ resource: "status", text: JSON.stringify(body) });
  }

  putEvent(kind: string, data: object): void {
    const text = JSON.stringify({ kind, data });
    if (Buffer.byteLength(text) > EVENT_BYTES) {
      throw new RangeError(`event ${JSON.stringify(kind)} is larger than ${EVENT_BYTES} bytes`);
    }
    if (this.#waiting.filter((each) => each.resource === "events").length >= WAITING_EVENTS) {
      warn(`Event ${kind} dropped: ${WAITING_EVENTS} events are already queued.`);
      return;
    }
    this.#put({ resource: "events", text });
  }

  /** Drops queued reports and accepts no more: the assignment is over. */
  close(): void {
    this.#ended.abort();
    this.#waiting = [];
    this.#drained();
  }

  /** Resolves when every report is delivered or dropped. */
  drained(): Promise<void> {
    if (this.#waiting.length === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenDrained.push(resolve));
  }

  #put(message: Message): void {
    if (this.#ended.signal.aborted) return;
    this.#waiting.push(message);
    if (!this.#delivering) void this.#deliverAll();
  }

  async #deliverAll(): Promise<void> {
    this.#delivering = true;
    while (this.#waiting.length > 0) {
      const batch = this.#nextBatch();
      await this.#deliver(batch);
      if (this.#ended.signal.aborted) return;
      this.#waiting.splice(0, batch.length);
    }
    this.#delivering = false;
    this.#drained();
  }

  /** Returns the status at the head alone, or all events up to the next status. */
  #nextBatch(): Message[] {
    if (this.#waiting[0]!.resource === "status") return this.#waiting.slice(0, 1);
    const end = this.#waiting.findIndex((each) => each.resource === "status");
    const count = Math.min(end < 0 ? this.#waiting.length : end, EVENTS_PER_CALL);
    return this.#waiting.slice(0, count);
  }

  async #deliver(batch: Message[]): Promise<void> {
    const { resource, text } = batch[0]!;
    const body = resource === "status" ? text : `{"events":[${batch.map((each) => each.text).join(",")}]}`;
    const { signal } = this.#ended;
    const call = () => this.#transport.call("POST", `${this.#path}/${resource}`, signal, body);
    try {
      await untilAnswered(call, this.#backoff, signal);
    } catch (error) {
      // A refused report must not end the meeting.
      if (error instanceof Refused) warn(`Dropped a report (${resource}). ${error.message}`);
      else if (!signal.aborted) throw error;
    }
  }

  #drained(): void {
    const waiting = this.#whenDrained;
    this.#whenDrained = [];
    waiting.forEach((resolve) => resolve());
  }
}
