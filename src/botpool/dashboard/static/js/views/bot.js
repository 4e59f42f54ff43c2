/** The view of one bot: timeline, history and container output. */
import { actionButton, botActions } from "../actions.js";
import { html, setText, syncChildren } from "../dom.js";
import { duration, hostOf, percent, timeOfDay } from "../format.js";
import { fetchJson, serverNow } from "../http.js";
import { model } from "../model.js";
import { END_REASONS, FAILURES, isFinal } from "../statuses.js";
import { throttle } from "../timing.js";
import { botData } from "./bot-data.js";
import { copyable, fact, fillPill } from "./components.js";
import { containerLog } from "./container-log.js";
import { historyList } from "./history.js";
import { timeline } from "./timeline.js";

const REFRESH_MS = 500;

export const title = (id) => `Bot ${id}`;

export function open(root, { id }) {
  const status = html("span");
  const name = html("span", { class: "soft" });
  const buttons = html("div", { class: "buttons" });
  const failure = html("p", { class: "card failure" });
  const facts = html("dl", { class: "card facts" });
  const phases = timeline();
  const history = historyList("History", `v1/bots/${id}/events?order=newest`, () => refresh());
  const log = containerLog(id);
  const data = botData(id);
  const content = html(
    "div",
    { class: "columns" },
    html("div", {}, phases.element, data.left, log.element),
    html("div", {}, facts, data.right, history.element),
  );
  root.append(
    html(
      "nav",
      { class: "breadcrumb", "aria-label": "Breadcrumb" },
      html("a", { href: "#/bots", text: "Bots" }),
    ),
    html("div", { class: "heading" }, html("h1", { text: `Bot ${id}` }), status, name, buttons),
    failure,
    content,
  );
  let bot = null;

  async function load() {
    try {
      const [response, loaded, events] = await Promise.all([
        fetchJson(`v1/bots/${id}`),
        fetchJson(`v1/bots/${id}/timeline`),
        history.load(),
      ]);
      bot = response.bot;
      show(response);
      phases.show(loaded.phases, serverNow());
      history.show(events, serverNow());
      log.load(bot);
      await data.load(bot);
    } catch (error) {
      if (error.status === 404) notFound();
      else throw error;
    }
  }

  function notFound() {
    content.hidden = true;
    setText(
      failure,
      `There is no bot ${id}. Botpool deletes ended bots after retention.bots_days.`,
    );
  }

  function show({ queuePosition, estimatedWaitMs, progress, lastMediaAt }) {
    fillPill(status, bot.status);
    setText(name, bot.botDisplayName);
    setText(
      failure,
      bot.failureCode ? `${FAILURES[bot.failureCode]} ${bot.failureReason ?? ""}` : "",
    );
    syncChildren(
      buttons,
      botActions(bot),
      (action) => action.label + action.disabledReason,
      (action) => actionButton(action, refresh),
    );
    const slot = Array.from(model.slots.values()).find((each) => each.name === bot.slotName);
    facts.replaceChildren(
      ...[
        queuePosition && [
          "Queue position",
          `${queuePosition}${estimatedWaitMs ? `, about ${duration(estimatedWaitMs)}` : ""}`,
        ],
        ["Meeting", hostOf(bot.meetingUrl)],
        ["Pool", bot.platform],
        bot.tenant !== "default" && ["Tenant", bot.tenant],
        bot.createdBy && ["Created by", bot.createdBy.keyName],
        [
          "Slot",
          slot ? html("a", { href: `#/slots/${slot.id}`, text: bot.slotName }) : bot.slotName,
        ],
        ["Accepted", timeOfDay(bot.createdAt, serverNow())],
        bot.endedAt && ["Ended", timeOfDay(bot.endedAt, serverNow())],
        bot.endReason && ["Call ended", END_REASONS[bot.endReason] ?? bot.endReason],
        lastMediaAt && ["Last media", timeOfDay(lastMediaAt, serverNow())],
        progress && ["Progress", html("code", { text: JSON.stringify(progress) })],
        bot.joinAt && ["Joins", timeOfDay(bot.joinAt, serverNow())],
        bot.joinAt && ["Reservation", reservationText(bot)],
        bot.atRisk && ["At risk", bot.atRisk],
        bot.stalled && ["Stalled", "in the call and alive, but records nothing"],
        ["Attempts", bot.attempts],
        ["Priority", bot.priority],
        ["Last heartbeat", bot.lastHeartbeatAt && timeOfDay(bot.lastHeartbeatAt, serverNow())],
        ["Container", bot.containerId && html("code", { text: bot.containerId })],
        ["Correlation id", copyable(bot.correlationId, "correlation id")],
      ]
        .filter(Boolean)
        .map(([label, value]) => fact(label, value)),
    );
  }

  const refresh = throttle(load, REFRESH_MS);
  refresh();
  return {
    refresh,
    changed: (changes) => changes.some((change) => change.botId === id) && refresh(),
    tick: (at) => bot && !isFinal(bot.status) && phases.tick(at),
    close: () => {
      refresh.stop();
      log.close();
    },
  };
}

/** Whether a slot is reserved for a scheduled bot, and how likely the bot is on time. */
function reservationText({ reserved, onTimeProbability }) {
  const text = reserved ? "slot reserved" : "no slot reserved";
  return onTimeProbability === null ? text : `${text}, on time with ${percent(onTimeProbability)}`;
}
