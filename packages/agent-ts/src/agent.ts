import { randomBytes } from "node:crypto";
import { type BackoffOptions, DEFAULT_BACKOFF, sleep, untilAnswered } from "./backoff.js";
import { type Command, type CommandCallback, Commands } from "./commands.js";
import { type Environment, readEnvironment } from "./environment.js";
import { AgentError, Refused, Released, Unavailable } from "./errors.js";
import { HeartbeatBody, keepHeartbeat } from "./heartbeat.js";
import { type Bot, type Identity, milliseconds, readIdentity } from "./identity.js";
import { Instructions, type LeaveCallback, type OnceEvent } from "./instructions.js";
import { JoinTime } from "./join_time.js";
import { warn } from "./log.js";
import { Outbox } from "./outbox.js";
import { SelfFence } from "./self_fence.js";
import { POLL_S, waitForAssignment } from "./standby.js";
import { checkStatus, isFinal, type Status } from "./status.js";
import { Transport } from "./transport.js";

const REASON_LENGTH = 1000;
/** How long a scheduled bot waits for the permission to join at its time. */
const PERMISSION_LIMIT_S = 2;

export interface AgentOptions {
  readonly url: string;
  readonly containerId: string;
  readonly token: string;
  /** Whether `token` is the token of a standby: the agent then waits until Botpool hands a bot over. */
  readonly onStandby?: boolean;
  readonly correlationId?: string;
  /** How long one call waits for its answer. Default 10. */
  readonly timeoutS?: number;
  /** How long the end waits for the delivery of reports. Default 900. */
  readonly finalReportLimitS?: number;
  /** How long the agent waits for SIGTERM after its end; 0 if nothing restarts containers. */
  readonly waitForStopS?: number;
  /** How long the bot stays without an answer of Botpool to a heartbeat; 0 means forever. */
  readonly selfFenceS?: number;
  /** Whether entering waits until a scheduled bot may join. Default true; else call `waitUntilJoin`. */
  readonly waitToJoin?: boolean;
  readonly backoff?: BackoffOptions;
}

/**
 * Runs one bot's assignment: identity, heartbeats, reports and the end.
 *
 * `run` is the usual way; `enter` and `exit` are its two halves. Entering requests the container's
 * identity and retries until the control plane answers. It throws `Released` when the assignment has
 * already ended, so that the bot never joins, and another `AgentError` when a retry cannot help.
 *
 * A scheduled bot (`bot.joinAt`) waits until its time: entering returns when the bot may join.
 *
 * Where the backend restarts every container that ends (`waitForStopS`), the agent then waits for
 * SIGTERM, so that the container does not start again before Botpool has stopped it.
 */
export class Agent {
  /** How long the end waits for the delivery of reports. */
  finalReportLimitS: number;
  waitForStopS: number;
  selfFenceS: number;
  /** Distinguishes this start from a restart of the container within the same assignment. */
  readonly bootId = randomBytes(16).toString("hex");
  readonly #url: string;
  readonly #timeoutS: number;
  readonly #containerId: string;
  readonly #environment: Environment | undefined;
  #transport: Transport;
  #token: string;
  #onStandby: boolean;
  readonly #backoff: BackoffOptions;
  readonly #waitsToJoin: boolean;
  readonly #joinTime = new JoinTime();
  readonly #instructions = new Instructions();
  readonly #heartbeat = new HeartbeatBody();
  readonly #commands = new Commands(this.#heartbeat);
  readonly #ended = new AbortController();
  readonly #standbyEnded = new AbortController();
  #identity: Identity | undefined;
  #outbox: Outbox | undefined;
  #fence: SelfFence | undefined;
  #endReported = false;
  #stopsItself = false;

  /** With `environment`, the agent of a standby adds the variables of its bot there. */
  constructor(options: AgentOptions, environment?: Environment) {
    this.finalReportLimitS = options.finalReportLimitS ?? 900;
    this.waitForStopS = options.waitForStopS ?? 0;
    this.selfFenceS = options.selfFenceS ?? 0;
    this.#url = options.url;
    this.#timeoutS = options.timeoutS ?? 10;
    this.#onStandby = options.onStandby ?? false;
    this.#environment = environment;
    this.#transport = new Transport(options.url, options.token, options.correlationId, this.#timeoutS);
    this.#containerId = options.containerId;
    this.#token = options.token;
    this.#backoff = options.backoff ?? DEFAULT_BACKOFF;
    this.#waitsToJoin = options.waitToJoin ?? true;
  }

  /** Creates the agent of this container; `options` take precedence over the environment. */
  static fromEnvironment(environment: Environment = process.env, options: Partial<AgentOptions> = {}): Agent {
    return new Agent({ ...readEnvironment(environment), ...options }, environment);
  }

  get bot(): Bot {
    return this.#requiredIdentity.bot;
  }

  /** The `botData` of the request for the bot. */
  get botData(): Record<string, unknown> {
    return this.#requiredIdentity.botData;
  }

  get released(): boolean {
    return this.#instructions.exitRequested.isSet;
  }

  /** Set when the bot must leave the meeting, report CALL_ENDED and end. */
  get leaveRequested(): OnceEvent {
    return this.#instructions.leaveRequested;
  }

