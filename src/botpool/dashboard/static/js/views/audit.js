/** The view of the audit log: actions of keys and commands, newest first. */
import { html } from "../dom.js";
import { NO_VALUE, timeOfDay } from "../format.js";
import { fetchJson, serverNow, withQuery } from "../http.js";
import { throttle } from "../timing.js";
import { pager } from "./pager.js";
import { table } from "./table.js";

const PAGE_SIZE = 100;
const REFRESH_MS = 2_000;

export const title = () => "Audit log";

export function open(root) {
  const rows = table("Audit log", ["Time", "Actor", "Action", "Target", "Change", "Address"]);
  const empty = html("p", { class: "empty", text: "No action is recorded yet." });
  const pages = pager(() => refresh(), { back: "‹ Newer", forward: "Older ›" });
  root.append(
    html("div", { class: "heading" }, html("h1", { text: "Audit log" })),
    empty,
    rows.element,
    pages.element,
  );

  const refresh = throttle(async () => {
    const query = { limit: PAGE_SIZE, cursor: pages.cursor() };
    const response = await fetchJson(withQuery("v1/audit", query));
    pages.show(response.nextCursor);
    empty.hidden = response.entries.length > 0;
    rows.show(
      response.entries,
      (entry) => entry.id,
      (entry) => [
        html("time", {
          text: timeOfDay(Date.parse(entry.at), serverNow()),
          title: entry.at,
          datetime: entry.at,
        }),
        entry.actor,
        entry.action,
        entry.target,
        changeOf(entry),
        entry.address ?? NO_VALUE,
      ],
    );
  }, REFRESH_MS);

  empty.hidden = rows.element.hidden = true;
  refresh();
  return { refresh, changed: () => refresh(), tick: () => {}, close: refresh.stop };
}

/** The values that changed: `drained: false → true`. */
function changeOf({ before, after }) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  const text = (values, name) => (values?.[name] === undefined ? "" : String(values[name]));
  return names
    .filter((name) => text(before, name) !== text(after, name))
    .map((name) =>
      [text(before, name), text(after, name)].every((value) => value !== "")
        ? `${name}: ${text(before, name)} → ${text(after, name)}`
        : `${name}: ${text(before, name) || text(after, name)}`,
    )
    .join(", ");
}
