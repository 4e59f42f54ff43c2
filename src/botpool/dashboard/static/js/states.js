/** What the states of slots and bots are called here, and what they mean. */

/** In the order in which they are counted. The letter stands beside the colour. */
export const SLOT_STATES = {
  busy: { letter: "B", means: "a bot runs here" },
  deploying: { letter: "D", means: "a bot is on its way" },
  releasing: { letter: "R", means: "its bot has ended; the stop is being confirmed" },
  idle: { letter: "I", means: "warm and free" },
  error: { letter: "E", means: "a reset failed; it is tried again" },
  deleting: { letter: "X", means: "it is being taken down" },
};

/** The phases of a deploying slot, in the few letters that a tile has room for. */
export const SLOT_PHASES = {
  creating: "creating",
  waiting_for_image: "awaits image",
  waiting_for_start: "awaits start",
  starting: "starting",
};

export const BOT_STATES = [
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
const WAITING = new Set(["PENDING", "QUEUED", "DEPLOYING"]);
const WITH_BOT = new Set(["deploying", "busy", "releasing"]);

export const isFinal = (status) => FINAL.has(status);
export const isBeforeTheCall = (status) => WAITING.has(status);
export const hasBot = (status) => WITH_BOT.has(status);

export const FAILURES = {
  queue_timeout: "No slot became free before its deadline.",
  deploy_failed: "Its container could not be started.",
  heartbeat_lost: "It ran, and then was not heard of any more.",
  container_exited: "Its container ended without a word.",
  max_duration: "It stayed longer than bots may.",
  meeting_failed: "The meeting ended it: refused by the host, or over.",
  operator: "An operator took its slot away.",
  internal: "Something went wrong on our side.",
};

/** The phases of a bot's life, in their order. */
export const PHASES = {
  waiting: "waiting for a slot",
  creating: "making the container",
  image: "waiting for the image",
  starting: "starting",
  joining: "joining",
  in_call: "in call",
  releasing: "releasing",
};
