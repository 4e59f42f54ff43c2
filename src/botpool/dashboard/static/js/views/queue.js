/** The view of the queue, in the order of service. */
import { actionButton, botActions } from "../actions.js";
import { html, setStyle, setText } from "../dom.js";
import { duration, NO_VALUE, plural } from "../format.js";
import { fetchJson, serverNow, withQuery } from "../http.js";
import { model } from "../model.js";
import { throttle } from "../timing.js";
import { setQuery } from "../url-query.js";
import { botLink, filterSelect } from "./components.js";
import { pager } from "./pager.js";
import { table } from "./table.js";

const PAGE_SIZE = 200;
const REFRESH_MS = 1_000;

export const title = () => "Queue";

export function open(root, { query }) {
  const heading = html("h1", { text: "Queue" });
  const note = html("p", { class: "soft" });
  const rows = table("Queue", [
    "Position",
    "Bot",
    "Pool",
    "Priority",
    "Waiting",
    "Time left",
    "Estimated wait",
    "",
  ]);
  const empty = html("p", { class: "empty", text: "The queue is empty." });
  const filter = html("div", { class: "filters" });
  const pages = pager(() => refresh(), { back: "‹ Earlier", forward: "Later ›" });
  root.append(
    html("div", { class: "heading" }, heading, filter),
    note,
    empty,
    rows.element,
    pages.element,
  );
  let platform = query.get("platform") ?? "";
  let entries = null;

  filter.append(
    filterSelect(
      "Pool",
      "all pools",
      model.pools.map((pool) => pool.platform),
      platform,
      (chosen) => {
        platform = chosen;
        pages.reset();
        setQuery(platform ? { platform } : {});
        refresh();
      },
    ),
  );
  filter.hidden = model.pools.length < 2;

  const refresh = throttle(async () => {
    const query = { platform, limit: PAGE_SIZE, cursor: pages.cursor() };
    const response = await fetchJson(withQuery("v1/queue", query));
    entries = response.queue;
    pages.show(response.nextCursor);
    show(serverNow());
  }, REFRESH_MS);

  function show(at) {
    if (!entries) return;
    empty.hidden = entries.length > 0;
    setText(
      note,
      entries.length === 0
        ? ""
        : pages.element.hidden
          ? `${plural(entries.length, "bot waits", "bots wait")}.`
          : `Positions ${entries[0].position} to ${entries.at(-1).position} are shown.`,
    );
    rows.show(
      entries,
      (entry) => entry.botId,
      (entry) => [
        entry.position,
        botLink(entry.botId),
        entry.platform,
        entry.priority,
        duration(at - Date.parse(entry.queuedAt)),
        timeLeft(entry, at),
        entry.estimatedWaitMs === null ? NO_VALUE : `about ${duration(entry.estimatedWaitMs)}`,
        actionButton(botActions({ id: entry.botId, status: "QUEUED" })[0], refresh),
      ],
    );
  }

  empty.hidden = rows.element.hidden = true;
  refresh();
  return {
    refresh,
    changed: (changes) => changes.some((change) => change.kind === "bot.status") && refresh(),
    tick: show,
    close: refresh.stop,
  };
}

/** The time until the bot's deadline: red if it is short, or shorter than the estimated wait. */
function timeLeft({ queuedAt, timeoutAt, estimatedWaitMs }, at) {
  const [from, to] = [Date.parse(queuedAt), Date.parse(timeoutAt)];
  const share = Math.min(1, Math.max(0, (to - at) / (to - from)));
  const late = estimatedWaitMs !== null && estimatedWaitMs > to - at;
  const bar = html("i");
  setStyle(bar, "width", `${Math.round(share * 100)}%`);
  return html(
    "span",
    {
      class: late || share < 0.2 ? "deadline urgent" : "deadline",
      title: late && "The estimated wait is longer than the time left.",
    },
    html("span", { text: duration(to - at) }),
    html("span", { class: "gauge", "aria-hidden": "true" }, bar),
  );
}
