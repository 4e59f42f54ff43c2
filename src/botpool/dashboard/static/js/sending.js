/** Send a bot: the form, and where it went. */
import { inDialog } from "./dialogs.js";
import { make } from "./dom.js";
import { ask } from "./http.js";
import { announce } from "./toasts.js";
import { measured, spoken } from "./wording.js";
import { world } from "./world.js";

const EXAMPLES = {
  "google-meet": "https://meet.google.com/abc-defg-hij",
  teams: "https://teams.microsoft.com/l/meetup-join/19%3ameeting",
  zoom: "https://zoom.us/j/1234567890",
};

const LABELS = {
  meetingUrl: "Meeting link",
  botDisplayName: "Name in the meeting",
  priority: "Priority",
  queueTimeoutMs: "Wait for a slot at most",
};

export async function sendBot(platform = "") {
  // One for the whole dialog: pressing twice, or again after a lost answer, sends one bot.
  const once = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16),
  ).join("");
  let answer;
  const sent = await inDialog({
    title: "Send a bot",
    content: fields(platform),
    verb: "Send",
    async work(form) {
      const headers = { "Idempotency-Key": once };
      const body = written(new FormData(form));
      answer = await ask("v1/bots", { method: "POST", headers, body }).catch(inWordsOfTheForm);
    },
  });
  if (!sent) return;
  const { bot, queuePosition, estimatedWaitMs } = answer;
  const wait = estimatedWaitMs ? `, about ${measured(estimatedWaitMs)}` : "";
  const place = queuePosition
    ? `place ${queuePosition} in the queue${wait}`
    : `${spoken(bot.status)}${bot.slotName ? ` in ${bot.slotName}` : ""}`;
  announce(`Bot ${bot.id}: ${place}`, "good", ["Look at it", `#/bots/${bot.id}`]);
}

function fields(platform) {
  const pools = world.pools.map((pool) => pool.platform);
  const meeting = EXAMPLES[platform] ?? EXAMPLES[pools[0]] ?? EXAMPLES["google-meet"];
  return make(
    "div",
    { class: "fields" },
    field(
      "Meeting link",
      make("input", {
        name: "meetingUrl",
        type: "url",
        required: true,
        placeholder: meeting,
        value: platform && meeting,
      }),
    ),
    field(
      "Pool",
      make(
        "select",
        { name: "platform" },
        make("option", { value: "", text: "read from the link" }),
        pools.map((name) =>
          make("option", { value: name, text: name, selected: name === platform }),
        ),
      ),
    ),
    field(
      "Name in the meeting",
      make("input", { name: "botDisplayName", value: "Botpool", maxlength: 100, required: true }),
    ),
    make(
      "details",
      {},
      make("summary", { text: "Priority, waiting, data" }),
      field(
        "Priority (lower goes first)",
        make("input", { name: "priority", type: "number", step: 1, value: 100 }),
      ),
      field(
        "Wait for a slot at most (seconds)",
        make("input", { name: "wait", type: "number", min: 0, step: 1, placeholder: "as set" }),
      ),
      field(
        "botData (JSON)",
        make("textarea", {
          name: "botData",
          rows: 3,
          spellcheck: "false",
          placeholder: '{"staySeconds": 60}',
        }),
      ),
    ),
  );
}

const field = (name, control) => make("label", {}, make("span", { text: name }), control);

function written(form) {
  const [platform, wait, data] = ["platform", "wait", "botData"].map((name) =>
    form.get(name).trim(),
  );
  return {
    meetingUrl: form.get("meetingUrl").trim(),
    botDisplayName: form.get("botDisplayName"),
    priority: Number(form.get("priority")),
    ...(platform && { platform }),
    ...(wait && { queueTimeoutMs: Number(wait) * 1000 }),
    ...(data && { botData: parsed(data) }),
  };
}

/** The fields of a request by the names that the form has for them. */
function inWordsOfTheForm(error) {
  const told = error.fields?.map(({ field, message }) =>
    field === "platform"
      ? "The pool cannot be read from this link. Choose one."
      : `${LABELS[field] ?? field}: ${message}`,
  );
  throw told?.length ? new Error(told.join(" · ")) : error;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('botData is not JSON. Write an object, such as {"staySeconds": 60}.');
  }
}
