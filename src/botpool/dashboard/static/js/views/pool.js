/** One pool: how full it is, who waits, how fast it serves, its slots and its last hour. */
import { actionButton, poolActions } from "../actions.js";
import { hourCharts } from "../charts/hour.js";
import { assign, follow, make, measure, write } from "../dom.js";
import { sendBot } from "../sending.js";
import { SLOT_STATES } from "../states.js";
import { NONE, commandFor, duration, measured, percent } from "../wording.js";
import { countSlots } from "../world.js";
import { tileGrid } from "./tiles.js";

const USED = ["busy", "deploying", "releasing"];

export function poolCard(platform, onAction) {
  const field = Object.fromEntries(
    ["used", "waiting", "warm", "running"].map((name) => [name, make("dd")]),
  );
  const figure = (name, value, title) => make("div", { title }, make("dt", { text: name }), value);
  const badge = make("span", { class: "badge warn" });
  const backend = make("p", { class: "soft" });
  const trouble = make("p", { class: "trouble" });
  const bar = make("div", { class: "bar", "aria-hidden": "true" });
  const legend = make("ul", { class: "legend", "aria-label": "Slots by status" });
  const tools = make("div", { class: "buttons" });
  const grid = tileGrid(`Slots of ${platform}`);
  const hour = hourCharts(platform);
  const empty = make(
    "div",
    { class: "empty" },
    make(
      "p",
      {},
      "No slots yet: the first bot makes one. ",
      make("button", {
        type: "button",
        class: "link",
        text: "Send one",
        click: () => sendBot(platform),
      }),
    ),
    make(
      "details",
      {},
      make("summary", { text: "or from a shell" }),
      make("pre", { text: commandFor(platform) }),
    ),
  );
  const element = make(
    "article",
    { class: "card pool", "aria-labelledby": `pool-${platform}` },
    make(
      "header",
      {},
      make("hgroup", {}, make("h2", { id: `pool-${platform}` }, platform, badge), backend),
      make(
        "dl",
        { class: "figures" },
        figure("In use", field.used, "Slots with a bot, of the most that this pool may have"),
        figure("Waiting", field.waiting, "Bots in the queue, and how long the first has waited"),
        figure(
          "Warm starts",
          field.warm,
          "Bots that found a container already made, of the last 1,000",
        ),
        figure(
          "To running, p50 / p95",
          field.running,
          "From the assignment to a running container, of the last 1,000",
        ),
      ),
      tools,
    ),
    trouble,
    bar,
    legend,
    grid.element,
    empty,
    hour.element,
  );
  let shown = null;
  let seenAt = 0;

  function showFigures(pool, now) {
    if (pool !== shown) seenAt = now;
    shown = pool;
    const counts = countSlots(platform);
    const used = USED.reduce((sum, status) => sum + (counts[status] ?? 0), 0);
    write(field.used, `${used} of ${pool.maxSize}`);
    showWaiting(now);
    write(field.warm, percent(pool.warmHitRatio));
    const times = [pool.timeToRunningP50Ms, pool.timeToRunningP95Ms];
    write(field.running, times[0] === null ? NONE : times.map(measured).join(" / "));
    showBar(counts, pool.maxSize);
  }

  function showWaiting(now) {
    const waited = shown.oldestWaitMs === null ? null : shown.oldestWaitMs + now - seenAt;
    const longest = shown.queueDepth && waited !== null ? `, longest ${duration(waited)}` : "";
    write(field.waiting, `${shown.queueDepth}${longest}`);
    field.waiting.classList.toggle("warn", shown.queueDepth > 0);
  }

  function showBar(counts, maxSize) {
    const present = Object.keys(SLOT_STATES).filter((status) => counts[status]);
    const whole = Math.max(
      1,
      maxSize,
      present.reduce((sum, status) => sum + counts[status], 0),
    );
    follow(
      bar,
      present,
      String,
      (status) => make("i", { "data-status": status }),
      (part, status) => measure(part, "width", `${(100 * counts[status]) / whole}%`),
    );
    follow(
      legend,
      present,
      String,
      (status) =>
        make(
          "li",
          { "data-status": status, title: SLOT_STATES[status].means },
          make("b", { class: "mark", text: SLOT_STATES[status].letter }),
          make("span"),
        ),
      (item, status) => write(item.lastChild, `${counts[status]} ${status}`),
    );
  }

  return {
    element,
    showFigures,
    show(pool, slots, now) {
      write(badge, pool.drained ? "drained" : "");
      write(backend, `${pool.backend} · ${pool.image}`);
      write(
        trouble,
        pool.backendHealth.ok
          ? ""
          : `Trouble with the backend “${pool.backend}”: ${pool.backendHealth.detail}`,
      );
      assign(element, "data-drained", pool.drained);
      const actions = poolActions(pool);
      follow(
        tools,
        actions,
        (action) => action.verb,
        (action) => actionButton(action, onAction),
      );
      showFigures(pool, now);
      empty.hidden = slots.length > 0;
      grid.show(slots, now);
    },
    touch: (ids, now) => grid.touch(ids, now),
    showHour: (minutes) => hour.show(minutes),
    tick(now) {
      if (shown) showWaiting(now);
      grid.tick(now);
    },
  };
}
