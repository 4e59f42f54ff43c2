/** What happened, newest first: from what to what, why, and when. */
import { follow, make } from "../dom.js";
import { clock, spoken } from "../wording.js";
import { botLink } from "./parts.js";

const SHOWN = 100;

export function historyList(name) {
  const list = make("ol", { class: "history" });
  const element = make(
    "section",
    { class: "card", "aria-labelledby": "history" },
    make("h2", { id: "history", text: name }),
    make(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Events, newest first" },
      list,
    ),
  );

  /** `events`, newest first. Numbered from the oldest, so that lines stay when new ones come. */
  function show(events, now) {
    const numbered = events.map((event, index) => ({ ...event, number: events.length - index }));
    follow(
      list,
      numbered.slice(0, SHOWN),
      ({ at, number }) => `${at} ${number}`,
      (event) => line(event, now),
    );
  }
  return { element, show };
}

function line(event, now) {
  const [subject] = event.kind.split(".");
  const move = event.to
    ? [event.from && spoken(event.from), spoken(event.to)].filter(Boolean).join(" → ")
    : event.kind;
  const details = Object.entries(event.data ?? {})
    .map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join(", ");
  return make(
    "li",
    { "data-subject": subject },
    make("time", { datetime: event.at, text: clock(event.at, now) }),
    make("b", { text: `${subject}: ${move}` }),
    make("span", {}, event.reason, event.botId ? [" · ", botLink(event.botId)] : null),
    details && make("code", { text: details }),
  );
}
