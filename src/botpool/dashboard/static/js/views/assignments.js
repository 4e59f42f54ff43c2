/** The assignments of a slot: a strip of bars over time, and a table. */
import { html, setStyle, setText, syncChildren } from "../dom.js";
import { duration, preciseDuration, timeOfDay } from "../format.js";
import { fetchJson, withQuery } from "../http.js";
import { botLink, pill } from "./components.js";
import { pager } from "./pager.js";
import { table } from "./table.js";

const PAGE_SIZE = 200;
const MIN_SPAN_MS = 60_000;

/** `turned` loads another page. */
export function assignmentList(slotId, turned) {
  const pages = pager(turned);
  const strip = html("div", { class: "strip", "aria-hidden": "true" });
  const axis = html(
    "div",
    { class: "axis", "aria-hidden": "true" },
    html("span"),
    html("span", { text: "now" }),
  );
  const rows = table("Assignments", [
    "Bot",
    "Status",
    "Assigned",
    "Duration",
    "Time to running",
    "Failure",
  ]);
  const empty = html("p", { class: "empty", text: "This slot has had no bot yet." });
  const element = html(
    "section",
    { class: "card", "aria-labelledby": "assignments" },
    html("h2", { id: "assignments", text: "Assignments" }),
    empty,
    strip,
    axis,
    rows.element,
    pages.element,
  );
  let assignments = [];

  const load = () =>
    fetchJson(
      withQuery(`v1/slots/${slotId}/assignments`, { limit: PAGE_SIZE, cursor: pages.cursor() }),
    );

  function show(page, now) {
    assignments = page.assignments;
    pages.show(page.nextCursor);
    empty.hidden = assignments.length > 0;
    strip.hidden = axis.hidden = assignments.length === 0;
    tick(now);
  }

  function tick(now) {
    const begin = Math.min(
      now - MIN_SPAN_MS,
      ...assignments.map(({ claimedAt }) => Date.parse(claimedAt)),
    );
    setText(axis.firstChild, timeOfDay(begin, now));
    syncChildren(
      strip,
      assignments,
      ({ assignmentId }) => assignmentId,
      ({ botId }) => html("i", { title: `bot ${botId}` }),
      (bar, assignment) => {
        const [from, to] = [Date.parse(assignment.claimedAt), endOf(assignment, now)];
        bar.dataset.status = assignment.botStatus;
        setStyle(bar, "left", `${(100 * (from - begin)) / (now - begin)}%`);
        setStyle(bar, "width", `${(100 * (to - from)) / (now - begin)}%`);
      },
    );
    rows.show(
      assignments,
      ({ assignmentId }) => assignmentId,
      (assignment) => [
        botLink(assignment.botId),
        pill(assignment.botStatus),
        timeOfDay(assignment.claimedAt, now),
        duration(endOf(assignment, now) - Date.parse(assignment.claimedAt)),
        assignment.startedAt
          ? preciseDuration(Date.parse(assignment.startedAt) - Date.parse(assignment.claimedAt))
          : "",
        assignment.failureReason ?? assignment.failureCode ?? "",
      ],
    );
  }
  return { element, load, show, tick };
}

const endOf = ({ releasedAt, endedAt }, now) => {
  const end = releasedAt ?? endedAt;
  return end === null ? now : Date.parse(end);
};
