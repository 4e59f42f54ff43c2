import * as http from "node:http";
import * as https from "node:https";
import { Limited, Misconfigured, Refused, Unavailable } from "./errors.js";
import { warn } from "./log.js";

/** Far above the largest response (botData of 64 KiB); protects the bot's memory. */
const BODY_LIMIT = 4 * 1024 * 1024;
const WAIT_AND_RETRY = [408, 425];
const LONGEST_RETRY_AFTER_S = 120;
const PRINTABLE = /^[ -~]+$/;

type Json = Record<string, unknown>;
type Body = string | Uint8Array;

interface Response {
  status: number;
  headers: http.IncomingHttpHeaders;
  text: string;
}

/**
 * Sends each call on its own short connection: kept connections of a thousand agents would hold a
 * thousand sockets of the control plane. It separates refusals from outages.
 */
export class Transport {
  correlationId: string | undefined;
  readonly #base: URL;
  readonly #token: string;
  readonly #timeoutS: number;
  #reachable = true;

  constructor(url: string, token: string, correlationId: string | undefined, timeoutS: number) {
    let base: URL | undefined;
    try {
      base = new URL(url);
    } catch {
      // Explained below.
    }
    if (!base || !/^https?:$/.test(base.protocol) || !base.hostname) {
      throw new Misconfigured("BOTPOOL_URL", "must be http://host[:port] or https://host[:port]");
    }
    if (!PRINTABLE.test(token)) {
      throw new Misconfigured("BOTPOOL_TOKEN", "has characters that no token has");
    }
    base.username = base.password = "";
    this.#base = base;
    this.#token = token;
    this.#timeoutS = timeoutS;
    this.correlationId = correlationId;
  }

  /**
   * Sends a request with JSON text or bytes and returns the JSON object of the answer; throws `Refused` or
   * `Unavailable`.
   */
  async call(method: string, path: string, signal: AbortSignal, body?: Body): Promise<Json> {
    try {
      const answer = interpret(await this.#send(method, path, signal, body));
      this.#logReachability(undefined);
      return answer;
    } catch (error) {
      const isOutage = error instanceof Unavailable && !(error instanceof Limited);
      if (!signal.aborted) this.#logReachability(isOutage ? error : undefined);
      throw error;
    }
  }

  #send(method: string, path: string, signal: AbortSignal, body?: Body): Promise<Response> {
    const { protocol, hostname, port, pathname } = this.#base;
    return new Promise((resolve, reject) => {
      const request = (protocol === "https:" ? https : http).request({
        method,
        // A URL writes an IPv6 address in brackets.
        hostname: hostname.replace(/^\[|\]$/g, ""),
        port,
        path: pathname.replace(/\/+$/, "") + path,
        headers: this.#headers(method, body),
        agent: false,
        signal,
      });
      const timer = setTimeout(
        () => request.destroy(new Error(`no answer within ${this.#timeoutS} s`)),
        this.#timeoutS * 1000,
      );
      const fail = (error: Error): void => {
        clearTimeout(timer);
        reject(new Unavailable(error.message || error.name));
      };
      request.on("error", fail);
      request.on("response", (response) => {
        readText(response).then((text) => {
          clearTimeout(timer);
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text });
        }, fail);
      });
      request.end(body);
    });
  }

  #headers(method: string, body: Body | undefined): http.OutgoingHttpHeaders {
    const headers: http.OutgoingHttpHeaders = {
      Authorization: `Bearer ${this.#token}`,
      Accept: "application/json",
      "User-Agent": "botpool-agent",
    };
    if (method === "POST") headers["Content-Length"] = Buffer.byteLength(body ?? "");
    if (body) headers["Content-Type"] = `application/${typeof body === "string" ? "json" : "octet-stream"}`;
    // The correlation id comes from a user: omit one that could break out of its header.
    if (this.correlationId && PRINTABLE.test(this.correlationId)) {
      headers["X-Correlation-ID"] = this.correlationId;
    }
    return headers;
  }

  #logReachability(outage: Unavailable | undefined): void {
    if (outage && this.#reachable) warn(`${outage.message} (${this.#base.host}). Retrying.`);
    else if (!outage && !this.#reachable) warn("The control plane answers again.");
    this.#reachable = !outage;
  }
}

async function readText(response: http.IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of response as AsyncIterable<Buffer>) {
    size += piece.length;
    if (size > BODY_LIMIT) throw new Error(`the answer is larger than ${BODY_LIMIT} bytes`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString("utf8");
}

function interpret(response: Response): Json {
  const { status, text } = response;
  const answer = jsonObject(text);
  if (status >= 200 && status < 300) {
    if (!answer) throw new Unavailable("the answer is not a JSON object; is this Botpool's address?");
    return answer;
  }
  if (status === 429) throw new Limited(detail(response, answer), retryAfterS(response));
  if (WAIT_AND_RETRY.includes(status) || status >= 500) {
    throw new Unavailable(`HTTP ${status}`, retryAfterS(response));
  }
  // A proxy such as Traefik answers 404 while its upstream is being redeployed. Only the control
  // plane's own 404, which is JSON, is evidence.
  if (status === 404 && !isJson(response)) {
    throw new Unavailable("HTTP 404 from something other than Botpool; is this Botpool's address?");
  }
  throw new Refused(status, detail(response, answer));
}

function jsonObject(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : undefined;
  } catch {
    return undefined;
  }
}

function isJson(response: Response): boolean {
  const type = (response.headers["content-type"] ?? "").split(";")[0]!.trim().toLowerCase();
  return type === "application/json" || type.endsWith("+json");
}

function detail(response: Response, problem: Json | undefined): string {
  const given = problem?.["detail"] || problem?.["title"];
  if (given) return String(given);
  if (response.status === 401 || response.status === 403) return "BOTPOOL_TOKEN is not accepted.";
  if (response.status === 404) return "BOTPOOL_CONTAINER_ID is not the container of BOTPOOL_TOKEN.";
  if (response.status >= 300 && response.status < 400) {
    const target = response.headers.location ?? "another address";
    return `BOTPOOL_URL redirects to ${target}; set server.public_url to that address.`;
  }
  return "no reason was given.";
}

/** Returns the Retry-After in seconds; a date is left to the backoff. */
function retryAfterS(response: Response): number {
  const value = response.headers["retry-after"] ?? "";
  return /^\d+$/.test(value) ? Math.min(Number(value), LONGEST_RETRY_AFTER_S) : 0;
}
