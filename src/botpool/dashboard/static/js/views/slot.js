/** The view of one slot: assignments, history, last error and actions. */
import { actionButton, slotActions } from "../actions.js";
import { html, setText, syncChildren } from "../dom.js";
import { statusLabel, timeOfDay } from "../format.js";
import { fetchJson, serverNow } from "../http.js";
import { model } from "../model.js";
import { throttle } from "../timing.js";
import { assignmentList } from "./assignments.js";
import { botLink, fact, fillPill, unconfirmedText } from "./components.js";
import { historyList } from "./history.js";

const REFRESH_MS = 1_000;

export const title = (id) => model.slots.get(id)?.name ?? `Slot ${id}`;

export function open(root, { id }) {
  const heading = html("h1");
  const status = html("span");
  const cordoned = html("span", { class: "badge warn" });
  const buttons = html("div", { class: "buttons" });
  const errorMessage = html("p", { class: "card failure" });
  const unconfirmed = html("p", { class: "card failure" });
  const facts = html("dl", { class: "card facts" });
  const assignments = assignmentList(id, () => refresh());
  const history = historyList("History", `v1/slots/${id}/history`, () => refresh());
  root.append(
    html(
      "nav",
      { class: "breadcrumb", "aria-label": "Breadcrumb" },
      html("a", { href: "#/slots", text: "Slots" }),
    ),
    html("div", { class: "heading" }, heading, status, cordoned, buttons),
    unconfirmed,
    errorMessage,
    html(
      "div",
      { class: "columns" },
      html("div", {}, assignments.element),
      html("div", {}, facts, history.element),
    ),
  );

  /** Show the slot as the model has it, without a request. */
  function show() {
    const slot = model.slots.get(id);
    setText(heading, slot?.name ?? `Slot ${id}`);
    facts.hidden = status.hidden = buttons.hidden = !slot;
    setText(
      errorMessage,
      slot
        ? (slot.errorMessage ?? "")
        : "This slot does not exist or was deleted. Its history remains.",
    );
    setText(
      unconfirmed,
      slot?.unconfirmedReason
        ? `The stop cannot be confirmed: ${unconfirmedText(slot)}. ` +
            "The container may still run, so no bot gets this slot."
        : "",
    );
    if (!slot) return;
    fillPill(status, slot.status);
    setText(cordoned, slot.cordoned ? "cordoned" : "");
    syncChildren(
      buttons,
      slotActions(slot),
      ({ label, description, disabledReason }) => label + description + disabledReason,
      (action) =>
        actionButton(action, () => {
          show();
          refresh();
        }),
    );
    const at = serverNow();
    facts.replaceChildren(
      ...[
        ["Bot", slot.assignedBotId === null ? "none" : botLink(slot.assignedBotId)],
        ["Phase", slot.phase && statusLabel(slot.phase)],
        ["Standby", slot.standby && standbyText(slot, at)],
        ["Pool", slot.platform],
        ["Last assigned", slot.lastAssignedAt && timeOfDay(slot.lastAssignedAt, at)],
        ["Last released", slot.lastReleasedAt && timeOfDay(slot.lastReleasedAt, at)],
        ["Failed resets", slot.recoveryAttempts],
        ["Skipped recoveries", slot.skippedRecoveries],
        ["Image", slot.image && html("code", { text: slot.image })],
        ["Container", slot.containerId && html("code", { text: slot.containerId })],
        ["Created", timeOfDay(slot.createdAt, at)],
      ].map(([label, value]) => fact(label, value)),
    );
  }

  const refresh = throttle(async () => {
    const results = await Promise.allSettled([
      fetchJson(`v1/slots/${id}`),
      assignments.load(),
      history.load(),
    ]);
    const [slot, loaded, events] = results.map(({ value }) => value);
    if (slot) model.slots.set(id, slot.slot);
    else if (results[0].reason.status === 404) model.slots.delete(id);
    show();
    assignments.show(loaded ?? { assignments: [] }, serverNow());
    history.show(events ?? { events: [] }, serverNow());
  }, REFRESH_MS);

  show();
  refresh();
  return {
    refresh,
    changed(changes) {
      if (!changes.some((change) => change.slotId === id)) return;
      show();
      refresh();
    },
    tick: (at) => assignments.tick(at),
    close: refresh.stop,
  };
}

/** The container that runs without a bot, and since when it waits for one. */
function standbyText(slot, now) {
  return slot.standbySince
    ? `${slot.standby}, waits for a bot since ${timeOfDay(slot.standbySince, now)}`
    : slot.standby;
}
