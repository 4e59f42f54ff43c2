/** Operator actions on bots, slots and pools. Actions that end a bot ask for confirmation first.
 *
 * An action has a `label` and a `description` for its button, `run()`, and `result(response)` for
 * the message afterwards. `destructive` actions open a dialog with `title` and `confirmLabel`.
 * `disabledReason` disables the button. */
import { openDialog } from "./dialogs.js";
import { html } from "./dom.js";
import { statusLabel } from "./format.js";
import { fetchJson } from "./http.js";
import { model, update } from "./model.js";
import { hasBot, hasNotStarted, isFinal } from "./statuses.js";
import { showToast } from "./toasts.js";

const post = (path) => fetchJson(path, { method: "POST" });

/** The actions for a bot in its current status. */
export function botActions(bot) {
  if (isFinal(bot.status)) return [];
  const early = hasNotStarted(bot.status);
  return [
    {
      label: early ? "Cancel" : "Ask to leave",
      title: early ? `Cancel bot ${bot.id}?` : `Ask bot ${bot.id} to leave?`,
      confirmLabel: early ? "Cancel the bot" : "Ask to leave",
      description: early
        ? `Bot ${bot.id} has not joined yet. Botpool cancels it and frees its slot.`
        : `Bot ${bot.id} gets the request to leave with its next heartbeat. ` +
          "If it has not left after 30 seconds, Botpool stops it.",
      destructive: true,
      disabledReason: bot.status === "LEAVING" && "The bot already has a request to leave.",
      run: () => fetchJson(`v1/bots/${bot.id}`, { method: "DELETE" }),
      result: (response) => `Bot ${bot.id}: ${statusLabel(response.bot.status)}`,
    },
  ];
}

/** The actions for a slot in its current status. */
export function slotActions(slot) {
  const { id, name, assignedBotId: bot } = slot;
  const occupied = hasBot(slot.status);
  const deleting = slot.status === "deleting" && "The slot is being deleted.";
  const result = (response) =>
    `${name}: ${response.slot.cordoned ? "cordoned, " : ""}${response.slot.status}`;
  return [
    {
      label: slot.cordoned ? "Uncordon" : "Cordon",
      description: slot.cordoned
        ? "Lets the slot take bots again."
        : "Lets the slot finish its bot and take no other.",
      disabledReason: deleting,
      run: () => post(`v1/slots/${id}/${slot.cordoned ? "uncordon" : "cordon"}`),
      result,
    },
    {
      label: "Recover",
      title: `Recover ${name}?`,
      description: occupied
        ? `Resets the slot now. Bot ${bot} is retried if it is still deploying; ` +
          "it fails if it runs."
        : "Stops the container, confirms the stop, and makes the slot available.",
      destructive: occupied,
      disabledReason: deleting,
      run: () => post(`v1/slots/${id}/recover`),
      result,
    },
    model.isAdmin && slot.unconfirmedReason && {
      label: "Force release",
      title: `Release ${name} by force?`,
      confirmLabel: "Release by force",
      description:
        `Botpool cannot know whether the container of bot ${bot} still runs: ` +
        `${slot.unconfirmedReason}. If it does, the slot's next bot runs beside it, and a bot that ` +
        "did not get into its call yet may join twice. Go on only if you know that the node is dead.",
      destructive: true,
      run: () => post(`v1/slots/${id}/release?force=true&botId=${bot}`),
      result,
    },
    {
      label: "Release",
      title: `Release ${name}?`,
      description:
        `Takes the slot from bot ${bot} and stops its container. ` +
        "The bot fails with the code “operator”.",
      destructive: true,
      disabledReason: deleting || (!occupied && "The slot has no bot."),
      run: () => post(`v1/slots/${id}/release`),
      result,
    },
    {
      label: "Delete",
      title: `Delete ${name}?`,
      description: occupied
        ? `Deletes the slot and its container. Bot ${bot} fails.`
        : "Deletes the slot and its container. The pool creates a new slot when it needs one; " +
          "the first start of a new slot is cold.",
      destructive: true,
      disabledReason: deleting,
      run: () => fetchJson(`v1/slots/${id}${occupied ? "?force=true" : ""}`, { method: "DELETE" }),
      result: () => `${name} is being deleted`,
    },
  ].filter(Boolean);
}

/** The actions for a pool. */
export function poolActions(pool) {
  const { platform, drained } = pool;
  return [
    {
      label: drained ? "Undrain" : "Drain",
      title: `Drain ${platform}?`,
      description: drained
        ? "Uncordons all slots of the pool, which then takes bots again."
        : `Cordons all slots of ${platform} and refuses new bots with 503. ` +
          "Running bots continue; queued bots wait until they expire.",
      destructive: !drained,
      run: () => post(`v1/pools/${platform}/${drained ? "undrain" : "drain"}`),
      result: () => `${platform} is ${drained ? "open again" : "drained"}`,
    },
  ];
}

/** A button for an action. Calls `onDone` with the response after success. */
export function actionButton(action, onDone = () => {}) {
  return html("button", {
    type: "button",
    class: action.destructive ? "quiet destructive" : "quiet",
    disabled: Boolean(action.disabledReason),
    title: action.disabledReason || action.description,
    text: action.label,
    click: () => perform(action, onDone),
  });
}

async function perform(action, onDone) {
  let response;
  const run = async () => {
    response = await action.run();
  };
  if (action.destructive) {
    const { title, description, label, confirmLabel = label } = action;
    const content = html("p", { text: description });
    if (!(await openDialog({ title, content, confirmLabel, destructive: true, run }))) return;
  } else {
    try {
      await run();
    } catch (error) {
      showToast(`${action.label}: ${error.message}`, "bad");
      return;
    }
  }
  update(response);
  showToast(action.result(response));
  onDone(response);
}
