/** The statuses and phases of slots and bots, with their descriptions. */

/** In display order. The letter identifies the status without its colour. */
export const SLOT_STATUSES = {
  busy: { letter: "B", description: "A bot runs in this slot." },
  deploying: { letter: "D", description: "The container of a bot starts." },
  releasing: { letter: "R", description: "The bot has ended; Botpool confirms the stop." },
  idle: { letter: "I", description: "The slot is warm and free." },
  error: { letter: "E", description: "A reset failed; Botpool retries it." },
  deleting: { letter: "X", description: "Botpool deletes the slot and its container." },
};

/** Short labels for the phases of a deploying slot. */
export const SLOT_PHASES = {
  creating: "creating",
  waiting_for_image: "awaits image",
  waiting_for_start: "awaits start",
  starting: "starting",
};

/** Short labels for idle slots whose container runs without a bot. */
export const STANDBYS = {
  starting: "standby starts",
  ready: "hot",
  stopping: "standby stops",
};

export const BOT_STATUSES = [
  "SCHEDULED",
  "PENDING",
  "QUEUED",
  "DEPLOYING",
  "JOINING_CALL",
  "IN_WAITING_ROOM",
  "IN_CALL",
  "LEAVING",
  "CALL_ENDED",
  "DONE",
  "FAILED",
  "CANCELLED",
];

const FINAL = new Set(["DONE", "FAILED", "CANCELLED"]);
const NOT_STARTED = new Set(["SCHEDULED", "PENDING", "QUEUED", "DEPLOYING"]);
const WITH_BOT = new Set(["deploying", "busy", "releasing"]);

export const isFinal = (status) => FINAL.has(status);
export const hasNotStarted = (status) => NOT_STARTED.has(status);
export const hasBot = (status) => WITH_BOT.has(status);

export const FAILURES = {
  queue_timeout: "The bot got no slot before its deadline.",
  deploy_failed: "The container did not start.",
  heartbeat_lost: "The bot ran, then its heartbeats stopped.",
  container_exited: "The container exited before the bot reported its end.",
  max_duration: "The bot reached the maximum duration.",
  finish_timeout: "The call ended, but the bot did not finish saving its recording.",
  meeting_failed: "The bot could not join or stay in the meeting.",
  blocked: "The meeting's provider blocked the bot.",
  operator: "An operator took the slot from the bot.",
  internal: "Botpool had an unexpected error.",
};

/** Why a bot's call ended, as its agent reported it. */
export const END_REASONS = {
  denied: "the host refused the bot",
  lobby_timeout: "the host did not admit the bot",
  removed: "a participant removed the bot",
  alone: "the bot was alone",
  meeting_ended: "the meeting was over",
  sign_in_required: "the meeting requires a sign-in",
  blocked: "the provider blocked the bot",
  left: "the bot was asked to leave",
  unknown: "unknown",
};

/** The phases of a bot, in order. */
export const BOT_PHASES = {
  waiting: "waiting for a slot",
  creating: "creating the container",
  image: "waiting for the image",
  starting: "starting",
  joining: "joining",
  in_call: "in call",
  finishing: "finishing",
  releasing: "releasing",
};
