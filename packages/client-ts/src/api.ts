// Written by scripts/client-ts-reference from the OpenAPI document: change nothing here by hand.

/** A request to the server; `Botpool` sends it. */
export interface Call {
  method: string;
  path: string;
  query?: object | undefined;
  body?: unknown;
  headers?: Record<string, string> | undefined;
  accept: "json" | "text" | "bytes";
}

export interface Activity {
  minutes: Array<PoolSample>;
}

/** A file that the bot made. Botpool stores the reference, not the file. */
export interface Artifact {
  kind: ArtifactKind;
  /** The address of the file, or its key in the bot's storage. */
  location: string;
  sizeBytes: number | null;
  contentType: string | null;
  at: string;
}

export type ArtifactKind = "recording" | "transcript" | "speakers" | "log" | "other";

export interface Artifacts {
  artifacts: Array<Artifact>;
}

/** One bot in one slot, once. */
export interface Assignment {
  assignmentId: number;
  botId: number;
  botStatus: BotStatus;
  claimedAt: string;
  startedAt: string | null;
  endedAt: string | null;
  releasedAt: string | null;
  failureCode: FailureCode | null;
  failureReason: string | null;
}

export interface Assignments {
  assignments: Array<Assignment>;
  /** Null on the last page. */
  nextCursor?: string | null;
}

/** One action: who did what to which target, from which address. */
export interface AuditEntry {
  id: number;
  at: string;
  /** The name of the key; `cli` for a command at the database. */
  actor: string;
  actorKeyId: number | null;
  tenant: string | null;
  action: string;
  target: string;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  address: string | null;
  correlationId: string | null;
}

/** A page of the audit log, newest first. */
export interface AuditPage {
  entries: Array<AuditEntry>;
  /** Null on the last page. */
  nextCursor?: string | null;
}

export interface BackendHealth {
  ok: boolean;
  detail: string;
}

/** A scheduled bot and the period for which it needs a slot. */
export interface Booking {
  botId: number;
  status: BotStatus;
  reserved: boolean;
  /** When its deployment starts. */
  startsAt: string;
  joinAt: string;
  /** When its slot is expected to be free. */
  endsAt: string;
  onTimeProbability: number | null;
  atRisk: string | null;
}

/** A bot. Times are null until the event happens. */
export interface Bot {
  id: number;
  /** In every log line and event of the bot. */
  correlationId: string;
  /** The pool name. */
  platform: string;
  meetingUrl: string;
  botDisplayName: string;
  status: BotStatus;
  priority: number;
  /** The last slot; kept after the end. */
  slotName: string | null;
  containerId: string | null;
  /** Deployments so far. */
  attempts: number;
  failureReason: string | null;
  /** Set if FAILED. */
  failureCode: FailureCode | null;
  /** Why the call ended, if the agent reported it. */
  endReason: EndReason | null;
  /** The files that the bot listed. */
  artifactCount: number;
  createdAt: string;
  queuedAt: string | null;
  assignedAt: string | null;
  /** When the container ran. */
  startedAt: string | null;
  lastHeartbeatAt: string | null;
  /** When the bot began to finish: after its call, it saves its recording. */
  finishingAt: string | null;
  endedAt: string | null;
  /** The tenant that owns the bot. */
  tenant: string;
  createdBy: CreatedBy | null;
  /** In the call and alive, but without media for `stalled_after_s`. */
  stalled: boolean;
  /** When a scheduled bot joins. */
  joinAt: string | null;
  /** Whether a slot is reserved for a scheduled bot. */
  reserved: boolean | null;
  /** The predicted probability that a scheduled bot joins on time. */
  onTimeProbability: number | null;
  /** Why a scheduled bot will probably be late; null while it will not. */
  atRisk: string | null;
}

/** Changes of a bot before its start. An absent field stays as it is. */
export interface BotChanges {
  /** The new time, with an offset from UTC. */
  joinAt?: string;
  /** Lower goes first. */
  priority?: number;
  botDisplayName?: string;
}

export interface BotCreate {
  /** The link of the meeting. */
  meetingUrl: string;
  botDisplayName?: string;
  /** The pool name. Default: derived from the host of the meeting link. */
  platform?: string | null;
  /** Lower goes first. */
  priority?: number;
  /** Any JSON object up to 64 KiB, passed to the container. */
  botData?: Record<string, unknown>;
  /** Maximum time in the queue. 0: do not queue. */
  queueTimeoutMs?: number;
  /** When the bot joins, with an offset from UTC. The bot is SCHEDULED until its container starts, early enough to be there on time. */
  joinAt?: string | null;
  /** How long the call will probably last, with `joinAt`. Default: the p90 of the pool's recent bots. */
  expectedDurationMs?: number | null;
  /** With `joinAt`: refuse the request with 409 and the nearest free time if no slot can be reserved. */
  requireReservation?: boolean;
}

export interface BotPage {
  bots: Array<Bot>;
  /** Null on the last page. */
  nextCursor?: string | null;
}

export interface BotResponse {
  bot: Bot;
  /** Only while QUEUED. */
  queuePosition?: number | null;
  /** Only while QUEUED. */
  estimatedWaitMs?: number | null;
  /** Only in the response to the request, and only while the pool's backend fails: the setting at fault and the reason. */
  warning?: string | null;
  /** Only in `GET /v1/bots/{id}`: the figures that the bot's heartbeats carried last, if any. */
  progress?: Record<string, unknown> | null;
  /** Only in `GET /v1/bots/{id}`: when the bot last recorded media, if its heartbeats say so. */
  lastMediaAt?: string | null;
}

