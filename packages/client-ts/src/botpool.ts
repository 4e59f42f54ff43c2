/** `Botpool`: sends the calls of `Api`, and what needs more than one call. */
import { randomUUID } from "node:crypto";

import { Api, type Bot, type BotCreate, type BotResponse, type Call } from "./api.js";
import { BotEnded, Refused, Unreachable, WaitedTooLong } from "./errors.js";
import { type Change, readEvents, readText, type Reset } from "./stream.js";

const FINAL = new Set(["DONE", "FAILED", "CANCELLED"]);
const ATTEMPTS = 4;
const FIRST_PAUSE_MS = 200;
const TIMEOUT_MS = 30_000;
const POLL_MS = 500;
const RECONNECT_MS = 1_000;

interface Problem {
  detail: string;
  errors: Array<{ field: string; message: string }>;
}

export interface BotpoolOptions {
  /** The server; default: BOTPOOL_URL, else http://127.0.0.1:8700. */
  url?: string;
  /** The API key; default: BOTPOOL_API_KEY. */
  key?: string;
  /** How often a call is sent while the connection fails. */
  attempts?: number;
}

export interface WaitOptions {
  /** The statuses to wait for; default: the bot's end. */
  until?: Iterable<string>;
  timeoutMs?: number;
}

/** A client for one server and one API key. */
export class Botpool extends Api {
  readonly url: string;
  readonly #key: string;
  readonly #attempts: number;

  constructor(options: BotpoolOptions = {}) {
    super();
    const key = options.key ?? process.env.BOTPOOL_API_KEY;
    if (!key) throw new TypeError("No API key: pass `key`, or set BOTPOOL_API_KEY.");
    this.url = (options.url ?? process.env.BOTPOOL_URL ?? "http://127.0.0.1:8700").replace(/\/+$/, "");
    this.#key = key;
    this.#attempts = options.attempts ?? ATTEMPTS;
  }

  /** Create a bot. A retry, of the client or with your own idempotency key, creates no second one. */
  override createBot(body: BotCreate, headers: Record<string, string> = {}): Promise<BotResponse> {
    return super.createBot(body, { "Idempotency-Key": randomUUID(), ...headers });
  }

  /** Wait until a bot has one of the statuses; without `until`, until it has ended. */
  async wait(botId: number, { until, timeoutMs = Number.POSITIVE_INFINITY }: WaitOptions = {}): Promise<Bot> {
    const wanted = new Set(until ?? FINAL);
    const began = Date.now();
    for (;;) {
      const { bot } = await this.getBot(botId);
      if (wanted.has(bot.status)) return bot;
      if (FINAL.has(bot.status)) throw new BotEnded(botId, bot.status, bot.failureReason ?? null);
      const waited = Date.now() - began;
      if (waited > timeoutMs) throw new WaitedTooLong(botId, bot.status, waited);
      await sleep(POLL_MS);
    }
  }

  /** Yield all bots, newest first. A page is requested when its first bot is needed. */
  async *bots(query: Omit<NonNullable<Parameters<Api["listBots"]>[0]>, "cursor"> = {}): AsyncGenerator<Bot> {
    let cursor: string | null | undefined;
    do {
      const page = await this.listBots({ ...query, cursor: cursor ?? undefined });
      yield* page.bots;
      cursor = page.nextCursor;
    } while (cursor);
  }

  /** Yield the output of a bot's container as it is written, until the container ends or `signal` aborts. */
  async *followLogs(botId: number, options: { tail?: number; signal?: AbortSignal } = {}): AsyncGenerator<string> {
    const tail = options.tail === undefined ? "" : `&tail=${options.tail}`;
    const response = await this.#fetch(
      `/v1/bots/${botId}/logs?follow=true${tail}`,
      options.signal ? { signal: options.signal } : {},
    );
    if (response.body !== null) yield* readText(response.body);
  }

  /** Yield changes from now on, or after a cursor; reconnects until `signal` aborts. */
  async *changes(options: { after?: string; signal?: AbortSignal } = {}): AsyncGenerator<Change | Reset> {
    let cursor = options.after;
    while (!options.signal?.aborted) {
      try {
        const response = await this.#fetch("/v1/events", {
          headers: { Accept: "text/event-stream", ...(cursor ? { "Last-Event-ID": cursor } : {}) },
          ...(options.signal ? { signal: options.signal } : {}),
        });
        if (response.body === null) continue;
        for await (const event of readEvents(response.body)) {
          cursor = event.cursor || cursor;
          yield event;
        }
      } catch (error) {
        if (options.signal?.aborted) return;
        if (error instanceof Refused && error.status < 500 && error.status !== 429) throw error;
      }
      await sleep(RECONNECT_MS);
    }
  }

  protected async call<T>({ method, path, query, body, headers, accept }: Call): Promise<T> {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query ?? {})) {
      if (value !== undefined && value !== null) search.append(name, String(value));
    }
    const address = search.size > 0 ? `${path}?${search}` : path;
    const repeatable = method === "GET" || headers?.["Idempotency-Key"] !== undefined;
    const request: RequestInit = {
      method,
      headers: { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      body: body === undefined ? null : JSON.stringify(body),
    };
    const response = await this.#retrying(repeatable, () =>
      this.#fetch(address, { ...request, signal: AbortSignal.timeout(TIMEOUT_MS) }),
    );
    if (accept === "text") return (await response.text()) as T;
    if (accept === "bytes") return new Uint8Array(await response.arrayBuffer()) as T;
    return (await response.json()) as T;
  }

  /** Send a request again while the server does not answer, if a second execution does no harm. */
  async #retrying(repeatable: boolean, send: () => Promise<Response>): Promise<Response> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await send();
      } catch (error) {
        if (!repeatable || !(error instanceof Unreachable) || attempt >= this.#attempts) throw error;
        await sleep(FIRST_PAUSE_MS * 2 ** (attempt - 1));
      }
    }
  }

  async #fetch(path: string, request: RequestInit): Promise<Response> {
    const headers = { Authorization: `Bearer ${this.#key}`, ...(request.headers as Record<string, string>) };
    const response = await fetch(this.url + path, { redirect: "error", ...request, headers }).catch((error) => {
      throw new Unreachable(this.url, error.cause ?? error);
    });
    if (response.ok) return response;
    const problem = (await response.json().catch(() => ({}))) as Partial<Problem>;
    const fields = Object.fromEntries((problem.errors ?? []).map(({ field, message }) => [field, message]));
    const wait = Number(response.headers.get("retry-after"));
    const detail = problem.detail ?? `the server answered ${response.status}`;
    throw new Refused(response.status, detail, fields, wait > 0 ? wait * 1000 : null);
  }
}

const sleep = (ms: number) =>
  new Promise<void>((resolve) => {
    setTimeout(resolve, ms);
  });
