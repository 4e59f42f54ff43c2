/** One look: do the pools hold? Each pool with its slots, its queue and its last hour. */
import { follow, make, write } from "../dom.js";
import { ask, now } from "../http.js";
import { throttled } from "../timing.js";
import { duration, plural } from "../wording.js";
import { countSlots, slotsOf, world } from "../world.js";
import { poolCard } from "./pool.js";

const ACTIVITY_MS = 15_000;
const NOT_AN_OPERATOR =
  "This key has the scope “user”: it sees bots and the queue, but no pools " +
  "and slots. A key with the scope “operator” sees all.";

export const title = () => "Overview";

export function open(place) {
  const verdict = make("h1", { class: "verdict" });
  const figures = make("dl", { class: "figures" });
  const list = make("div", { class: "pools" });
  const empty = make("p", { class: "empty", text: NOT_AN_OPERATOR });
  place.append(make("div", { class: "headline" }, verdict, figures), empty, list);

  const cards = new Map();
  const cardOf = (pool) => {
    const card = poolCard(pool.platform, () => refresh());
    cards.set(pool.platform, card);
    return card.element;
  };

  function refresh() {
    empty.hidden = world.mayOperate;
    follow(
      list,
      world.pools,
      (pool) => pool.platform,
      cardOf,
      (_, pool) => {
        cards.get(pool.platform).show(pool, slotsOf(pool.platform), now());
      },
    );
    summarise();
    activity();
  }

  /** Only the pools and tiles that were touched. */
  function changed(changes, cameOrWent) {
    if (cameOrWent || changes.length === 0) {
      refresh();
      return;
    }
    for (const [platform, card] of cards) {
      const mine = changes.filter((change) => change.platform === platform);
      if (mine.length === 0) continue;
      card.showFigures(
        world.pools.find((pool) => pool.platform === platform),
        now(),
      );
      card.touch(new Set(mine.map((change) => change.slotId)), now());
    }
    summarise();
    activity();
  }

  const activity = throttled(async () => {
    await Promise.all(
      Array.from(cards, async ([platform, card]) => {
        const answer = await ask(`v1/pools/${platform}/activity?minutes=60`);
        card.showHour(answer.minutes);
      }),
    );
  }, ACTIVITY_MS);

  function summarise() {
    const { text, kind } = judge(world.pools);
    write(verdict, text);
    verdict.dataset.kind = kind;
    follow(
      figures,
      world.mayOperate ? totals() : [],
      ([name]) => name,
      ([name]) => make("div", {}, make("dt", { text: name }), make("dd")),
      (row, [, value]) => write(row.lastChild, value),
    );
  }

  refresh();
  return {
    refresh,
    changed,
    close: activity.stop,
    tick: (at) => {
      cards.forEach((card) => card.tick(at));
      if (Math.floor(at / 1000) % 60 === 0) activity(); // the hour moves on also when nothing does
    },
  };
}

/** The one sentence that an operator looks for at ten o'clock. */
function judge(pools) {
  if (!world.mayOperate) return { kind: "note", text: "Bots and the queue" };
  const sick = pools.filter((pool) => !pool.backendHealth.ok).map((pool) => pool.platform);
  if (sick.length) return { kind: "bad", text: `Trouble with the backend of ${sick.join(", ")}` };
  const waiting = pools.filter((pool) => pool.queueDepth > 0);
  const depth = waiting.reduce((sum, pool) => sum + pool.queueDepth, 0);
  if (depth) {
    const where = waiting.map((pool) => pool.platform).join(", ");
    return { kind: "warn", text: `${plural(depth, "bot waits", "bots wait")} for ${where}` };
  }
  const broken = pools.reduce((sum, pool) => sum + (countSlots(pool.platform).error ?? 0), 0);
  if (broken) return { kind: "warn", text: `${plural(broken, "slot")} in error; nobody waits` };
  const closed = pools.filter((pool) => pool.drained).map((pool) => pool.platform);
  if (closed.length)
    return { kind: "note", text: `${closed.join(", ")} takes nobody new: drained` };
  return { kind: "good", text: "The pools hold: nobody waits" };
}

function totals() {
  const sum = (value) => world.pools.reduce((total, pool) => total + value(pool), 0);
  const counts = world.pools.map((pool) => countSlots(pool.platform));
  const all = (status) => counts.reduce((total, each) => total + (each[status] ?? 0), 0);
  const used = all("busy") + all("deploying") + all("releasing");
  const oldest = Math.max(
    0,
    ...world.pools.map((pool) => (pool.queueDepth && pool.oldestWaitMs) || 0),
  );
  return [
    ["Bots in slots", `${used} of ${sum((pool) => pool.maxSize)}`],
    ["Warm and free", all("idle")],
    ["Waiting", sum((pool) => pool.queueDepth)],
    ["Longest wait", oldest ? duration(oldest) : "–"],
  ];
}
