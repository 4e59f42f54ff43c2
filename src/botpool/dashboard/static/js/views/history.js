/** A list of history events, newest first, in pages. */
import { html, syncChildren } from "../dom.js";
import { timeOfDay, statusLabel } from "../format.js";
import { fetchJson, withQuery } from "../http.js";
import { botLink } from "./components.js";
import { pager } from "./pager.js";

const PAGE_SIZE = 100;

/** `path` is that of the events, newest first; `turned` loads another page. */
export function historyList(name, path, turned) {
  const pages = pager(turned);
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
    pages.element,
  );

  /** Get the events of the page that is shown. */
  const load = () => fetchJson(withQuery(path, { limit: PAGE_SIZE, cursor: pages.cursor() }));

  function show({ events, nextCursor }, now) {
    pages.show(nextCursor);
    syncChildren(list, withKeys(events), ({ key }) => key, (event) => eventItem(event, now));
  }
  return { element, load, show };
}

/** Add keys that stay the same while newer events arrive, so that old elements stay in use. */
function withKeys(events) {
  const seen = new Map();
  return events
    .toReversed()
    .map((event) => {
      const text = JSON.stringify(event);
      seen.set(text, (seen.get(text) ?? 0) + 1);
      return { ...event, key: `${text} ${seen.get(text)}` };
    })
    .toReversed();
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
