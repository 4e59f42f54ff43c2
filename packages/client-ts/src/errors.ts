/** The errors of the client. */

/** The server refused the request; `message` is its explanation. */
export class Refused extends Error {
  readonly status: number;
  /** The message of each field that is not valid. */
  readonly fields: Record<string, string>;
  /** How long to wait before a retry, for 429 and 503. */
  readonly retryAfterMs: number | null;

  constructor(
    status: number,
    detail: string,
    fields: Record<string, string> = {},
    retryAfterMs: number | null = null,
  ) {
    super(detail);
    this.name = "Refused";
    this.status = status;
    this.fields = fields;
    this.retryAfterMs = retryAfterMs;
  }
}

/** The server did not answer. It may have carried out the request. */
export class Unreachable extends Error {
  constructor(url: string, cause: unknown) {
    super(`${url} does not answer: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.name = "Unreachable";
  }
}

/** A bot ended before it reached the wanted status. */
export class BotEnded extends Error {
  readonly botId: number;
  readonly status: string;

  constructor(botId: number, status: string, reason: string | null) {
    super(`Bot ${botId} ended as ${status}${reason ? `: ${reason}` : ""}`);
    this.name = "BotEnded";
    this.botId = botId;
    this.status = status;
  }
}

/** The wanted status did not come in time. */
export class WaitedTooLong extends Error {
  constructor(botId: number, status: string, afterMs: number) {
    super(`Bot ${botId} is still ${status} after ${Math.round(afterMs / 1000)} s`);
    this.name = "WaitedTooLong";
  }
}
