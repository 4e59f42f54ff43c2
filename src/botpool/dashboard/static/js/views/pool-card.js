/** The card of one pool: figures, slots, charts and actions. */
import { actionButton, poolActions } from "../actions.js";
import { lastHourCharts } from "../charts/last-hour.js";
import { nextHours } from "../charts/next-hours.js";
import { html, setAttribute, setStyle, setText, syncChildren } from "../dom.js";
import {
  curlCommand,
  duration,
  NO_VALUE,
  percent,
  plural,
  preciseDuration,
  timeOfDay,
} from "../format.js";
import { model, slotCounts } from "../model.js";
import { sendBot } from "../send-bot.js";
import { SLOT_STATUSES } from "../statuses.js";
import { unconfirmedText } from "./components.js";
import { tileGrid } from "./slot-tiles.js";

const USED = ["busy", "deploying", "releasing"];

export function poolCard(platform, onAction) {
  const field = Object.fromEntries(
    ["used", "waiting", "warm", "running"].map((name) => [name, html("dd")]),
  );
  const figure = (name, value, title) => html("div", { title }, html("dt", { text: name }), value);
  const badge = html("span", { class: "badge warn" });
  const backend = html("p", { class: "soft" });
  const backendError = html("p", { class: "error" });
  const unconfirmed = html("p", { class: "error" });
  const warm = html("p", { class: "soft warm-floors" });
  const bar = html("div", { class: "bar", "aria-hidden": "true" });
  const legend = html("ul", { class: "legend", "aria-label": "Slots by status" });
  const buttons = html("div", { class: "buttons" });
  const grid = tileGrid(`Slots of ${platform}`);
  const charts = lastHourCharts(platform);
  const strip = nextHours(platform);
  const empty = html(
    "div",
    { class: "empty" },
    html(
      "p",
      {},
      "No slots yet. The first bot creates one. ",
      html("button", {
        type: "button",
        class: "link",
        text: "Send the first bot",
        click: () => sendBot(platform),
      }),
    ),
    html(
      "details",
      {},
      html("summary", { text: "or use a shell" }),
      html("pre", { text: curlCommand(platform) }),
    ),
  );
  const element = html(
    "article",
    { class: "card pool", "aria-labelledby": `pool-${platform}` },
    html(
      "header",
      {},
      html("hgroup", {}, html("h2", { id: `pool-${platform}` }, platform, badge), backend),
      html(
        "dl",
        { class: "figures" },
        figure("In use", field.used, "Slots with a bot, of the pool's maximum size"),
        figure("Waiting", field.waiting, "Bots in the queue, and the longest wait so far"),
        figure(
          "Warm starts",
          field.warm,
          "Share of the last 1,000 bots whose slot already had a container",
        ),
        figure(
          "Time to running, p50 / p95",
          field.running,
          "Time from assignment to a running container, last 1,000 bots",
        ),
      ),
      buttons,
    ),
    backendError,
    unconfirmed,
    warm,
    bar,
    legend,
    grid.element,
    empty,
    charts.element,
    strip.element,
  );
  let shown = null;
  let loadedAt = 0;

  function showFigures(pool, now) {
    if (pool !== shown) loadedAt = now;
    shown = pool;
    const counts = slotCounts(platform);
    setText(unconfirmed, unconfirmedStops(platform));
    setText(warm, warmText(pool.warm));
    const used = USED.reduce((sum, status) => sum + (counts[status] ?? 0), 0);
    setText(field.used, `${used} of ${pool.maxSize}`);
    showWaiting(now);
    setText(field.warm, percent(pool.warmHitRatio));
    const times = [pool.timeToRunningP50Ms, pool.timeToRunningP95Ms];
    setText(field.running, times[0] === null ? NO_VALUE : times.map(preciseDuration).join(" / "));
    showBar(counts, pool.maxSize);
  }

  function showWaiting(now) {
    const waited = shown.oldestWaitMs === null ? null : shown.oldestWaitMs + now - loadedAt;
    const longest = shown.queueDepth && waited !== null ? `, longest ${duration(waited)}` : "";
    setText(field.waiting, `${shown.queueDepth}${longest}`);
    field.waiting.classList.toggle("warn", shown.queueDepth > 0);
  }

  function showBar(counts, maxSize) {
    const present = Object.keys(SLOT_STATUSES).filter((status) => counts[status]);
    const whole = Math.max(
      1,
      maxSize,
      present.reduce((sum, status) => sum + counts[status], 0),
    );
    syncChildren(
      bar,
      present,
      String,
      (status) => html("i", { "data-status": status }),
      (part, status) => setStyle(part, "width", `${(100 * counts[status]) / whole}%`),
    );
    syncChildren(
      legend,
      present,
      String,
      (status) =>
        html(
          "li",
          { "data-status": status, title: SLOT_STATUSES[status].description },
          html("b", { class: "mark", text: SLOT_STATUSES[status].letter }),
          html("span"),
        ),
      (item, status) => setText(item.lastChild, `${counts[status]} ${status}`),
    );
  }

  return {
    element,
    showFigures,
    show(pool, slots, now) {
      setText(badge, stateOf(pool));
      const replaced = pool.configuredImage ? `, promoted; settings: ${pool.configuredImage}` : "";
      setText(backend, `${pool.backend} · ${pool.image}${replaced}`);
      setText(
        backendError,
        pool.backendHealth.ok
          ? pauseText(pool, now)
          : `The backend “${pool.backend}” is failing: ${pool.backendHealth.detail}`,
      );
      setAttribute(element, "data-drained", pool.drained || pool.removed);
      syncChildren(
        buttons,
        poolActions(pool),
        (action) => action.label,
        (action) => actionButton(action, onAction),
      );
      showFigures(pool, now);
      empty.hidden = slots.length > 0;
      grid.show(slots, now);
    },
    updateSlots: (ids, now) => grid.update(ids, now),
    showLastHour: (minutes) => charts.show(minutes),
    showNextHours: (schedule, now) => strip.show(schedule, now),
    tick(now) {
      if (shown) showWaiting(now);
      grid.tick(now);
    },
  };
}