export type BotStatus = "SCHEDULED" | "PENDING" | "QUEUED" | "DEPLOYING" | "JOINING_CALL" | "IN_WAITING_ROOM" | "IN_CALL" | "LEAVING" | "CALL_ENDED" | "DONE" | "FAILED" | "CANCELLED";

/** The state of an egress's circuit breaker. */
export type Breaker = "closed" | "open" | "half_open";

/** The rows and containers that a cleanup handled. */
export interface CleanupCounts {
  released: number;
  expired: number;
  deletedContainers: number;
  prunedRows: number;
}

export interface Command {
  id: number;
  kind: string;
  data: Record<string, unknown>;
  state: CommandState;
  at: string;
  deliveredAt: string | null;
  acknowledgedAt: string | null;
}

export interface CommandCreate {
  kind: string;
  /** Any JSON object up to 8 KiB. */
  data?: Record<string, unknown>;
}

export interface CommandResponse {
  command: Command;
}

/** How far a command has come. - `waiting`: no heartbeat's response contained it yet - `delivered`: a response contained it; the agent has not acknowledged it - `acknowledged`: the agent has it - `lost`: the bot ended before its agent acknowledged it */
export type CommandState = "waiting" | "delivered" | "acknowledged" | "lost";

export interface Commands {
  commands: Array<Command>;
  nextCursor?: string | null;
}

export interface Comparison {
  old: RevisionFigures;
  new: RevisionFigures;
  measures: Array<MeasureComparison>;
  /** How sure Botpool is that no measure is worse; it promotes at 0.95. */
  sureness: number;
  botsNeeded: number;
}

/** The API key that created a bot. */
export interface CreatedBy {
  keyId: number;
  keyName: string;
}

/** A page of deliveries, newest first. */
export interface Deliveries {
  deliveries: Array<Delivery>;
  /** Null on the last page. */
  nextCursor?: string | null;
}

/** An event for a webhook, with its last attempt. */
export interface Delivery {
  id: number;
  /** The `webhook-id`: the same in all attempts. */
  eventId: string;
  type: EventType;
  botId: number | null;
  status: DeliveryStatus;
  attempts: number;
  createdAt: string;
  lastAttemptAt: string | null;
  /** Null when finished, and while an earlier event of the bot is pending. */
  nextAttemptAt: string | null;
  durationMs: number | null;
  request: DeliveryRequest;
  /** Null without an answer. */
  response: DeliveryResponse | null;
  /** Why the last attempt failed. */
  problem: string | null;
}

export interface DeliveryRequest {
  method?: "POST";
  url: string;
  /** Without the timestamp and the signatures. */
  headers: Record<string, string>;
  /** The event. */
  body: Record<string, unknown>;
}

export interface DeliveryResponse {
  status: number;
  /** The first 2 KiB. */
  body: string;
}

export interface DeliveryResult {
  delivery: Delivery;
}

/** The state of a delivery. - `pending`: an attempt follows, or an earlier event of the same bot is still pending - `delivered`: the endpoint answered with a 2xx status - `failed`: the last attempt failed. `replay` delivers the event again */
export type DeliveryStatus = "pending" | "delivered" | "failed";

/** Why a bot's call ended, as its agent reports it. - `denied`: the host refused the bot - `lobby_timeout`: the host did not admit the bot from the waiting room - `removed`: a participant removed the bot from the call - `alone`: the other participants did not come, or left - `meeting_ended`: the meeting was over - `sign_in_required`: the meeting admits only signed-in participants - `blocked`: the meeting's provider blocks the bot, for example with a captcha - `left`: the bot left because it was asked to - `unknown`: the agent does not know */
export type EndReason = "denied" | "lobby_timeout" | "removed" | "alone" | "meeting_ended" | "sign_in_required" | "blocked" | "left" | "unknown";

/** One row of history. */
export interface Event {
  at: string;
  /** `bot.status`, `slot.phase`, `agent.…` and others. */
  kind: string;
  from: string | null;
  to: string | null;
  slotName: string | null;
  reason: string;
  data: Record<string, unknown> | null;
}

/** The types of events. - `bot.scheduled`: the bot waits for its `joinAt` - `bot.queued`: the bot waits for a slot, for the first time or after a failed start - `bot.started`: the bot's container runs, and the bot begins to join - `bot.joined`: the bot reached the meeting and waits to be admitted. A bot that is admitted at once has no such event - `bot.in_call`: the bot is in the call - `bot.call_ended`: the call is over; the bot may still save its recording - `bot.done`: the bot ended as planned - `bot.failed`: the bot failed - `bot.cancelled`: the bot was stopped before its end - `bot.at_risk`: the bot may not join in time - `bot.stalled`: the bot is in the call but has recorded nothing for the pool's `stalled_after_s` - `bot.artifact_added`: the bot listed a file - `pool.degraded`: many bots of a pool are silent, or the meetings' provider blocks bots */
export type EventType = "bot.scheduled" | "bot.queued" | "bot.started" | "bot.joined" | "bot.in_call" | "bot.call_ended" | "bot.done" | "bot.failed" | "bot.cancelled" | "bot.at_risk" | "bot.stalled" | "bot.artifact_added" | "pool.degraded";

export interface Events {
  events: Array<Event>;
  /** Null on the last page. */
  nextCursor?: string | null;
}

