/** All bots, newest first: by status, by pool, by what is looked for; page by page. */
import { rewrite } from "../address.js";
import { make, write } from "../dom.js";
import { ask, now } from "../http.js";
import { sendBot } from "../sending.js";
import { BOT_STATES } from "../states.js";
import { throttled } from "../timing.js";
import { announce } from "../toasts.js";
import { commandFor, duration, hostOf } from "../wording.js";
import { world } from "../world.js";
import { botLink, choice, pill } from "./parts.js";
import { table } from "./table.js";

const PAGE = 50;
const REFRESH_MS = 2_000;
const TYPING_MS = 250;

export const title = () => "Bots";

export function open(place, { query }) {
  const chosen = {
    status: query.get("status") ?? "",
    platform: query.get("platform") ?? "",
    search: query.get("search") ?? "",
  };
  const cursors = [null];
  let bots = null;
  let next = null;
  let searchedTo = null;

  const rows = table("Bots", [
    "Bot",
    "Status",
    "Name",
    "Meeting",
    "Pool",
    "Slot",
    "Age",
    "Took",
    "Failure",
  ]);
  const empty = make("div", { class: "empty" });
  const [newer, older] = [
    ["‹ Newer", () => turn(-1)],
    ["Older ›", () => turn(1)],
  ].map(([text, click]) => make("button", { type: "button", class: "quiet", text, click }));
  const where = make("span", { class: "soft" });
  let typing;
  const search = make("input", {
    type: "search",
    value: chosen.search,
    placeholder: "name, meeting, correlation id …",
    input: () => {
      clearTimeout(typing);
      typing = setTimeout(() => choose("search")(search.value.trim()), TYPING_MS);
    },
  });
  place.append(
    make(
      "div",
      { class: "heading" },
      make("h1", { text: "Bots" }),
      make(
        "form",
        { class: "filters", role: "search", submit: (event) => event.preventDefault() },
        make("label", { class: "wide" }, make("span", { text: "Search" }), search),
        choice("Status", "any status", BOT_STATES, chosen.status, choose("status")),
        choice(
          "Pool",
          "all pools",
          world.pools.map((pool) => pool.platform),
          chosen.platform,
          choose("platform"),
        ),
      ),
    ),
    empty,
    rows.element,
    make("nav", { class: "paging", "aria-label": "Pages" }, newer, where, older),
  );

  function choose(name) {
    return (value) => {
      chosen[name] = value;
      cursors.splice(1);
      rewrite(chosen);
      load();
    };
  }

  function turn(step) {
    if (step > 0) cursors.push(next);
    else cursors.pop();
    load();
    rows.element.scrollIntoView({ block: "nearest" });
  }

  /** A search answers in parts: it is asked on until the page is full, and shows what it has. */
  let asked = 0;
  async function load() {
    const mine = ++asked;
    const found = [];
    let cursor = cursors.at(-1);
    try {
      do {
        const answer = await ask(`v1/bots?${wanted(PAGE - found.length, cursor)}`);
        if (mine !== asked) return; // an older question, answered late
        found.push(...answer.bots);
        cursor = answer.nextCursor;
        searchedTo = found.length < PAGE ? cursor : null;
        [bots, next] = [found, cursor];
        show(now());
      } while (searchedTo);
    } catch (error) {
      if (error.status > 0) announce(error.message, "bad");
    }
  }
  const wanted = (limit, cursor) =>
    new URLSearchParams(
      Object.entries({ ...chosen, limit, cursor }).filter(([, value]) => value),
    );
  const refresh = throttled(load, REFRESH_MS);

  function show(at) {
    if (!bots) return;
    rows.show(
      bots,
      (bot) => bot.id,
      (bot) => [
        botLink(bot.id),
        pill(bot.status),
        bot.botDisplayName,
        hostOf(bot.meetingUrl),
        bot.platform,
        bot.slotName ?? "",
        duration(at - Date.parse(bot.createdAt)),
        bot.startedAt
          ? duration((bot.endedAt ? Date.parse(bot.endedAt) : at) - Date.parse(bot.startedAt))
          : "",
        bot.failureReason ?? bot.failureCode ?? "",
      ],
    );
    showEmpty();
    newer.disabled = cursors.length === 1;
    older.disabled = !next || Boolean(searchedTo);
    newer.parentElement.hidden = newer.disabled && !next;
    write(where, searchedTo ? `Searching before bot ${searchedTo} …` : `Page ${cursors.length}`);
  }

  function showEmpty() {
    empty.hidden = bots.length > 0 || Boolean(searchedTo);
    if (bots.length || empty.dataset.for === JSON.stringify(chosen)) return;
    empty.dataset.for = JSON.stringify(chosen);
    const narrowed = Object.values(chosen).some(Boolean);
    empty.replaceChildren(
      ...(narrowed
        ? [make("p", { text: "No bot is like that. Take a filter away, or search for less." })]
        : [
            make(
              "p",
              {},
              "No bots yet. ",
              make("button", {
                type: "button",
                class: "link",
                text: "Send one",
                click: () => sendBot(),
              }),
              ", or from a shell:",
            ),
            make("pre", { text: commandFor(world.pools[0]?.platform ?? "google-meet") }),
          ]),
    );
  }

  /** Bots in sight change at once; new ones come with the next look at the first page. */
  function changed(changes) {
    const moves = changes.filter((change) => change.kind === "bot.status");
    for (const { botId, to, slotName } of moves) {
      const bot = bots?.find((each) => each.id === botId);
      if (bot) Object.assign(bot, { status: to }, slotName && { slotName });
    }
    if (moves.length === 0) return;
    show(now());
    if (cursors.length === 1) refresh();
  }

  function close() {
    asked++;
    clearTimeout(typing);
    refresh.stop();
  }

  empty.hidden = rows.element.hidden = newer.parentElement.hidden = true;
  load();
  return { refresh, changed, tick: show, close };
}
