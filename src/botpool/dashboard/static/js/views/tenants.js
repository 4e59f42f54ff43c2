/** A slot's tenants over time: a strip of bars, and each of them in a row. */
import { follow, make, measure, write } from "../dom.js";
import { clock, duration, measured } from "../wording.js";
import { botLink, pill } from "./parts.js";
import { table } from "./table.js";

const LEAST_MS = 60_000;

export function tenants() {
  const strip = make("div", { class: "strip", "aria-hidden": "true" });
  const span = make(
    "div",
    { class: "axis", "aria-hidden": "true" },
    make("span"),
    make("span", { text: "now" }),
  );
  const rows = table("Tenants", ["Bot", "Status", "From", "Stayed", "To running", "Failure"]);
  const empty = make("p", { class: "empty", text: "No bot has been here yet." });
  const element = make(
    "section",
    { class: "card", "aria-labelledby": "tenants" },
    make("h2", { id: "tenants", text: "Tenants" }),
    empty,
    strip,
    span,
    rows.element,
  );
  let assignments = [];

  function show(answer, now) {
    assignments = answer;
    empty.hidden = assignments.length > 0;
    strip.hidden = span.hidden = assignments.length === 0;
    tick(now);
  }

  function tick(now) {
    const begin = Math.min(
      now - LEAST_MS,
      ...assignments.map(({ claimedAt }) => Date.parse(claimedAt)),
    );
    write(span.firstChild, clock(begin, now));
    follow(
      strip,
      assignments,
      ({ assignmentId }) => assignmentId,
      ({ botId }) => make("i", { title: `bot ${botId}` }),
      (bar, tenant) => {
        const [from, to] = [Date.parse(tenant.claimedAt), endOf(tenant, now)];
        bar.dataset.state = tenant.botStatus;
        measure(bar, "left", `${(100 * (from - begin)) / (now - begin)}%`);
        measure(bar, "width", `${(100 * (to - from)) / (now - begin)}%`);
      },
    );
    rows.show(
      assignments,
      ({ assignmentId }) => assignmentId,
      (tenant) => [
        botLink(tenant.botId),
        pill(tenant.botStatus),
        clock(tenant.claimedAt, now),
        duration(endOf(tenant, now) - Date.parse(tenant.claimedAt)),
        tenant.startedAt
          ? measured(Date.parse(tenant.startedAt) - Date.parse(tenant.claimedAt))
          : "",
        tenant.failureReason ?? tenant.failureCode ?? "",
      ],
    );
  }
  return { element, show, tick };
}

const endOf = ({ releasedAt, endedAt }, now) => {
  const end = releasedAt ?? endedAt;
  return end === null ? now : Date.parse(end);
};