/** The slots that the pool keeps ready: actual number, target and reason. */
function warmText(warm) {
  if (!warm) return "";
  const starting = warm.hotStarting ? `, ${warm.hotStarting} starting` : "";
  const hot = `Hot slots: ${warm.hotReady} of ${warm.hotTarget}${starting}`;
  const ready = `ready slots: ${warm.idleReady} of ${warm.idleTarget}`;
  return [hot, ready, `target: ${warm.reason}`, warm.problem].filter(Boolean).join(" · ");
}

/** Whether the circuit breaker of the pool's egress stops its starts. */
function stateOf(pool) {
  if (isPaused(pool)) return "paused";
  if (pool.removed) return "removed";
  return pool.drained ? "drained" : "";
}

export function isPaused(pool) {
  return Boolean(pool.pacing) && pool.pacing.breaker !== "closed";
}

function pauseText(pool, now) {
  if (!isPaused(pool)) return "";
  const { egress, blocksInARow, probeAt, breaker } = pool.pacing;
  const next =
    breaker === "open"
      ? `the next bot starts at ${timeOfDay(probeAt, now)} as a probe`
      : "the outcome of one bot, the probe, decides";
  return `Starts from “${egress}” are paused: ${plural(blocksInARow, "bot was", "bots were")} blocked in a row; ${next}`;
}

/** The slots whose stop cannot be confirmed, by reason; empty if there are none. */
function unconfirmedStops(platform) {
  const slots = Array.from(model.slots.values()).filter(
    (slot) => slot.platform === platform && slot.unconfirmedReason,
  );
  if (!slots.length) return "";
  const reasons = [...new Set(slots.map(unconfirmedText))].join("; ");
  return `${plural(slots.length, "slot")} without a confirmed stop, which no bot gets: ${reasons}`;
}
