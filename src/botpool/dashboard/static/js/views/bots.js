/** The view of all bots, newest first, with filters, a search and pages. */
import { html } from "../dom.js";
import { curlCommand, duration, hostOf } from "../format.js";
import { fetchJson, serverNow, withQuery } from "../http.js";
import { model } from "../model.js";
import { sendBot } from "../send-bot.js";
import { BOT_STATUSES } from "../statuses.js";
import { throttle } from "../timing.js";
import { showToast } from "../toasts.js";
import { setQuery } from "../url-query.js";
import { botLink, filterSelect, pill } from "./components.js";
import { pager } from "./pager.js";
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
    tenant: query.get("tenant") ?? "",
  };
  let bots = null;
  let searching = false;

  const showsTenants = model.tenants.length > 0;
  const rows = table("Bots", [
    "Bot",
    "Status",
    "Name",
    "Meeting",
    "Pool",
    ...(showsTenants ? ["Tenant"] : []),
    "Slot",
    "Age",
    "Duration",
    "Failure",
  ]);
  const empty = html("div", { class: "empty" });
  const pages = pager(() => {
    load();
    rows.element.scrollIntoView({ block: "nearest" });
  });
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
        model.isOperator
          ? filterSelect(
              "Pool",
              "all pools",
              model.pools.map((pool) => pool.platform),
              chosen.platform,
              choose("platform"),
            )
          : null,
        showsTenants
          ? filterSelect("Tenant", "all tenants", model.tenants, chosen.tenant, choose("tenant"))
          : null,
      ),
    ),
    empty,
    rows.element,
    pages.element,
  );

  function choose(name) {
    return (value) => {
      chosen[name] = value;
      pages.reset();
      setQuery(chosen);
      load();
    };
  }

  /** The server answers a search in parts: load parts until the page is full. */
  let loadNumber = 0;
  async function load() {
    const mine = ++loadNumber;
    const found = [];
    let cursor = pages.cursor();
    try {
      do {
        const query = { ...chosen, limit: PAGE_SIZE - found.length, cursor };
        const response = await fetchJson(withQuery("v1/bots", query));
        if (mine !== loadNumber) return; // a newer load has replaced this one
        found.push(...response.bots);
        cursor = response.nextCursor;
        searching = Boolean(cursor) && found.length < PAGE_SIZE;
        bots = found;
        pages.show(cursor, searching ? "Searching older bots …" : "");
        show(serverNow());
      } while (searching);
    } catch (error) {
      if (error.status > 0) showToast(error.message, "bad");
    }
  }
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
        ...(showsTenants ? [bot.tenant] : []),
        bot.slotName ?? "",
        duration(at - Date.parse(bot.createdAt)),
        bot.startedAt
          ? duration((bot.endedAt ? Date.parse(bot.endedAt) : at) - Date.parse(bot.startedAt))
          : "",
        bot.failureReason ?? bot.failureCode ?? "",
      ],
    );
    showEmpty();
  }

  function showEmpty() {
    empty.hidden = bots.length > 0 || searching;
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
    if (pages.isFirst()) refresh();
  }

  function close() {
    loadNumber++;
    clearTimeout(searchTimer);
    refresh.stop();
  }

  empty.hidden = rows.element.hidden = true;
  load();
  return { refresh, changed, tick: show, close };
}