/** Why a bot failed. - `queue_timeout`: no slot became free before the bot's deadline - `deploy_failed`: the container did not start, and no attempt remains - `heartbeat_lost`: the bot ran, then its heartbeats stopped - `container_exited`: the container exited before the bot reported its end - `max_duration`: the bot reached `bots.max_duration_s` - `finish_timeout`: the call ended, but the bot did not finish in `finish_timeout_s` - `meeting_failed`: the agent reported a failure, such as a refusal by the host - `blocked`: the agent reported that the meeting's provider blocks the bot - `operator`: an operator released, recovered or deleted the slot - `internal`: an unexpected error in Botpool, which is in its log */
export type FailureCode = "queue_timeout" | "deploy_failed" | "heartbeat_lost" | "container_exited" | "max_duration" | "finish_timeout" | "meeting_failed" | "blocked" | "operator" | "internal";

export interface Key {
  id: number;
  name: string;
  scope: string;
  /** The owner of the bots that the key creates. */
  tenant: string;
  /** The first characters of the key. */
  prefix: string;
  createdAt: string;
  /** Null: never. */
  expiresAt: string | null;
  revokedAt: string | null;
  /** Some minutes old at most. */
  lastUsedAt: string | null;
  /** After a rotation: until when the former secret is valid. */
  overlapEndsAt: string | null;
  /** The lowest `priority` that requests with this key may have. */
  minPriority: number;
}

export interface KeyCreate {
  name: string;
  scope?: "user" | "operator" | "admin";
  /** The owner of the bots that the key creates. A key of scope `user` sees only bots of its tenant. */
  tenant?: string;
  /** Null: the key never expires. */
  expiresInMs?: number | null;
  /** The lowest `priority` that requests with this key may have. Default: 0 for scope `user`, else none. */
  minPriority?: number | null;
}

export interface KeyRotation {
  /** How long the former secret stays valid. */
  overlapMs?: number;
}

export interface Keys {
  keys: Array<Key>;
}

export type Measure = "failed_starts" | "slow_starts" | "early_exits" | "not_in_call";

export interface MeasureComparison {
  /** `slow_starts`: longer than 1.5 times the old revision's p95. `early_exits`: within 5 minutes after the start. */
  measure: Measure;
  old: Tally;
  new: Tally;
  /** How probable it is that the new revision is worse by more than the tolerance. */
  probabilityWorse: number;
  /** Bots of the new revision that the comparison needs to be sure. */
  botsNeeded: number;
}

export interface NewKey {
  key: Key;
  /** The key itself. Botpool does not show it again. */
  secret: string;
}

/** A webhook with its secret, which no later response contains. */
export interface NewWebhook {
  webhook: Webhook;
  /** Verifies signatures. */
  secret: string;
}

/** Outcomes of scheduled bots whose predicted probability lies in one tenth. */
export interface OnTimeScore {
  /** 9: from 0.9 to 1. */
  bucket: number;
  reserved: boolean;
  bots: number;
  onTime: number;
  /** The mean prediction. */
  predicted: number;
  /** The mean squared difference to the outcome; 0 is perfect. */
  brier: number;
}

export interface Pacing {
  egress: string;
  /** Starts per minute that are allowed now. */
  perMinute: number;
  configuredPerMinute: number;
  /** The circuit breaker: `open` starts no bots, `half_open` waits for the outcome of one bot, the probe. */
  breaker: Breaker;
  /** When the next probe may start; null if closed. */
  probeAt: string | null;
  blocksInARow: number;
}

export type Phase = "scheduled" | "waiting" | "creating" | "image" | "starting" | "joining" | "in_call" | "finishing" | "releasing";

export interface Plan {
  /** The pool name. */
  platform: string;
  sinceAt: string;
  untilAt: string;
  bots: number;
  slo: number;
  withinMs: number;
  policies: Array<PlanPolicy>;
  /** The policy that reaches the goal with the fewest hot slot hours. */
  recommended: string | null;
  advice: string;
}

export interface PlanPolicy {
  name: string;
  maxSize: number;
  onTimeShare: number;
  /** From the request to a running container. */
  p50Ms: number;
  p95Ms: number;
  p99Ms: number;
  /** Null for the record itself. */
  longestQueue: number | null;
  idleSlotHoursPerDay: number | null;
  hotSlotHoursPerDay: number | null;
  meetsGoal: boolean;
  /** The policy as settings to paste. */
  settings: string | null;
}

export interface PlanResponse {
  plan: Plan;
}

export interface Pool {
  /** The pool name. */
  platform: string;
  backend: string;
  backendHealth: BackendHealth;
  image: string;
  /** The image in the settings, if a promoted rollout replaced it; null if not. */
  configuredImage: string | null;
  /** Slots that exist. */
  size: number;
  maxSize: number;
  slotsByStatus: Record<string, number>;
  /** Releasing slots whose stop cannot be confirmed. */
  unconfirmedStops: number;
  queueDepth: number;
  oldestWaitMs: number | null;
  /** Share of the last 1,000 bots whose slot already had a container. */
  warmHitRatio: number | null;
  /** From assignment to a running container. */
  timeToRunningP50Ms: number | null;
  timeToRunningP95Ms: number | null;
  /** The pool refuses new bots. */
  drained: boolean;
  /** The settings do not contain the pool any more: it refuses new bots. */
  removed: boolean;
  /** The pace of starts; null if the pool is not paced. */
  pacing: Pacing | null;
  /** The slots that the pool keeps ready; null if it keeps none. */
  warm: WarmFloors | null;
}

