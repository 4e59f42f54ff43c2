/** The overview: a summary, and a card for each pool. */
import { html, setText, syncChildren } from "../dom.js";
import { duration, NO_VALUE, plural } from "../format.js";
import { fetchJson, serverNow } from "../http.js";
import { model, slotCounts, slotsOf } from "../model.js";
import { throttle } from "../timing.js";
import { isPaused, poolCard } from "./pool-card.js";

const ACTIVITY_MS = 15_000;
const NOT_AN_OPERATOR =
  "This key has the scope “user”, which shows the bots, the queue and the webhooks of its tenant. " +
  "Use a key with the scope “operator” to see pools and slots.";

export const title = () => "Overview";

export function open(root) {
  const health = html("h1", { class: "health" });
  const figures = html("dl", { class: "figures" });
  const list = html("div", { class: "pools" });
  const empty = html("p", { class: "empty", text: NOT_AN_OPERATOR });
  root.append(html("div", { class: "headline" }, health, figures), empty, list);

  const cards = new Map();
  const cardOf = (pool) => {
    const card = poolCard(pool.platform, () => refresh());
    cards.set(pool.platform, card);
    return card.element;
  };

  function refresh() {
    empty.hidden = model.isOperator;
    syncChildren(
      list,
      model.pools,
      (pool) => pool.platform,
      cardOf,
      (_, pool) => {
        cards.get(pool.platform).show(pool, slotsOf(pool.platform), serverNow());
      },
    );
    showSummary();
    loadActivity();
  }

  /** Update only the pools and tiles that changed. */
  function changed(changes, slotsCreatedOrDeleted) {
    if (slotsCreatedOrDeleted || changes.length === 0) {
      refresh();
      return;
    }
    for (const [platform, card] of cards) {
      const mine = changes.filter((change) => change.platform === platform);
      if (mine.length === 0) continue;
      card.showFigures(
        model.pools.find((pool) => pool.platform === platform),
        serverNow(),
      );
      card.updateSlots(new Set(mine.map((change) => change.slotId)), serverNow());
    }
    showSummary();
    loadActivity();
  }

  const loadActivity = throttle(async () => {
    await Promise.all(
      Array.from(cards, async ([platform, card]) => {
        const [activity, schedule] = await Promise.all([
          fetchJson(`v1/pools/${platform}/activity?minutes=60`),
          fetchJson(`v1/pools/${platform}/schedule?hours=8`),
        ]);
        card.showLastHour(activity.minutes);
        card.showNextHours(schedule, serverNow());
      }),
    );
  }, ACTIVITY_MS);

  function showSummary() {
    const { text, kind } = summarisePools(model.pools);
    setText(health, text);
    health.dataset.kind = kind;
    syncChildren(
      figures,
      model.isOperator ? totals() : [],
      ([name]) => name,
      ([name]) => html("div", {}, html("dt", { text: name }), html("dd")),
      (row, [, value]) => setText(row.lastChild, value),
    );
  }

  refresh();
  return {
    refresh,
    changed,
    close: loadActivity.stop,
    tick: (at) => {
      cards.forEach((card) => card.tick(at));
      // The charts advance even without changes.
      if (Math.floor(at / 1000) % 60 === 0) loadActivity();
    },
  };
}

/** The most important fact about all pools, in one sentence. */
function summarisePools(pools) {
  if (!model.isOperator) return { kind: "note", text: `Bots of the tenant “${model.tenant}”` };
  const failing = pools.filter((pool) => !pool.backendHealth.ok).map((pool) => pool.platform);
  if (failing.length)
    return { kind: "bad", text: `The backend of ${failing.join(", ")} is failing` };
  const paused = pools.filter(isPaused).map((pool) => pool.platform);
  if (paused.length)
    return { kind: "bad", text: `${paused.join(", ")}: paused, because bots were blocked` };
  const waiting = pools.filter((pool) => pool.queueDepth > 0);
  const depth = waiting.reduce((sum, pool) => sum + pool.queueDepth, 0);
  if (depth) {
    const where = waiting.map((pool) => pool.platform).join(", ");
    return { kind: "warn", text: `${plural(depth, "bot waits", "bots wait")} for ${where}` };
  }
  const broken = pools.reduce((sum, pool) => sum + (slotCounts(pool.platform).error ?? 0), 0);
  if (broken) return { kind: "warn", text: `${plural(broken, "slot")} in error; no bot waits` };
  const drained = pools.filter((pool) => pool.drained).map((pool) => pool.platform);
  if (drained.length)
    return { kind: "note", text: `${drained.join(", ")}: drained, no new bots` };
  const removed = pools.filter((pool) => pool.removed).map((pool) => pool.platform);
  if (removed.length)
    return { kind: "note", text: `${removed.join(", ")}: no longer in the settings, no new bots` };
  return { kind: "good", text: "All pools are healthy; no bot waits" };
}

function totals() {
  const sum = (value) => model.pools.reduce((total, pool) => total + value(pool), 0);
  const counts = model.pools.map((pool) => slotCounts(pool.platform));
  const all = (status) => counts.reduce((total, each) => total + (each[status] ?? 0), 0);
  const used = all("busy") + all("deploying") + all("releasing");
  const oldest = Math.max(
    0,
    ...model.pools.map((pool) => (pool.queueDepth && pool.oldestWaitMs) || 0),
  );
  return [
    ["Bots in slots", `${used} of ${sum((pool) => pool.maxSize)}`],
    ["Warm and free", all("idle")],
    ["Waiting", sum((pool) => pool.queueDepth)],
    ["Longest wait", oldest ? duration(oldest) : NO_VALUE],
  ];
}
