/** The dialog that creates a bot. */
import { openDialog } from "./dialogs.js";
import { html } from "./dom.js";
import { preciseDuration, statusLabel } from "./format.js";
import { fetchJson } from "./http.js";
import { model } from "./model.js";
import { showToast } from "./toasts.js";

const EXAMPLES = {
  "google-meet": "https://meet.google.com/abc-defg-hij",
  teams: "https://teams.microsoft.com/l/meetup-join/19%3ameeting",
  zoom: "https://zoom.us/j/1234567890",
};

const LABELS = {
  meetingUrl: "Meeting link",
  platform: "Pool",
  botDisplayName: "Name in the meeting",
  priority: "Priority",
  queueTimeoutMs: "Queue timeout",
};

/** Open the dialog. `platform` preselects a pool. */
export async function sendBot(platform = "") {
  // One key for the whole dialog: a repeated request creates no second bot.
  const idempotencyKey = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16),
  ).join("");
  let response;
  const sent = await openDialog({
    title: "Send a bot",
    content: formFields(platform),
    confirmLabel: "Send",
    async run(form) {
      const headers = { "Idempotency-Key": idempotencyKey };
      const body = requestBody(new FormData(form));
      response = await fetchJson("v1/bots", { method: "POST", headers, body }).catch((error) =>
        useFormLabels(error, body),
      );
    },
  });
  if (!sent) return;
  const { bot, queuePosition, estimatedWaitMs } = response;
  const wait = estimatedWaitMs ? `, about ${preciseDuration(estimatedWaitMs)}` : "";
  const outcome = queuePosition
    ? `position ${queuePosition} in the queue${wait}`
    : `${statusLabel(bot.status)}${bot.slotName ? ` in ${bot.slotName}` : ""}`;
  showToast(`Bot ${bot.id}: ${outcome}`, "good", ["Open", `#/bots/${bot.id}`]);
}

function formFields(platform) {
  const pools = model.pools.map((pool) => pool.platform);
  const meeting = EXAMPLES[platform] ?? EXAMPLES[pools[0]] ?? EXAMPLES["google-meet"];
  return html(
    "div",
    { class: "fields" },
    field(
      "Meeting link",
      html("input", {
        name: "meetingUrl",
        type: "url",
        required: true,
        placeholder: meeting,
        value: platform && meeting,
      }),
    ),
    field("Pool", model.isOperator ? poolChoice(pools, platform) : poolName()),
    field(
      "Name in the meeting",
      html("input", { name: "botDisplayName", value: "Botpool", maxlength: 100, required: true }),
    ),
    html(
      "details",
      {},
      html("summary", { text: "Priority, queue timeout, bot data" }),
      field(
        "Priority (lower goes first)",
        html("input", { name: "priority", type: "number", step: 1, value: 100 }),
      ),
      field(
        "Queue timeout (seconds)",
        html("input", { name: "timeout", type: "number", min: 0, step: 1, placeholder: "default" }),
      ),
      field(
        "botData (JSON)",
        html("textarea", {
          name: "botData",
          rows: 3,
          spellcheck: "false",
          placeholder: '{"staySeconds": 60}',
        }),
      ),
    ),
  );
}

const DERIVED = "derived from the link";

const poolChoice = (pools, chosen) =>
  html(
    "select",
    { name: "platform" },
    html("option", { value: "", text: DERIVED }),
    pools.map((name) => html("option", { value: name, text: name, selected: name === chosen })),
  );

/** Users may name a pool, but not list the pools. */
const poolName = () => html("input", { name: "platform", placeholder: DERIVED, maxlength: 40 });

const field = (name, control) => html("label", {}, html("span", { text: name }), control);

function requestBody(form) {
  const [platform, timeout, data] = ["platform", "timeout", "botData"].map((name) =>
    form.get(name).trim(),
  );
  return {
    meetingUrl: form.get("meetingUrl").trim(),
    botDisplayName: form.get("botDisplayName"),
    priority: Number(form.get("priority")),
    ...(platform && { platform }),
    ...(timeout && { queueTimeoutMs: Number(timeout) * 1000 }),
    ...(data && { botData: parseJson(data) }),
  };
}

/** Name the fields of a validation error as the form names them. */
function useFormLabels(error, { platform }) {
  const messages = error.fields?.map(({ field, message }) =>
    field === "platform" && !platform
      ? `The pool cannot be derived from this link. ${model.isOperator ? "Choose" : "Name"} one.`
      : `${LABELS[field] ?? field}: ${message}`,
  );
  throw messages?.length ? new Error(messages.join(" · ")) : error;
}

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('botData is not JSON. Write an object, such as {"staySeconds": 60}.');
  }
}