export interface PoolResponse {
  pool: Pool;
}

export interface PoolSample {
  at: string;
  arrivals: number;
  /** Maximum in that minute; null if no replica ran. */
  queueDepth: number | null;
  /** By status, at the last sample. */
  slots: Record<string, number> | null;
  /** For bots that started to run in that minute. */
  timeToRunningP50Ms: number | null;
  timeToRunningP95Ms: number | null;
}

export interface Pools {
  pools: Array<Pool>;
}

export interface Queue {
  queue: Array<QueueEntry>;
  /** Null on the last page. */
  nextCursor?: string | null;
}

export interface QueueEntry {
  botId: number;
  /** The pool name. */
  platform: string;
  priority: number;
  position: number;
  queuedAt: string;
  timeoutAt: string;
  estimatedWaitMs: number | null;
}

/** The slots that a recovery pass handled. */
export interface RecoveryCounts {
  recovered: number;
  requeued: number;
  failed: number;
  deleted: number;
  skipped: number;
}

/** An image with its settings. */
export interface Revision {
  /** With its digest where the backend resolves one, as Docker does. */
  image: string;
  cpus: number;
  memoryMb: number;
}

export interface RevisionFigures {
  assignments: number;
  timeToRunningP50Ms: number | null;
  timeToRunningP95Ms: number | null;
}

/** The rollout of a new revision in a pool. */
export interface Rollout {
  id: number;
  /** The pool name. */
  platform: string;
  state: RolloutState;
  old: Revision;
  new: Revision;
  canaryShare: number;
  bakeMs: number;
  tolerance: number;
  startedBy: string;
  startedAt: string;
  /** When the first bot could get it. */
  canaryAt: string | null;
  endedAt: string | null;
  /** Why it was promoted or rolled back. */
  reason: string | null;
  /** What it waits for until its end. */
  waitsFor: string | null;
  /** Both revisions side by side; null before the canary. */
  comparison: Comparison | null;
}

/** A request for a rollout. */
export interface RolloutCreate {
  /** The new image, with a tag of its own or with its digest. */
  image: string;
  /** Default: the pool's. */
  cpus?: number | null;
  /** Default: the pool's. */
  memoryMb?: number | null;
  /** The share of assignments that the new revision gets first. */
  canaryShare?: number;
  /** The shortest time of the canary before the promotion. */
  bakeMs?: number;
  /** By how much a share of failures may rise: 0.1 are 10 percentage points. A smaller tolerance needs more bots. */
  tolerance?: number;
}

export interface RolloutResponse {
  rollout: Rollout;
}

/** The state of a rollout. - `pulling`: a slot without a bot starts the new revision once, so that its image is present - `canary`: the new revision gets its share of assignments - `promoted`: the new revision is the pool's - `rolled_back`: the old revision is the pool's */
export type RolloutState = "pulling" | "canary" | "promoted" | "rolled_back";

export interface Rollouts {
  rollouts: Array<Rollout>;
}

export interface Schedule {
  now: string;
  maxSize: number;
  /** How many bookings may overlap. */
  reservableSlots: number;
  /** Idle slots that are held for bookings now. */
  held: number;
  holdS: number;
  slices: Array<ScheduleSlice>;
  /** At most 500, earliest first. */
  bookings: Array<Booking>;
  /** Predicted against actual, of the last 1,000 scheduled bots. */
  score: Array<OnTimeScore>;
}

/** The most bookings at one time in ten minutes. */
export interface ScheduleSlice {
  from: string;
  to: string;
  /** With and without a reservation. */
  booked: number;
  reserved: number;
}

/** A screenshot; `GET /v1/bots/{id}/screenshots/{number}` returns the picture. */
export interface Screenshot {
  number: number;
  contentType: string;
  sizeBytes: number;
  /** What the agent says about it; may be empty. */
  note: string;
  at: string;
}

export interface Screenshots {
  screenshots: Array<Screenshot>;
}

export interface Slot {
  id: number;
  name: string;
  /** The pool name. */
  platform: string;
  status: SlotStatus;
  /** Set while deploying. */
  phase: SlotPhase | null;
  assignedBotId: number | null;
  containerId: string | null;
  image: string;
  lastAssignedAt: string | null;
  lastReleasedAt: string | null;
  lastUsedAt: string | null;
  /** Failed resets since the slot was busy. */
  recoveryAttempts: number;
  skippedRecoveries: number;
  errorMessage: string | null;
  /** Why the stop of the slot's container cannot be confirmed. Until it can, the slot stays `releasing` and takes no bot. */
  unconfirmedReason: string | null;
  /** The unreachable node, if that is the reason. */
  unconfirmedNode: string | null;
  /** Since when the node is unreachable. */
  unconfirmedSince: string | null;
  /** The state of a container that runs without a bot: `starting`, `ready` (it waits for a bot: the slot is hot) or `stopping`. Null for other slots. */
  standby: Standby | null;
  /** Since when the container waits for a bot. */
  standbySince: string | null;
  cordoned: boolean;
  createdAt: string;
}

export interface SlotEvent {
  at: string;
  /** `bot.status`, `slot.phase`, `agent.…` and others. */
  kind: string;
  from: string | null;
  to: string | null;
  slotName: string | null;
  reason: string;
  data: Record<string, unknown> | null;
  botId: number | null;
}

