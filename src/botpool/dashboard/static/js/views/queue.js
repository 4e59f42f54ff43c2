/** Who waits, in the order of service, and how long each can still wait. */
import { actionButton, botActions } from "../actions.js";
import { rewrite } from "../address.js";
import { make, measure, write } from "../dom.js";
import { ask, now } from "../http.js";
import { throttled } from "../timing.js";
import { NONE, duration, plural } from "../wording.js";
import { world } from "../world.js";
import { botLink, choice } from "./parts.js";
import { table } from "./table.js";

const SHOWN = 200;
const REFRESH_MS = 1_000;

export const title = () => "Queue";

export function open(place, { query }) {
  const heading = make("h1", { text: "Queue" });
  const note = make("p", { class: "soft" });
  const rows = table("Queue", [
    "Place",
    "Bot",
    "Pool",
    "Priority",
    "Waiting",
    "Deadline in",
    "Estimate",
    "",
  ]);
  const empty = make("p", { class: "empty", text: "Nobody waits: there is a slot for every bot." });
  const filter = make("div", { class: "filters" });
  place.append(make("div", { class: "heading" }, heading, filter), note, empty, rows.element);
  let platform = query.get("platform") ?? "";
  let entries = null;

  filter.append(
    choice(
      "Pool",
      "all pools",
      world.pools.map((pool) => pool.platform),
      platform,
      (chosen) => {
        platform = chosen;
        rewrite(platform ? { platform } : {});
        refresh();
      },
    ),
  );
  filter.hidden = world.pools.length < 2;

  const refresh = throttled(async () => {
    const answer = await ask(`v1/queue${platform ? `?platform=${platform}` : ""}`);
    entries = answer.queue;
    show(now());
  }, REFRESH_MS);

  function show(at) {
    if (!entries) return;
    const more = entries.length - SHOWN;
    empty.hidden = entries.length > 0;
    write(
      note,
      entries.length === 0
        ? ""
        : plural(entries.length, "bot waits", "bots wait") +
            (more > 0 ? `; the first ${SHOWN} are shown.` : "."),
    );
    rows.show(
      entries.slice(0, SHOWN),
      (entry) => entry.botId,
      (entry) => [
        entry.position,
        botLink(entry.botId),
        entry.platform,
        entry.priority,
        duration(at - Date.parse(entry.queuedAt)),
        left(entry, at),
        entry.estimatedWaitMs === null ? NONE : `about ${duration(entry.estimatedWaitMs)}`,
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

/** The time left, and how much of it is gone; red where it is short, or shorter than the estimate. */
function left({ queuedAt, timeoutAt, estimatedWaitMs }, at) {
  const [from, to] = [Date.parse(queuedAt), Date.parse(timeoutAt)];
  const share = Math.min(1, Math.max(0, (to - at) / (to - from)));
  const late = estimatedWaitMs !== null && estimatedWaitMs > to - at;
  const bar = make("i");
  measure(bar, "width", `${Math.round(share * 100)}%`);
  return make(
    "span",
    {
      class: late || share < 0.2 ? "left soon" : "left",
      title: late && "By its estimate, no slot will be free in time.",
    },
    make("span", { text: duration(to - at) }),
    make("span", { class: "gauge", "aria-hidden": "true" }, bar),
  );
}