  /** Set when the slot was released and the bot must stop at once. */
  get exitRequested(): OnceEvent {
    return this.#instructions.exitRequested;
  }

  /** Calls `callback` (plain or async) once when the bot must leave. */
  onLeave(callback: LeaveCallback): void {
    this.#instructions.onLeave(callback);
  }

  /**
   * Requests the leave from inside the container, for example in a SIGTERM handler. The agent then
   * does not wait for a stop after its last report.
   */
  leave(): void {
    this.#stopsItself = true;
    this.#standbyEnded.abort();
    this.#instructions.leave();
  }

  /**
   * Calls `callback` (plain or async) with each command to the bot, once and in order. The agent
   * acknowledges a command after its callback has ended.
   */
  onCommand(callback: CommandCallback): void {
    this.#commands.onCommand(callback);
  }

  /**
   * Reports a status; FAILED takes a readable reason, and CALL_ENDED, DONE and FAILED an `endReason`, such
   * as `alone`. Returns at once. Delivery continues in the background, in order, and survives outages.
   */
  report(status: Status, options: { reason?: string; endReason?: string } = {}): void {
    const { endReason } = options;
    checkStatus(status, options.reason, endReason);
    const failureReason = options.reason?.replaceAll(this.#token, "***").slice(0, REASON_LENGTH);
    // JSON leaves out what is undefined.
    this.#pendingReports.putStatus({ status, failureReason, endReason });
    this.#endReported ||= isFinal(status);
    if (status === "CALL_ENDED" || isFinal(status)) this.#fence?.left();
  }

  /**
   * Tells that the bot has left the call and saves its recording; a report of CALL_ENDED says the same.
   * Botpool then grants the pool's `finish_timeout_s`, which starts again whenever `progress` changes.
   */
  finishing(): void {
    this.#fence?.left();
    this.#heartbeat.finishing();
  }

  /** Sets the progress that the next heartbeats carry, such as `{ bytesUploaded: 1024 }`. */
  progress(figures: object): void {
    this.#heartbeat.progress(figures);
  }

  /**
   * Tells with the next heartbeats that the bot recorded audio or video just now. Call it at least every
   * few seconds while the bot records: a bot that is in the call and records nothing counts as stalled
   * where the pool has `stalled_after_s`.
   */
  media(): void {
    this.#heartbeat.media();
  }

  /**
   * Lists a file that the bot made, by its address or key; delivered like a status. `kind` is recording,
   * transcript, speakers, log or other.
   */
  artifact(kind: string, location: string, options: { sizeBytes?: number; contentType?: string } = {}): void {
    const { sizeBytes, contentType } = options;
    this.#pendingReports.putArtifact({ kind, location, sizeBytes, contentType });
  }

  /**
   * Sends a screenshot (PNG, JPEG or WebP, at most 512 KiB); returns false if that failed. Botpool keeps
   * the last three. A failure is logged and never ends the meeting.
   */
  async screenshot(picture: Uint8Array, note = ""): Promise<boolean> {
    const path = `/v1/agent/bots/${this.bot.id}/screenshots?note=${encodeURIComponent(note.slice(0, 200))}`;
    try {
      const answer = await this.#transport.call("POST", path, this.#ended.signal, picture);
      return (answer["screenshot"] ?? null) !== null;
    } catch (error) {
      if (!(error instanceof Refused) && !(error instanceof Unavailable)) throw error;
      warn(`A screenshot was not sent. ${error.message}`);
      return false;
    }
  }

  /** Adds an event to the bot's history; delivered like a status, at least once. */
  event(kind: string, data: object = {}): void {
    this.#pendingReports.putEvent(kind, data);
  }

  /** Adds several events. */
  events(events: Iterable<{ kind: string; data?: object }>): void {
    for (const { kind, data } of events) this.event(kind, data);
  }

  /** Waits until all reports are delivered; returns false on timeout. */
  async flush(timeoutS?: number): Promise<boolean> {
    const drained = this.#pendingReports.drained().then(() => true);
    if (timeoutS === undefined) return drained;
    const done = new AbortController();
    const timedOut = sleep(timeoutS, done.signal).then(() => false);
    return Promise.race([drained, timedOut]).finally(() => done.abort());
  }

  /** Runs the bot. The end of `body` reports DONE, or FAILED with the message of its error. */
  async run<T>(body: (agent: Agent) => Promise<T>): Promise<T> {
    await this.enter();
    let result: T;
    try {
      result = await body(this);
    } catch (error) {
      await this.exit(error);
      throw error;
    }
    await this.exit();
    return result;
  }

  async enter(): Promise<void> {
    if (this.#onStandby) await this.#waitForBot();
    const path = `/v1/agent/slot?containerId=${encodeURIComponent(this.#containerId)}&bootId=${this.bootId}`;
    const { signal } = this.#ended;
    const identify = () => this.#transport.call("GET", path, signal);
    const identity = readIdentity(await untilAnswered(identify, this.#backoff, signal));
    const { bot, heartbeatIntervalS } = identity;
    this.#identity = identity;
    this.#transport.correlationId = bot.correlationId;
    if (identity.released) {
      this.#instructions.exit();
      await this.#waitForStop();
      throw new Released(bot.id);
    }
    this.#outbox = new Outbox(this.#transport, bot.id, this.#backoff);
    const apply = (answer: Record<string, unknown>): void => this.#apply(answer);
    void keepHeartbeat(this.#transport, bot.id, heartbeatIntervalS, this.#heartbeat, apply, signal);
    if (this.selfFenceS > 0) {
      this.#fence = new SelfFence(this.selfFenceS);
      void this.#fence.keep(() => this.#instructions.leave(), signal);
    }
    if (identity.joinInMs === undefined) return;
    this.#joinTime.set(identity.joinInMs);
    if (!this.#waitsToJoin) return;
    try {
      await this.waitUntilJoin();
    } catch (error) {
      await this.exit(error);
      throw error;
    }
  }

  /**
   * Waits until a scheduled bot may join; returns at once for any other bot. At its time the agent asks
   * the control plane for permission. The answer may be a new time. Without an answer for 2 s, the bot
   * joins. Throws `Released` if the bot was cancelled, and `AgentError` if the container is stopped meanwhile.
   */
  async waitUntilJoin(): Promise<void> {
    if (this.#requiredIdentity.joinInMs === undefined) return;
    for (;;) {
      if (!(await this.#joinTime.wait(this.leaveRequested))) {
        if (this.released) throw new Released(this.bot.id);
        throw new AgentError("The container was stopped before the bot's join time.");
      }
      const answer = await this.#askToJoin();
      const joinInMs = milliseconds(answer["joinInMs"]);
      if (answer["shouldExit"]) this.#apply(answer);
      else if (answer["applied"] !== false || joinInMs === undefined) return;
      else this.#joinTime.set(joinInMs);
    }
  }

  /** Reports JOINING_CALL and returns the answer; empty if there is none in time. */
  async #askToJoin(): Promise<Record<string, unknown>> {
    const path = `/v1/agent/bots/${this.bot.id}/status`;
    const limit = AbortSignal.timeout(PERMISSION_LIMIT_S * 1000);
    try {
      return await this.#transport.call("POST", path, limit, JSON.stringify({ status: "JOINING_CALL" }));
    } catch (error) {
      if (!(error instanceof Refused) && !(error instanceof Unavailable)) throw error;
      warn(`No permission to join came in time; the bot joins. ${error.message}`);
      this.report("JOINING_CALL");
      return {};
    }
  }

  /** Reports DONE or FAILED unless the bot has reported its end; after a release it reports nothing. */
  async exit(error?: unknown): Promise<void> {
    if (!this.#endReported && !(error instanceof Released)) {
      if (error === undefined) this.report("DONE");
      else this.report("FAILED", { reason: reasonOf(error) });
    }
    // Heartbeats continue meanwhile, so that Botpool does not count the bot as lost.
    await this.flush(this.finalReportLimitS);
    await this.#waitForStop();
    if (this.#pendingReports.length > 0) {
      warn(`Dropped ${this.#pendingReports.length} reports that could not be delivered.`);
    }
    this.#pendingReports.close();
    this.#ended.abort();
  }

  /** Waits on standby until Botpool hands a bot over, and continues as this bot's agent. */
  async #waitForBot(): Promise<void> {
    const standby = new Transport(this.#url, this.#token, undefined, POLL_S + this.#timeoutS);
    const assignment = await waitForAssignment(standby, this.bootId, this.#standbyEnded.signal);
    if (!assignment) {
      this.#instructions.exit();
      await this.#waitForStop();
      throw new Released(undefined);
    }
    if (this.#environment) Object.assign(this.#environment, assignment.environment);
    this.#onStandby = false;
    this.#token = assignment.token;
    this.#transport = new Transport(this.#url, this.#token, undefined, this.#timeoutS);
  }

  async #waitForStop(): Promise<void> {
    if (!this.waitForStopS || this.#stopsItself) return;
    const stopped = new AbortController();
    const stop = (): void => stopped.abort();
    process.once("SIGTERM", stop);
    await sleep(this.waitForStopS, stopped.signal);
    process.off("SIGTERM", stop);
  }

  #apply(answer: Record<string, unknown>): void {
    this.#fence?.answered();
    if (answer["shouldExit"]) {
      this.#pendingReports.close();
      this.#instructions.exit();
      return;
    }
    const joinInMs = milliseconds(answer["joinInMs"]);
    if (answer["shouldLeave"]) this.#instructions.leave();
    else if (joinInMs !== undefined) this.#joinTime.set(joinInMs);
    this.#commands.receive((answer["commands"] as Command[] | undefined) ?? []);
  }

  get #requiredIdentity(): Identity {
    if (!this.#identity) throw new Error("the agent is used inside run()");
    return this.#identity;
  }

  get #pendingReports(): Outbox {
    if (!this.#outbox) throw new Error("the agent is used inside run()");
    return this.#outbox;
  }
}

function reasonOf(error: unknown): string {
  return (error instanceof Error ? error.message || error.name : String(error)) || "The bot failed.";
}