export interface SlotHistory {
  events: Array<SlotEvent>;
  /** Null on the last page. */
  nextCursor?: string | null;
}

/** The phase of a deploying slot, in the order of the steps. `handing_over` replaces them if a standby has the bot, and did not accept it yet. */
export type SlotPhase = "creating" | "waiting_for_image" | "waiting_for_start" | "starting" | "handing_over";

export interface SlotResponse {
  slot: Slot;
}

export type SlotStatus = "idle" | "deploying" | "busy" | "releasing" | "error" | "deleting";

export interface Slots {
  slots: Array<Slot>;
  /** Null on the last page. */
  nextCursor?: string | null;
}

/** The state of a slot's container that runs without a bot. - `starting`: no poll of its agent is open - `ready`: its agent waits for a bot with an open poll - `stopping`: Botpool stops it - `pulling`: it only brings the image of a rollout to the image host, and never gets a bot */
export type Standby = "starting" | "ready" | "stopping" | "pulling";

export interface Tally {
  failures: number;
  /** Bots with an outcome, failures included. */
  bots: number;
  /** Bots whose outcome is still open. */
  pending: number;
}

export interface Tenant {
  name: string;
  weight: number;
  /** Null: no limit. */
  maxLive: number | null;
  /** Null: no limit. */
  maxQueued: number | null;
  /** Null: the limit is `maxLive`. */
  maxBooked: number | null;
  /** Null: no limit. */
  postsPerMinute: number | null;
  /** Bots in slots now. */
  live: number;
  /** Bots in queues now. */
  queued: number;
  createdAt: string;
}

export interface TenantCreate {
  /** The share of a pool when bots of several tenants wait. */
  weight?: number;
  /** Bots in slots at the same time. */
  maxLive?: number | null;
  /** Bots in queues at the same time. */
  maxQueued?: number | null;
  /** Slots reserved for the same time; at most `maxLive`, its default. */
  maxBooked?: number | null;
  /** Requests for bots in a minute. */
  postsPerMinute?: number | null;
  name: string;
}

export interface TenantResponse {
  tenant: Tenant;
}

/** The weight and the quotas of a tenant. Null: no limit. */
export interface TenantUpdate {
  /** The share of a pool when bots of several tenants wait. */
  weight?: number;
  /** Bots in slots at the same time. */
  maxLive?: number | null;
  /** Bots in queues at the same time. */
  maxQueued?: number | null;
  /** Slots reserved for the same time; at most `maxLive`, its default. */
  maxBooked?: number | null;
  /** Requests for bots in a minute. */
  postsPerMinute?: number | null;
}

export interface Tenants {
  tenants: Array<Tenant>;
}

export interface Timeline {
  phases: Array<TimelineBar>;
}

export interface TimelineBar {
  phase: Phase;
  from: string;
  /** Null while the phase lasts. */
  to: string | null;
}

export interface WarmFloors {
  /** How many slots should be hot now. */
  hotTarget: number;
  /** Hot slots: their container waits for a bot. */
  hotReady: number;
  hotStarting: number;
  /** How many idle slots should have a container and their image on disk. */
  idleTarget: number;
  /** Slots that have both, hot ones included. */
  idleReady: number;
  /** Why the targets are what they are: floor, window, scheduled bots. */
  reason: string;
  /** Why a target is not reached; null if Botpool refills it. */
  problem: string | null;
}

export interface Webhook {
  id: number;
  url: string;
  description: string;
  /** Null: all types. */
  events: Array<EventType> | null;
  /** Null: all tenants. */
  tenant: string | null;
  /** `failing`: no attempt succeeded since `failingSince`. */
  status: "active" | "failing" | "disabled";
  disabledAt: string | null;
  disabledReason: string | null;
  failingSince: string | null;
  lastDeliveredAt: string | null;
  /** No attempt before: the endpoint asked for it, or failed repeatedly. */
  pausedUntil: string | null;
  /** Until then the former secret signs, too. */
  overlapEndsAt: string | null;
  /** Deliveries that are not finished. */
  pending: number;
  /** Deliveries without an attempt left. */
  failed: number;
  createdAt: string;
  /** The name of the key that created it. */
  createdBy: string;
}

export interface WebhookCreate {
  /** The address that gets the events: http or https, without a password. */
  url: string;
  /** The types of events; absent: all. */
  events?: Array<EventType> | null;
  description?: string;
  /** The only tenant whose events the webhook gets. A key of scope `user` can name only its own, which is its default; the default of operators is all tenants. */
  tenant?: string | null;
}

/** Which events to deliver again. Without fields: all deliveries that failed. */
export interface WebhookReplay {
  /** One event, by its `webhook-id`. */
  eventId?: string | null;
  /** All events since this time, as far as history goes. */
  since?: string | null;
}

export interface WebhookResponse {
  webhook: Webhook;
}

export interface WebhookRotation {
  /** How long the former secret signs, too. */
  overlapMs?: number;
}

export interface WebhookTest {
  /** The type whose example is sent. */
  event?: EventType;
}

export interface Webhooks {
  webhooks: Array<Webhook>;
}

/** A method for each call of users, operators and admins. */
export abstract class Api {
  protected abstract call<T>(call: Call): Promise<T>;

  /** List the actions of keys and commands, newest first. `nextCursor` leads to the next page. */
  listAudit(query: { actor?: string | null | undefined; action?: string | null | undefined; target?: string | null | undefined; tenant?: string | null | undefined; limit?: number | undefined; cursor?: string | null | undefined } = {}): Promise<AuditPage> {
    return this.call({ method: "GET", path: `/v1/audit`, query, accept: "json" });
  }

