/** A list of history events, newest first. */
import { html, syncChildren } from "../dom.js";
import { timeOfDay, statusLabel } from "../format.js";
import { botLink } from "./components.js";

const LIMIT = 100;

export function historyList(name) {
  const list = html("ol", { class: "history" });
  const element = html(
    "section",
    { class: "card", "aria-labelledby": "history" },
    html("h2", { id: "history", text: name }),
    html(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Events, newest first" },
      list,
    ),
  );

  /** `events`, newest first. Keys count from the oldest, so that old elements stay in use. */
  function show(events, now) {
    const numbered = events.map((event, index) => ({ ...event, number: events.length - index }));
    syncChildren(
      list,
      numbered.slice(0, LIMIT),
      ({ at, number }) => `${at} ${number}`,
      (event) => eventItem(event, now),
    );
  }
  return { element, show };
}

function eventItem(event, now) {
  const [subject] = event.kind.split(".");
  const transition = event.to
    ? [event.from && statusLabel(event.from), statusLabel(event.to)].filter(Boolean).join(" → ")
    : event.kind;
  const details = Object.entries(event.data ?? {})
    .map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join(", ");
  return html(
    "li",
    { "data-subject": subject },
    html("time", { datetime: event.at, text: timeOfDay(event.at, now) }),
    html("b", { text: `${subject}: ${transition}` }),
    html("span", {}, event.reason, event.botId ? [" · ", botLink(event.botId)] : null),
    details && html("code", { text: details }),
  );
}
