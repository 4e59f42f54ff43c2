/** What this page knows of pools and slots: one look at the server, then every change applied to
 * it. A view reads it and is told what changed; it never asks again for what a change has told. */
import { ask } from "./http.js";
import { hasBot } from "./states.js";

export const world = {
  pools: [],
  slots: new Map(),
  /** False once the server has said that this key may not see pools and slots. */
  mayOperate: true,
};

export async function load() {
  const [pools, slots] = await Promise.all([asOperator("v1/pools"), asOperator("v1/slots")]);
  world.mayOperate = pools !== null;
  world.pools = pools?.pools ?? [];
  world.slots = new Map((slots?.slots ?? []).map((slot) => [slot.id, slot]));
}

/** The figures that no change tells: ratios, percentiles, the health of backends. */
export async function loadPools() {
  const answer = await asOperator("v1/pools");
  if (answer) world.pools = answer.pools;
}

async function asOperator(path) {
  return ask(path).catch((error) => {
    if (error.status === 403) return null;
    throw error;
  });
}

export const slotsOf = (platform) =>
  Array.from(world.slots.values()).filter((slot) => slot.platform === platform);

export function countSlots(platform) {
  const counts = {};
  for (const slot of world.slots.values()) {
    if (slot.platform === platform) counts[slot.status] = (counts[slot.status] ?? 0) + 1;
  }
  return counts;
}

/** Put the answer to an action in the place of what was known. */
export function learn({ slot, pool }) {
  if (slot) world.slots.set(slot.id, slot);
  if (pool) world.pools = world.pools.map((old) => (old.platform === pool.platform ? pool : old));
}

/** Apply one change. Returns true when a slot came or went, and not just changed. */
export function apply(change) {
  countQueue(change);
  if (change.slotId === null || !change.kind.startsWith("slot.")) return false;
  if (change.kind === "slot.status" && change.to === null) return world.slots.delete(change.slotId);
  const known = world.slots.get(change.slotId);
  const slot = { ...(known ?? unseen(change)), ...told(change) };
  world.slots.set(change.slotId, slot);
  return known === undefined;
}

function told({ kind, to, at, botId, reason }) {
  if (kind === "slot.cordon") return { cordoned: to === "cordoned" };
  if (kind === "slot.phase") return { phase: to };
  if (kind !== "slot.status") return {};
  const assigned = hasBot(to) ? botId : null;
  const common = { status: to, phase: null, assignedBotId: assigned, errorMessage: null };
  if (to === "deploying") return { ...common, phase: "creating", lastAssignedAt: at };
  if (to === "error") return { ...common, errorMessage: reason };
  return to === "idle" ? { ...common, lastReleasedAt: at } : common;
}

/** A slot that was made after the last look. */
const unseen = ({ slotId, slotName, platform, at }) => ({
  id: slotId,
  name: slotName,
  platform,
  status: "idle",
  phase: null,
  assignedBotId: null,
  lastAssignedAt: null,
  lastReleasedAt: null,
  recoveryAttempts: 0,
  skippedRecoveries: 0,
  errorMessage: null,
  cordoned: false,
  createdAt: at,
});

function countQueue({ kind, platform, from, to }) {
  if (kind !== "bot.status" || (from === "QUEUED") === (to === "QUEUED")) return;
  const pool = world.pools.find((each) => each.platform === platform);
  if (pool) pool.queueDepth = Math.max(0, pool.queueDepth + (to === "QUEUED" ? 1 : -1));
}