  /** List bots, newest first. `nextCursor` leads to the next page. `containerId` and `slotName` list the bots that ran there: the bot that is assigned now, then its predecessors, by assignment. A key of scope `user` gets the bots of its own tenant. A search, and a list of the default tenant beside other tenants, reads 100,000 bots per request, so a page can be short or empty and still have a `nextCursor`. */
  listBots(query: { status?: BotStatus | null | undefined; platform?: string | null | undefined; search?: string | null | undefined; containerId?: string | null | undefined; slotName?: string | null | undefined; tenant?: string | null | undefined; limit?: number | undefined; cursor?: string | null | undefined } = {}): Promise<BotPage> {
    return this.call({ method: "GET", path: `/v1/bots`, query, accept: "json" });
  }

  /** Send a bot into a meeting. The response does not wait for the backend. */
  createBot(body: BotCreate, headers?: Record<string, string>): Promise<BotResponse> {
    return this.call({ method: "POST", path: `/v1/bots`, body, headers, accept: "json" });
  }

  /** Stop a bot. A queued or deploying bot is cancelled; a running bot is asked to leave. */
  stopBot(id: number): Promise<BotResponse> {
    return this.call({ method: "DELETE", path: `/v1/bots/${encodeURIComponent(id)}`, accept: "json" });
  }

  /** Get a bot in its current state, with its queue position while it is queued. */
  getBot(id: number): Promise<BotResponse> {
    return this.call({ method: "GET", path: `/v1/bots/${encodeURIComponent(id)}`, accept: "json" });
  }

  /** Change a bot before its start. A changed `joinAt` changes the booking too. `priority` and `botDisplayName` can change until the bot has a slot, `joinAt` until it joins. After that: 409, which says what happened. */
  updateBot(id: number, body: BotChanges): Promise<BotResponse> {
    return this.call({ method: "PATCH", path: `/v1/bots/${encodeURIComponent(id)}`, body, accept: "json" });
  }

  /** List the files that the bot made, in the bot's order. The bot's storage has the files. */
  listArtifacts(id: number): Promise<Artifacts> {
    return this.call({ method: "GET", path: `/v1/bots/${encodeURIComponent(id)}/artifacts`, accept: "json" });
  }

  /** List the commands to a bot with their states, oldest first. */
  listCommands(id: number, query: { limit?: number | undefined; cursor?: string | null | undefined } = {}): Promise<Commands> {
    return this.call({ method: "GET", path: `/v1/bots/${encodeURIComponent(id)}/commands`, query, accept: "json" });
  }

  /** Send a command to a bot, for example `chat` with a `text`. The bot's next heartbeat receives it, after the earlier ones and at least once. What a command does is up to the bot. */
  sendCommand(id: number, body: CommandCreate): Promise<CommandResponse> {
    return this.call({ method: "POST", path: `/v1/bots/${encodeURIComponent(id)}/commands`, body, accept: "json" });
  }

  /** Get the bot's history. `nextCursor` leads to the next page. A page has at most 1 MiB of data, so it can be short and still have a `nextCursor`. */
  botEvents(id: number, query: { order?: "oldest" | "newest" | undefined; limit?: number | undefined; cursor?: string | null | undefined } = {}): Promise<Events> {
    return this.call({ method: "GET", path: `/v1/bots/${encodeURIComponent(id)}/events`, query, accept: "json" });
  }

  /** Get the output of the bot's container as text. The output ends when the key is revoked or expires, and when the session ends. */
  botLogs(id: number, query: { tail?: number | null | undefined; follow?: boolean | undefined } = {}): Promise<string> {
    return this.call({ method: "GET", path: `/v1/bots/${encodeURIComponent(id)}/logs`, query, accept: "text" });
  }

  /** List the last three screenshots that the bot's agent sent, oldest first. */
  listScreenshots(id: number): Promise<Screenshots> {
    return this.call({ method: "GET", path: `/v1/bots/${encodeURIComponent(id)}/screenshots`, accept: "json" });
  }

  /** Get a screenshot as a picture. */
  getScreenshot(id: number, number: number): Promise<Uint8Array> {
    return this.call({ method: "GET", path: `/v1/bots/${encodeURIComponent(id)}/screenshots/${encodeURIComponent(number)}`, accept: "bytes" });
  }

  /** Get the phases of the bot, oldest first. Every deployment attempt has its own phases. */
  botTimeline(id: number): Promise<Timeline> {
    return this.call({ method: "GET", path: `/v1/bots/${encodeURIComponent(id)}/timeline`, accept: "json" });
  }

  /** List all API keys, without their secrets. */
  listKeys(): Promise<Keys> {
    return this.call({ method: "GET", path: `/v1/keys`, accept: "json" });
  }

  /** Create an API key. Only this response contains the secret. */
  createKey(body: KeyCreate): Promise<NewKey> {
    return this.call({ method: "POST", path: `/v1/keys`, body, accept: "json" });
  }

  /** Revoke an API key. All replicas refuse it after ten seconds at most. */
  revokeKey(id: number): Promise<Key> {
    return this.call({ method: "DELETE", path: `/v1/keys/${encodeURIComponent(id)}`, accept: "json" });
  }

