/** One bot: its whole life as a timeline, its history, and what its container wrote. */
import { actionButton, botActions } from "../actions.js";
import { follow, make, write } from "../dom.js";
import { ask, now } from "../http.js";
import { FAILURES, isFinal } from "../states.js";
import { throttled } from "../timing.js";
import { clock, duration, hostOf } from "../wording.js";
import { world } from "../world.js";
import { historyList } from "./history.js";
import { output } from "./output.js";
import { copyable, fact, fillPill } from "./parts.js";
import { timeline } from "./timeline.js";

const REFRESH_MS = 500;

export const title = (id) => `Bot ${id}`;

export function open(place, { id }) {
  const status = make("span");
  const name = make("span", { class: "soft" });
  const tools = make("div", { class: "buttons" });
  const trouble = make("p", { class: "card failure" });
  const facts = make("dl", { class: "card facts" });
  const life = timeline();
  const history = historyList("History");
  const written = output(id);
  const content = make(
    "div",
    { class: "columns" },
    make("div", {}, life.element, written.element),
    make("div", {}, facts, history.element),
  );
  place.append(
    make(
      "nav",
      { class: "trail", "aria-label": "Where you are" },
      make("a", { href: "#/bots", text: "Bots" }),
    ),
    make("div", { class: "heading" }, make("h1", { text: `Bot ${id}` }), status, name, tools),
    trouble,
    content,
  );
  let bot = null;

  async function load() {
    try {
      const [answer, { phases }, { events }] = await Promise.all([
        ask(`v1/bots/${id}`),
        ask(`v1/bots/${id}/timeline`),
        ask(`v1/bots/${id}/events`),
      ]);
      bot = answer.bot;
      show(answer);
      life.show(phases, now());
      history.show(events.toReversed(), now());
      written.follow(bot);
    } catch (error) {
      if (error.status === 404) notFound();
      else throw error;
    }
  }

  function notFound() {
    content.hidden = true;
    write(
      trouble,
      `There is no bot ${id}. Bots that ended are kept for the days that retention.bots_days says.`,
    );
  }

  function show({ queuePosition, estimatedWaitMs }) {
    fillPill(status, bot.status);
    write(name, bot.botDisplayName);
    write(
      trouble,
      bot.failureCode ? `${FAILURES[bot.failureCode]} ${bot.failureReason ?? ""}` : "",
    );
    follow(
      tools,
      botActions(bot),
      (action) => action.verb + action.off,
      (action) => actionButton(action, refresh),
    );
    const slot = Array.from(world.slots.values()).find((each) => each.name === bot.slotName);
    facts.replaceChildren(
      ...[
        queuePosition && [
          "Place in the queue",
          `${queuePosition}${estimatedWaitMs ? `, about ${duration(estimatedWaitMs)}` : ""}`,
        ],
        ["Meeting", hostOf(bot.meetingUrl)],
        ["Pool", bot.platform],
        [
          "Slot",
          slot ? make("a", { href: `#/slots/${slot.id}`, text: bot.slotName }) : bot.slotName,
        ],
        ["Accepted", clock(bot.createdAt, now())],
        bot.endedAt && ["Ended", clock(bot.endedAt, now())],
        ["Attempts", bot.attempts],
        ["Priority", bot.priority],
        ["Last heartbeat", bot.lastHeartbeatAt && clock(bot.lastHeartbeatAt, now())],
        ["Container", bot.containerId && make("code", { text: bot.containerId })],
        ["Correlation id", copyable(bot.correlationId, "correlation id")],
      ]
        .filter(Boolean)
        .map(([label, value]) => fact(label, value)),
    );
  }

  const refresh = throttled(load, REFRESH_MS);
  refresh();
  return {
    refresh,
    changed: (changes) => changes.some((change) => change.botId === id) && refresh(),
    tick: (at) => bot && !isFinal(bot.status) && life.tick(at),
    close: () => {
      refresh.stop();
      written.close();
    },
  };
}
