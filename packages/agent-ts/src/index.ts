/**
 * The client inside a bot's container: identity, heartbeats, status reports, leave requests.
 *
 * It has no dependencies and needs Node 18 or later. A complete bot:
 *
 *     import { Agent, Released } from "botpool-agent";
 *
 *     try {
 *       await Agent.fromEnvironment().run(async (agent) => {
 *         agent.report("JOINING_CALL");
 *         const call = await join(agent.bot.meetingUrl, agent.bot.botDisplayName);
 *         agent.report("IN_CALL");
 *         agent.onLeave(() => call.hangUp());
 *         await call.over();
 *         agent.report("CALL_ENDED");
 *       });
 *     } catch (error) {
 *       if (!(error instanceof Released)) throw error;
 *       console.log(error.message);
 *     }
 *
 * The end of `run` reports DONE, or FAILED with the message of the error. At the start the agent waits
 * for an unreachable control plane; later outages never disturb the meeting. A wrong token or a missing
 * variable throws an `AgentError` at the start.
 */
export { Agent, type AgentOptions } from "./agent.js";
export { type BackoffOptions } from "./backoff.js";
export { type Command, type CommandCallback } from "./commands.js";
export { type Bot } from "./identity.js";
export { AgentError, Limited, Misconfigured, Refused, Released, Unavailable } from "./errors.js";
export { type LeaveCallback, type OnceEvent } from "./instructions.js";
export { type Status } from "./status.js";
