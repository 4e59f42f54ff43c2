import { type BackoffOptions, sleep, untilAnswered } from "./backoff.js";
import { Limited, Refused } from "./errors.js";
import { warn } from "./log.js";
import { isFinal } from "./status.js";
import type { Transport } from "./transport.js";

const EVENTS_PER_CALL = 100;
const EVENT_BYTES = 8 * 1024;
/** The limit of queued events; during a long outage further events are dropped, statuses never. */
const WAITING_EVENTS = 1000;

interface Message {
  readonly resource: "status" | "events" | "artifacts";
  /** JSON, serialised when the report was made, so that later changes are not sent. */
  readonly text: string;
  readonly isFinal?: boolean;
}

/** The control plane accepts no events for now. Not an outage: other reports are delivered. */
class EventsLimited extends Error {
  constructor(readonly limited: Limited) {
    super(limited.message);
  }
}

/**
 * Delivers reports in order, with retries. It keeps each until the control plane has answered, so an
 * outage loses nothing and DONE never overtakes IN_CALL. If the control plane limits the events (429),
 * they wait for its Retry-After, and other reports overtake them.
 */
export class Outbox {
  readonly #transport: Transport;
  readonly #path: string;
  readonly #backoff: BackoffOptions;
  readonly #ended = new AbortController();
  #waiting: Message[] = [];
  #delivering = false;
  #eventsHeldUntil = 0;
  #added = new AbortController();
  #whenDrained: (() => void)[] = [];

  constructor(transport: Transport, botId: number, backoff: BackoffOptions) {
    this.#transport = transport;
    this.#path = `/v1/agent/bots/${botId}`;
    this.#backoff = backoff;
  }

  get length(): number {
    return this.#waiting.length;
  }

  putStatus(body: { status: string } & Record<string, unknown>): void {
    this.#put({ resource: "status", text: JSON.stringify(body), isFinal: isFinal(body.status) });
  }

  putArtifact(artifact: object): void {
    this.#put({ resource: "artifacts", text: JSON.stringify({ artifacts: [artifact] }) });
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
    this.#added.abort();
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
    this.#added.abort();
    if (!this.#delivering) void this.#deliverAll();
  }

  async #deliverAll(): Promise<void> {
    this.#delivering = true;
    while (this.#waiting.length > 0) {
      const batch = this.#nextBatch();
      if (batch.length === 0) await this.#waitForEventsOrOthers();
      else if (await this.#deliver(batch)) this.#remove(batch);
      if (this.#ended.signal.aborted) return;
    }
    this.#delivering = false;
    this.#drained();
  }

  #remove(delivered: Message[]): void {
    this.#waiting = this.#waiting.filter((each) => !delivered.includes(each));
    if (delivered.some((each) => each.isFinal) && this.#waiting.length > 0) {
      // The assignment is over: the control plane would record no further event.
      warn(`Dropped ${this.#waiting.length} events that could not be delivered.`);
      this.#waiting = [];
    }
  }

  /**
   * Returns all events up to the next other report, or the report at the head alone. While events are
   * held, returns the next other report, or nothing.
   */
  #nextBatch(): Message[] {
    const other = this.#waiting.findIndex((each) => each.resource !== "events");
    if (other === 0) return this.#waiting.slice(0, 1);
    if (performance.now() < this.#eventsHeldUntil) return other < 0 ? [] : [this.#waiting[other]!];
    const count = Math.min(other < 0 ? this.#waiting.length : other, EVENTS_PER_CALL);
    return this.#waiting.slice(0, count);
  }

  /** Waits until the events are no longer held, or another report arrives. */
  async #waitForEventsOrOthers(): Promise<void> {
    this.#added = new AbortController();
    await sleep((this.#eventsHeldUntil - performance.now()) / 1000, this.#added.signal);
  }

  /** Delivers reports; returns false if the control plane limits events, which then wait. */
  async #deliver(batch: Message[]): Promise<boolean> {
    const { resource, text } = batch[0]!;
    const isEvents = resource === "events";
    const body = isEvents ? `{"events":[${batch.map((each) => each.text).join(",")}]}` : text;
    const { signal } = this.#ended;
    const call = async () => {
      try {
        return await this.#transport.call("POST", `${this.#path}/${resource}`, signal, body);
      } catch (error) {
        throw isEvents && error instanceof Limited ? new EventsLimited(error) : error;
      }
    };
    try {
      await untilAnswered(call, this.#backoff, signal);
    } catch (error) {
      if (error instanceof EventsLimited) {
        const waitS = Math.max(error.limited.retryAfterS, 1);
        warn(`Events wait for ${waitS} s. ${error.message}`);
        this.#eventsHeldUntil = performance.now() + waitS * 1000;
        return false;
      }
      // A refused report must not end the meeting.
      if (error instanceof Refused) warn(`Dropped a report (${resource}). ${error.message}`);
      else if (!signal.aborted) throw error;
    }
    return true;
  }

  #drained(): void {
    const waiting = this.#whenDrained;
    this.#whenDrained = [];
    waiting.forEach((resolve) => resolve());
  }
}