  /** Give an API key a new secret. The former one stays valid until the overlap ends. The key keeps its id, its sessions and its idempotency keys, and its lifetime begins anew. */
  rotateKey(id: number, body: KeyRotation): Promise<NewKey> {
    return this.call({ method: "POST", path: `/v1/keys/${encodeURIComponent(id)}/rotate`, body, accept: "json" });
  }

  /** Run the cleanup now. `force` deletes stray containers even if there are many of them. */
  cleanup(query: { force?: boolean | undefined } = {}): Promise<CleanupCounts> {
    return this.call({ method: "POST", path: `/v1/maintenance/cleanup`, query, accept: "json" });
  }

  /** Run the recovery pass now and return its counts. */
  recover(): Promise<RecoveryCounts> {
    return this.call({ method: "POST", path: `/v1/maintenance/recover`, accept: "json" });
  }

  /** List all pools with their figures. */
  listPools(): Promise<Pools> {
    return this.call({ method: "GET", path: `/v1/pools`, accept: "json" });
  }

  /** Get one pool with its figures. */
  getPool(platform: string): Promise<PoolResponse> {
    return this.call({ method: "GET", path: `/v1/pools/${encodeURIComponent(platform)}`, accept: "json" });
  }

  /** Get the pool's last minutes, oldest first. The last entry is the current minute so far. */
  poolActivity(platform: string, query: { minutes?: number | undefined } = {}): Promise<Activity> {
    return this.call({ method: "GET", path: `/v1/pools/${encodeURIComponent(platform)}/activity`, query, accept: "json" });
  }

  /** Cordon all slots of the pool and refuse new bots with 503. Running bots continue. */
  drainPool(platform: string, headers?: Record<string, string>): Promise<PoolResponse> {
    return this.call({ method: "POST", path: `/v1/pools/${encodeURIComponent(platform)}/drain`, headers, accept: "json" });
  }

  /** Replay the pool's recorded bots under other warm floors, and recommend settings. */
  planPool(platform: string, query: { replayMs?: number | undefined; slo?: number | undefined; withinMs?: number | undefined; timezone?: string | undefined } = {}): Promise<PlanResponse> {
    return this.call({ method: "GET", path: `/v1/pools/${encodeURIComponent(platform)}/plan`, query, accept: "json" });
  }

  /** List the last rollouts of the pool, newest first, with both revisions side by side. */
  listRollouts(platform: string): Promise<Rollouts> {
    return this.call({ method: "GET", path: `/v1/pools/${encodeURIComponent(platform)}/rollouts`, accept: "json" });
  }

  /** Start the rollout of a new image. Botpool pulls the image, gives it to the share of assignments, compares both revisions, and promotes the new one or rolls it back. Bots that run are not touched. */
  startRollout(platform: string, body: RolloutCreate, headers?: Record<string, string>): Promise<RolloutResponse> {
    return this.call({ method: "POST", path: `/v1/pools/${encodeURIComponent(platform)}/rollouts`, body, headers, accept: "json" });
  }

  /** Give all assignments the new revision now, without regard to the comparison. */
  promoteRollout(platform: string, headers?: Record<string, string>): Promise<RolloutResponse> {
    return this.call({ method: "POST", path: `/v1/pools/${encodeURIComponent(platform)}/rollouts/promote`, headers, accept: "json" });
  }

  /** Keep the old revision, or return to it after the last promotion. */
  rollBackRollout(platform: string, headers?: Record<string, string>): Promise<RolloutResponse> {
    return this.call({ method: "POST", path: `/v1/pools/${encodeURIComponent(platform)}/rollouts/rollback`, headers, accept: "json" });
  }

  /** Get the bookings of the pool's next hours, in slices of ten minutes, and the score. */
  poolSchedule(platform: string, query: { hours?: number | undefined } = {}): Promise<Schedule> {
    return this.call({ method: "GET", path: `/v1/pools/${encodeURIComponent(platform)}/schedule`, query, accept: "json" });
  }

  /** Uncordon all slots of a drained pool and admit bots again. */
  undrainPool(platform: string, headers?: Record<string, string>): Promise<PoolResponse> {
    return this.call({ method: "POST", path: `/v1/pools/${encodeURIComponent(platform)}/undrain`, headers, accept: "json" });
  }

  /** List queued bots in the order of service. `nextCursor` leads to the next page. A key of scope `user` gets the bots of its own tenant. */
  queue(query: { platform?: string | null | undefined; tenant?: string | null | undefined; limit?: number | undefined; cursor?: string | null | undefined } = {}): Promise<Queue> {
    return this.call({ method: "GET", path: `/v1/queue`, query, accept: "json" });
  }

  /** List slots, ordered by pool and number; or the slot that has a container or a bot now. `nextCursor` leads to the next page. */
  listSlots(query: { platform?: string | null | undefined; status?: SlotStatus | null | undefined; containerId?: string | null | undefined; botId?: number | null | undefined; limit?: number | undefined; cursor?: string | null | undefined } = {}): Promise<Slots> {
    return this.call({ method: "GET", path: `/v1/slots`, query, accept: "json" });
  }

  /** Delete a slot and its container. A slot with a bot needs `force`; the bot then fails. */
  deleteSlot(id: number, query: { force?: boolean | undefined } = {}, headers?: Record<string, string>): Promise<SlotResponse> {
    return this.call({ method: "DELETE", path: `/v1/slots/${encodeURIComponent(id)}`, query, headers, accept: "json" });
  }

  /** Get one slot. */
  getSlot(id: number): Promise<SlotResponse> {
    return this.call({ method: "GET", path: `/v1/slots/${encodeURIComponent(id)}`, accept: "json" });
  }

