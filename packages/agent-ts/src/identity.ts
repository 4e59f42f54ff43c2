import { AgentError } from "./errors.js";

type Json = Record<string, unknown>;

/** The bot that this container runs, as the control plane describes it. */
export interface Bot {
  readonly id: number;
  /** Empty if the slot was released. */
  readonly meetingUrl: string;
  readonly botDisplayName: string;
  readonly platform: string;
  readonly correlationId: string;
  /** When a scheduled bot joins, in ISO 8601; undefined for any other bot. */
  readonly joinAt: string | undefined;
  /** The complete JSON, for fields that this client does not know. */
  readonly raw: Readonly<Json>;
}

/** The answer to the identity request. */
export interface Identity {
  readonly bot: Bot;
  readonly botData: Json;
  readonly released: boolean;
  readonly heartbeatIntervalS: number;
  /** The time until a scheduled bot joins; undefined for any other bot. */
  readonly joinInMs: number | undefined;
}

export function readIdentity(answer: Json): Identity {
  const raw = answer["bot"] as Json | undefined;
  const id = Number(raw?.["id"]);
  const intervalMs = Number(answer["heartbeatIntervalMs"]);
  if (!raw || !Number.isInteger(id) || !(intervalMs > 0)) {
    throw new AgentError(
      "The control plane's answer to the identity request is malformed: bot.id or heartbeatIntervalMs " +
        "is missing. Check that its version fits this agent's.",
    );
  }
  const text = (name: string): string => String(raw[name] ?? "");
  return {
    bot: {
      id,
      meetingUrl: text("meetingUrl"),
      botDisplayName: text("botDisplayName"),
      platform: text("platform"),
      correlationId: text("correlationId"),
      joinAt: typeof raw["joinAt"] === "string" ? raw["joinAt"] : undefined,
      raw,
    },
    botData: (answer["botData"] as Json | undefined) ?? {},
    released: answer["released"] === true,
    heartbeatIntervalS: intervalMs / 1000,
    joinInMs: milliseconds(answer["joinInMs"]),
  };
}

/** Reads a duration of an answer; undefined if it has none. */
export function milliseconds(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}
