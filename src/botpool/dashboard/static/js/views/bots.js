/** The view of all bots, newest first, with filters, a search and pages. */
import { html, setText } from "../dom.js";
import { curlCommand, duration, hostOf } from "../format.js";
import { fetchJson, serverNow } from "../http.js";
import { model } from "../model.js";
import { sendBot } from "../send-bot.js";
import { BOT_STATUSES } from "../statuses.js";
import { throttle } from "../timing.js";
import { showToast } from "../toasts.js";
import { setQuery } from "../url-query.js";
import { botLink, filterSelect, pill } from "./components.js";
import { table } from "./table.js";

const PAGE_SIZE = 50;
const REFRESH_MS = 2_000;
const SEARCH_DELAY_MS = 250;

export const title = () => "Bots";

export function open(root, { query }) {
  const chosen = {
    status: query.get("status") ?? "",
    platform: query.get("platform") ?? "",
    search: query.get("search") ?? "",
    containerId: query.get("containerId") ?? "",
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
    "Duration",
    "Failure",
  ]);
  const empty = html("div", { class: "empty" });
  const [newer, older] = [
    ["‹ Newer", () => turnPage(-1)],
    ["Older ›", () => turnPage(1)],
  ].map(([text, click]) => html("button", { type: "button", class: "quiet", text, click }));
  const pageLabel = html("span", { class: "soft" });
  let searchTimer;
  const searchField = (name, placeholder) => {
    const field = html("input", {
      type: "search",
      value: chosen[name],
      placeholder,
      input: () => {
        clearTimeout(searchTimer);
        searchTimer = setTimeout(() => choose(name)(field.value.trim()), SEARCH_DELAY_MS);
      },
    });
    return field;
  };
  root.append(
    html(
      "div",
      { class: "heading" },
      html("h1", { text: "Bots" }),
      html(
        "form",
        { class: "filters", role: "search", submit: (event) => event.preventDefault() },
        html(
          "label",
          { class: "wide" },
          html("span", { text: "Search" }),
          searchField("search", "name, meeting, correlation id …"),
        ),
        html(
          "label",
          { class: "wide" },
          html("span", { text: "Container" }),
          searchField("containerId", "container id: current bot first"),
        ),
        filterSelect("Status", "any status", BOT_STATUSES, chosen.status, choose("status")),
        filterSelect(
          "Pool",
          "all pools",
          model.pools.map((pool) => pool.platform),
          chosen.platform,
          choose("platform"),
        ),
      ),
    ),
    empty,
    rows.element,
    html("nav", { class: "paging", "aria-label": "Pages" }, newer, pageLabel, older),
  );

  function choose(name) {
    return (value) => {
      chosen[name] = value;
      cursors.splice(1);
      setQuery(chosen);
      load();
    };
  }

  function turnPage(step) {
    if (step > 0) cursors.push(next);
    else cursors.pop();
    load();
    rows.element.scrollIntoView({ block: "nearest" });
  }

  /** The server answers a search in parts: load parts until the page is full. */
  let loadNumber = 0;
  async function load() {
    const mine = ++loadNumber;
    const found = [];
    let cursor = cursors.at(-1);
    try {
      do {
        const response = await fetchJson(`v1/bots?${parameters(PAGE_SIZE - found.length, cursor)}`);
        if (mine !== loadNumber) return; // a newer load has replaced this one
        found.push(...response.bots);
        cursor = response.nextCursor;
        searchedTo = found.length < PAGE_SIZE ? cursor : null;
        [bots, next] = [found, cursor];
        show(serverNow());
      } while (searchedTo);
    } catch (error) {
      if (error.status > 0) showToast(error.message, "bad");
    }
  }
  const parameters = (limit, cursor) =>
    new URLSearchParams(
      Object.entries({ ...chosen, limit, cursor }).filter(([, value]) => value),
    );
  const refresh = throttle(load, REFRESH_MS);

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
    setText(
      pageLabel,
      searchedTo ? `Searching before bot ${searchedTo} …` : `Page ${cursors.length}`,
    );
  }

  function showEmpty() {
    empty.hidden = bots.length > 0 || Boolean(searchedTo);
    if (bots.length || empty.dataset.for === JSON.stringify(chosen)) return;
    empty.dataset.for = JSON.stringify(chosen);
    const filtered = Object.values(chosen).some(Boolean);
    empty.replaceChildren(
      ...(filtered
        ? [html("p", { text: "No bot matches. Remove a filter or shorten the search." })]
        : [
            html(
              "p",
              {},
              "No bots yet. ",
              html("button", {
                type: "button",
                class: "link",
                text: "Send the first bot",
                click: () => sendBot(),
              }),
              ", or use a shell:",
            ),
            html("pre", { text: curlCommand(model.pools[0]?.platform ?? "google-meet") }),
          ]),
    );
  }

  /** Update visible bots at once. New bots appear with the next load of the first page. */
  function changed(changes) {
    const transitions = changes.filter((change) => change.kind === "bot.status");
    for (const { botId, to, slotName } of transitions) {
      const bot = bots?.find((each) => each.id === botId);
      if (bot) Object.assign(bot, { status: to }, slotName && { slotName });
    }
    if (transitions.length === 0) return;
    show(serverNow());
    if (cursors.length === 1) refresh();
  }

  function close() {
    loadNumber++;
    clearTimeout(searchTimer);
    refresh.stop();
  }

  empty.hidden = rows.element.hidden = newer.parentElement.hidden = true;
  load();
  return { refresh, changed, tick: show, close };
}
