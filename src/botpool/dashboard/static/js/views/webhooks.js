/** The list of webhooks, and the dialog that creates one. */
import { openDialog } from "../dialogs.js";
import { html } from "../dom.js";
import { NO_VALUE, timeOfDay } from "../format.js";
import { fetchJson, serverNow } from "../http.js";
import { throttle } from "../timing.js";
import { copyable, pill } from "./components.js";
import { table } from "./table.js";

const REFRESH_MS = 2_000;
const COLUMNS = ["Webhook", "Status", "Address", "Events", "Tenant", "Pending", "Failed", "Delivered"];

export const title = () => "Webhooks";

export function open(root) {
  const rows = table("Webhooks", COLUMNS);
  const empty = html("p", {
    class: "empty",
    text: "No webhook yet. A webhook is an address to which Botpool sends events of bots.",
  });
  const create = html("button", {
    type: "button",
    class: "quiet",
    text: "Create a webhook",
    click: () => createWebhook(refresh),
  });
  root.append(
    html(
      "div",
      { class: "heading" },
      html("h1", { text: "Webhooks" }),
      html("div", { class: "buttons" }, create),
    ),
    empty,
    rows.element,
  );

  const refresh = throttle(async () => {
    const { webhooks } = await fetchJson("v1/webhooks");
    empty.hidden = webhooks.length > 0;
    rows.show(webhooks, (webhook) => webhook.id, cellsOf);
  }, REFRESH_MS);

  empty.hidden = rows.element.hidden = true;
  refresh();
  return { refresh, changed: () => refresh(), tick: () => {}, close: refresh.stop };
}

function cellsOf(webhook) {
  const delivered = webhook.lastDeliveredAt;
  return [
    html("a", { href: `#/webhooks/${webhook.id}`, text: `webhook ${webhook.id}` }),
    pill(webhook.status),
    html("code", { class: "address", text: webhook.url, title: webhook.description }),
    webhook.events?.join(", ") ?? "all",
    webhook.tenant ?? "all",
    webhook.pending,
    webhook.failed,
    delivered ? timeOfDay(delivered, serverNow()) : NO_VALUE,
  ];
}

async function createWebhook(onDone) {
  let response;
  const content = html(
    "div",
    { class: "fields" },
    html(
      "label",
      {},
      html("span", { text: "Address" }),
      html("input", {
        name: "url",
        type: "url",
        required: true,
        placeholder: "https://meet.example.org/hooks/botpool",
      }),
    ),
    html(
      "label",
      {},
      html("span", { text: "Description" }),
      html("input", { name: "description", maxlength: 200 }),
    ),
  );
  const created = await openDialog({
    title: "Create a webhook",
    content,
    confirmLabel: "Create",
    async run(form) {
      const body = Object.fromEntries(new FormData(form));
      response = await fetchJson("v1/webhooks", { method: "POST", body });
    },
  });
  if (!created) return;
  onDone();
  await showSecret(response);
}

/** Show the secret of a new or rotated webhook. No later response contains it. */
export async function showSecret({ webhook, secret }) {
  await openDialog({
    title: `The secret of webhook ${webhook.id}`,
    content: html(
      "div",
      { class: "fields" },
      html("p", { text: "Your receiver verifies requests with it. Botpool shows it only now." }),
      copyable(secret, "secret"),
    ),
    confirmLabel: "Done",
    cancelLabel: "Close",
    run: async () => {},
  });
}