  /** Get the assignments of the slot, newest first. */
  slotAssignments(id: number, query: { limit?: number | undefined; cursor?: string | null | undefined } = {}): Promise<Assignments> {
    return this.call({ method: "GET", path: `/v1/slots/${encodeURIComponent(id)}/assignments`, query, accept: "json" });
  }

  /** Cordon a slot: it finishes its bot and takes no other. */
  cordonSlot(id: number, headers?: Record<string, string>): Promise<SlotResponse> {
    return this.call({ method: "POST", path: `/v1/slots/${encodeURIComponent(id)}/cordon`, headers, accept: "json" });
  }

  /** Get the slot's history, newest first, even after the slot was deleted. A page has at most 1 MiB of data, so it can be short and still have a `nextCursor`. */
  slotHistory(id: number, query: { limit?: number | undefined; cursor?: string | null | undefined } = {}): Promise<SlotHistory> {
    return this.call({ method: "GET", path: `/v1/slots/${encodeURIComponent(id)}/history`, query, accept: "json" });
  }

  /** Reset a slot now. A deploying bot is retried; a running bot fails. */
  recoverSlot(id: number, headers?: Record<string, string>): Promise<SlotResponse> {
    return this.call({ method: "POST", path: `/v1/slots/${encodeURIComponent(id)}/recover`, headers, accept: "json" });
  }

  /** Release a slot: its bot fails with the code `operator`, and its container is stopped. `force` (scope `admin`) frees a releasing slot whose stop cannot be confirmed. If the container still runs on its unreachable node, the next bot of the slot, or the same bot once more, runs beside it. `botId` refuses the forced release if the slot has another bot by now. */
  releaseSlot(id: number, query: { force?: boolean | undefined; botId?: number | null | undefined } = {}): Promise<SlotResponse> {
    return this.call({ method: "POST", path: `/v1/slots/${encodeURIComponent(id)}/release`, query, accept: "json" });
  }

  /** Uncordon a slot: it takes bots again. */
  uncordonSlot(id: number, headers?: Record<string, string>): Promise<SlotResponse> {
    return this.call({ method: "POST", path: `/v1/slots/${encodeURIComponent(id)}/uncordon`, headers, accept: "json" });
  }

  /** List all tenants, with their bots in slots and in queues. */
  listTenants(): Promise<Tenants> {
    return this.call({ method: "GET", path: `/v1/tenants`, accept: "json" });
  }

  /** Create a tenant. Its keys are created with `POST /v1/keys`. */
  createTenant(body: TenantCreate): Promise<TenantResponse> {
    return this.call({ method: "POST", path: `/v1/tenants`, body, accept: "json" });
  }

  /** Change the weight and the quotas of a tenant. Absent fields stay; null removes a quota. A lower quota ends no bot: it refuses new ones until the tenant is below it. */
  changeTenant(name: string, body: TenantUpdate): Promise<TenantResponse> {
    return this.call({ method: "PATCH", path: `/v1/tenants/${encodeURIComponent(name)}`, body, accept: "json" });
  }

  /** List webhooks, without their secrets. */
  listWebhooks(): Promise<Webhooks> {
    return this.call({ method: "GET", path: `/v1/webhooks`, accept: "json" });
  }

  /** Create a webhook, which gets the events from now on. Only this response has the secret. Requests follow the Standard Webhooks specification. */
  createWebhook(body: WebhookCreate): Promise<NewWebhook> {
    return this.call({ method: "POST", path: `/v1/webhooks`, body, accept: "json" });
  }

  /** Delete a webhook and its deliveries. A request in progress may still arrive. */
  deleteWebhook(id: number): Promise<WebhookResponse> {
    return this.call({ method: "DELETE", path: `/v1/webhooks/${encodeURIComponent(id)}`, accept: "json" });
  }

  /** Return a webhook, without its secret. */
  getWebhook(id: number): Promise<WebhookResponse> {
    return this.call({ method: "GET", path: `/v1/webhooks/${encodeURIComponent(id)}`, accept: "json" });
  }

  /** List the deliveries of a webhook, newest first: request, answer and next attempt. */
  listDeliveries(id: number, query: { status?: DeliveryStatus | null | undefined; limit?: number | undefined; cursor?: string | null | undefined } = {}): Promise<Deliveries> {
    return this.call({ method: "GET", path: `/v1/webhooks/${encodeURIComponent(id)}/deliveries`, query, accept: "json" });
  }

  /** Deliver events again, with the same ids, and enable the webhook if it is disabled. */
  replayWebhook(id: number, body: WebhookReplay = {}): Promise<WebhookResponse> {
    return this.call({ method: "POST", path: `/v1/webhooks/${encodeURIComponent(id)}/replay`, body, accept: "json" });
  }

  /** Give a webhook a new secret. Until the overlap ends, requests carry both signatures. */
  rotateWebhook(id: number, body: WebhookRotation = {}): Promise<NewWebhook> {
    return this.call({ method: "POST", path: `/v1/webhooks/${encodeURIComponent(id)}/rotate`, body, accept: "json" });
  }

  /** Send the example of an event once, now, and return the answer of the endpoint. */
  testWebhook(id: number, body: WebhookTest = {}): Promise<DeliveryResult> {
    return this.call({ method: "POST", path: `/v1/webhooks/${encodeURIComponent(id)}/test`, body, accept: "json" });
  }
}
