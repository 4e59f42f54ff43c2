/** The pools and slots that this page shows. Changes from the event stream update them. */
import { fetchAll, fetchJson } from "./http.js";
import { hasBot } from "./statuses.js";

export const model = {
  pools: [],
  slots: new Map(),
  /** Names of tenants; empty for users, and while there is only the default tenant. */
  tenants: [],
  /** The tenant of the key, which decides about the bots that a user sees. */
  tenant: "default",
  /** Keys of the scope “user” may read neither pools nor slots. */
  isOperator: true,
  isAdmin: true,
};

/** Load the rights of the key, and all pools and slots that it may read. */
export async function load() {
  const { scope, tenant } = await fetchJson("v1/session", { method: "POST" });
  model.tenant = tenant;
  model.isAdmin = scope === "admin";
  model.isOperator = scope !== "user";
  const [pools, slots, tenants] = model.isOperator
    ? await Promise.all([
        fetchJson("v1/pools"),
        fetchAll("v1/slots", "slots"),
        fetchJson("v1/tenants"),
      ])
    : [{ pools: [] }, [], { tenants: [] }];
  model.pools = pools.pools;
  model.slots = new Map(slots.map((slot) => [slot.id, slot]));
  const names = tenants.tenants.map(({ name }) => name);
  model.tenants = names.length > 1 ? names : [];
}

/** Load the figures that the stream does not carry: ratios, percentiles, backend health. */
export async function loadPools() {
  model.pools = (await fetchJson("v1/pools")).pools;
}

export const slotsOf = (platform) =>
  Array.from(model.slots.values()).filter((slot) => slot.platform === platform);

/** The number of a pool's slots in each status. */
export function slotCounts(platform) {
  const counts = {};
  for (const slot of model.slots.values()) {
    if (slot.platform === platform) counts[slot.status] = (counts[slot.status] ?? 0) + 1;
  }
  return counts;
}

/** The time since which a slot has its bot, or none. */
export const slotSince = ({ assignedBotId: bot, lastAssignedAt, lastReleasedAt, createdAt }) =>
  Date.parse((bot === null && lastReleasedAt) || lastAssignedAt || createdAt);

/** Replace a slot or pool by the one in the response to an action. */
export function update({ slot, pool }) {
  if (slot) model.slots.set(slot.id, slot);
  if (pool) model.pools = model.pools.map((old) => (old.platform === pool.platform ? pool : old));
}

/** Apply one change of the stream. Returns true when it created or deleted a slot. */
export function applyChange(change) {
  if (!model.isOperator) return false; // the stream of a user's key has parts of slots' changes only
  updateQueueDepth(change);
  if (change.slotId === null || !change.kind.startsWith("slot.")) return false;
  if (change.kind === "slot.status" && change.to === null) return model.slots.delete(change.slotId);
  const known = model.slots.get(change.slotId);
  const slot = { ...(known ?? newSlot(change)), ...changedFields(change) };
  model.slots.set(change.slotId, slot);
  return known === undefined;
}

const CONFIRMABLE = { unconfirmedReason: null, unconfirmedNode: null, unconfirmedSince: null };

function changedFields({ kind, to, at, botId, reason, data }) {
  if (kind === "slot.cordon") return { cordoned: to === "cordoned" };
  if (kind === "slot.phase") return { phase: to };
  if (kind === "slot.standby") return { standby: to };
  if (kind === "slot.stop_unconfirmed") {
    return data
      ? { unconfirmedReason: reason, unconfirmedNode: data.node, unconfirmedSince: data.since }
      : CONFIRMABLE;
  }
  if (kind !== "slot.status") return {};
  const assigned = hasBot(to) ? botId : null;
  const common = {
    status: to,
    phase: null,
    assignedBotId: assigned,
    errorMessage: null,
    standby: null,
    ...CONFIRMABLE,
  };
  if (to === "deploying") return { ...common, phase: "creating", lastAssignedAt: at };
  if (to === "error") return { ...common, errorMessage: reason };
  return to === "idle" ? { ...common, lastReleasedAt: at } : common;
}

/** A slot that was created after `load`. */
const newSlot = ({ slotId, slotName, platform, at }) => ({
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
  standby: null,
  cordoned: false,
  createdAt: at,
});

function updateQueueDepth({ kind, platform, from, to }) {
  if (kind !== "bot.status" || (from === "QUEUED") === (to === "QUEUED")) return;
  const pool = model.pools.find((each) => each.platform === platform);
  if (pool) pool.queueDepth = Math.max(0, pool.queueDepth + (to === "QUEUED" ? 1 : -1));
}
