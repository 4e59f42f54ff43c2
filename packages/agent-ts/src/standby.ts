import { type BackoffOptions, untilAnswered } from "./backoff.js";
import type { Transport } from "./transport.js";

/** How long one poll waits for a bot. */
export const POLL_S = 30;

/** Short delays: a container without an open poll gets no bot. */
export const POLL_BACKOFF: BackoffOptions = { firstS: 0.2, capS: 2 };

/** The assignment that a container on standby gets. */
export interface StandbyAssignment {
  readonly token: string;
  /** The variables that a container of this bot would start with. */
  readonly environment: Readonly<Record<string, string>>;
}

/**
 * Waits, in a container that Botpool started before it had a bot, until it has one. One long poll is always
 * open; a lost answer comes again with the next poll. Returns undefined if this container gets no bot any more, or
 * if the signal is aborted, because the container stops.
 */
export async function waitForAssignment(
  transport: Transport,
  bootId: string,
  signal: AbortSignal,
): Promise<StandbyAssignment | undefined> {
  const path = `/v1/agent/assignment?wait=${POLL_S}&bootId=${bootId}`;
  for (;;) {
    const poll = () => transport.call("GET", path, signal);
    const answer = await untilAnswered(poll, POLL_BACKOFF, signal).catch((error: unknown): Record<string, unknown> => {
      if (signal.aborted) return { shouldExit: true };
      throw error;
    });
    if (answer["shouldExit"]) return undefined;
    const found = answer["assignment"] as { token?: unknown; environment?: object } | null | undefined;
    if (typeof found?.token !== "string") continue;
    return { token: found.token, environment: { ...(found.environment as Record<string, string>) } };
  }
}
