/** The view of one webhook: its state, its actions, and its deliveries with request and answer. */
import { actionButton } from "../actions.js";
import { html, setText, syncChildren } from "../dom.js";
import { NO_VALUE, plural, preciseDuration, timeOfDay } from "../format.js";
import { fetchJson, serverNow, withQuery } from "../http.js";
import { throttle } from "../timing.js";
import { botLink, fact, fillPill, filterSelect, pill } from "./components.js";
import { pager } from "./pager.js";
import { showSecret } from "./webhooks.js";

const PAGE_SIZE = 50;
const REFRESH_MS = 2_000;
const TEST_TIMEOUT_MS = 30_000;
const STATUSES = ["pending", "delivered", "failed"];

export const title = (id) => `Webhook ${id}`;

export function open(root, { id }) {
  const path = `v1/webhooks/${id}`;
  const status = html("span");
  const buttons = html("div", { class: "buttons" });
  const problem = html("p", { class: "card failure" });
  const facts = html("dl", { class: "card facts" });
  const deliveries = html("ul", { class: "deliveries" });
  const empty = html("p", { class: "empty", text: "No delivery yet." });
  const pages = pager(() => refresh());
  let chosen = "";
  const filter = filterSelect("Status", "all", STATUSES, chosen, (value) => {
    chosen = value;
    pages.reset();
    refresh();
  });
  root.append(
    html(
      "nav",
      { class: "breadcrumb", "aria-label": "Breadcrumb" },
      html("a", { href: "#/webhooks", text: "Webhooks" }),
    ),
    html("div", { class: "heading" }, html("h1", { text: `Webhook ${id}` }), status, buttons),
    problem,
    facts,
    html(
      "section",
      { class: "card" },
      html("div", { class: "heading" }, html("h2", { text: "Deliveries" }), filter),
      empty,
      deliveries,
      pages.element,
    ),
  );

  const refresh = throttle(async () => {
    const query = { limit: PAGE_SIZE, cursor: pages.cursor(), status: chosen };
    const loaded = await Promise.all([
      fetchJson(path),
      fetchJson(withQuery(`${path}/deliveries`, query)),
    ]).catch((error) => {
      if (error.status !== 404) throw error;
      setText(problem, "This webhook does not exist or was deleted.");
    });
    if (!loaded) return;
    const [{ webhook }, page] = loaded;
    show(webhook);
    pages.show(page.nextCursor);
    empty.hidden = page.deliveries.length > 0;
    syncChildren(
      deliveries,
      page.deliveries,
      (each) => `${each.id} ${each.status} ${each.attempts} ${each.nextAttemptAt}`,
      deliveryItem,
    );
  }, REFRESH_MS);

  function show(webhook) {
    fillPill(status, webhook.status);
    setText(problem, webhook.disabledReason ?? "");
    syncChildren(
      buttons,
      actionsOf(webhook, path),
      ({ label, description }) => label + description,
      (action) => actionButton(action, (response) => {
        if (response.secret) showSecret(response);
        if (action.leaves) location.hash = "#/webhooks";
        else refresh();
      }),
    );
    const at = (time) => time && timeOfDay(time, serverNow());
    facts.replaceChildren(
      ...[
        ["Address", html("code", { class: "address", text: webhook.url })],
        ["Description", webhook.description || null],
        ["Events", webhook.events?.join(", ") ?? "all"],
        ["Tenant", webhook.tenant ?? "all"],
        ["Pending", webhook.pending],
        ["Failed", webhook.failed],
        ["Last delivered", at(webhook.lastDeliveredAt)],
        ["Failing since", at(webhook.failingSince)],
        ["No attempt before", at(webhook.pausedUntil)],
        ["Former secret signs until", at(webhook.overlapEndsAt)],
        ["Created", `${at(webhook.createdAt)} by ${webhook.createdBy}`],
      ]
        .filter(([, value]) => value !== null)
        .map(([label, value]) => fact(label, value)),
    );
  }

  facts.hidden = false;
  empty.hidden = true;
  refresh();
  return { refresh, changed: () => refresh(), tick: () => {}, close: refresh.stop };
}

function actionsOf(webhook, path) {
  const post = (part, options = {}) => fetchJson(`${path}/${part}`, { method: "POST", ...options });
  return [
    {
      label: "Test",
      description: "Sends the example of an event now.",
      run: () => post("test", { signal: AbortSignal.timeout(TEST_TIMEOUT_MS) }),
      result: ({ delivery }) =>
        delivery.problem ?? `Answered ${delivery.response.status} in ${delivery.durationMs} ms`,
    },
    {
      label: "Replay",
      title: `Replay to webhook ${webhook.id}?`,
      description: "Delivers all failed events again, and enables the webhook if it is disabled.",
      confirmLabel: "Replay",
      destructive: true,
      run: () => post("replay"),
      result: () => `Webhook ${webhook.id} gets the failed events again`,
    },
    {
      label: "Rotate",
      title: `Rotate the secret of webhook ${webhook.id}?`,
      description: "Creates a new secret. For a day, requests carry signatures of both secrets.",
      destructive: true,
      run: () => post("rotate"),
      result: () => `Webhook ${webhook.id} has a new secret`,
    },
    {
      label: "Delete",
      title: `Delete webhook ${webhook.id}?`,
      description: "Deletes the webhook and its deliveries. It gets no more events.",
      destructive: true,
      leaves: true,
      run: () => fetchJson(path, { method: "DELETE" }),
      result: () => `Webhook ${webhook.id} is deleted`,
    },
  ];
}

function deliveryItem(delivery) {
  const at = (time) => (time ? timeOfDay(time, serverNow()) : NO_VALUE);
  const { request, response } = delivery;
  const next = delivery.nextAttemptAt ? `, next ${at(delivery.nextAttemptAt)}` : "";
  const tries = delivery.attempts
    ? `${plural(delivery.attempts, "attempt")}, last ${at(delivery.lastAttemptAt)}${next}`
    : `no attempt yet${next || ", after the bot's earlier events"}`;
  const headers = Object.entries(request.headers).map(([name, value]) => `${name}: ${value}`);
  const answer = response
    ? `${response.status}${response.body ? `\n\n${response.body}` : ""}`
    : "no answer";
  return html(
    "li",
    {},
    html(
      "details",
      {},
      html(
        "summary",
        {},
        html("b", { text: delivery.type }),
        pill(delivery.status),
        delivery.botId && html("span", { text: `bot ${delivery.botId}` }),
        html("span", { class: "soft", text: tries }),
        delivery.problem && html("span", { class: "problem", text: delivery.problem }),
      ),
      delivery.botId && html("p", {}, botLink(delivery.botId)),
      html("h3", { text: "Request" }),
      html("pre", {
        tabindex: 0,
        text: [
          `${request.method} ${request.url}`,
          ...headers,
          "",
          JSON.stringify(request.body, null, 2),
        ].join("\n"),
      }),
      html("h3", { text: `Answer, after ${preciseDuration(delivery.durationMs)}` }),
      html("pre", { tabindex: 0, text: answer }),
    ),
  );
}
