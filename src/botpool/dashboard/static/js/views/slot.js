/** One slot: its tenants over time, its history, what went wrong, and what to do about it. */
import { actionButton, slotActions } from "../actions.js";
import { follow, make, write } from "../dom.js";
import { ask, now } from "../http.js";
import { throttled } from "../timing.js";
import { clock, spoken } from "../wording.js";
import { world } from "../world.js";
import { historyList } from "./history.js";
import { botLink, fact, fillPill } from "./parts.js";
import { tenants } from "./tenants.js";

const REFRESH_MS = 1_000;

export const title = (id) => world.slots.get(id)?.name ?? `Slot ${id}`;

export function open(place, { id }) {
  const heading = make("h1");
  const status = make("span");
  const cordoned = make("span", { class: "badge warn" });
  const tools = make("div", { class: "buttons" });
  const trouble = make("p", { class: "card failure" });
  const facts = make("dl", { class: "card facts" });
  const over = tenants();
  const history = historyList("History");
  place.append(
    make(
      "nav",
      { class: "trail", "aria-label": "Where you are" },
      make("a", { href: "#/slots", text: "Slots" }),
    ),
    make("div", { class: "heading" }, heading, status, cordoned, tools),
    trouble,
    make(
      "div",
      { class: "columns" },
      make("div", {}, over.element),
      make("div", {}, facts, history.element),
    ),
  );

  /** What the stream has told stands here at once. */
  function show() {
    const slot = world.slots.get(id);
    write(heading, slot?.name ?? `Slot ${id}`);
    facts.hidden = status.hidden = tools.hidden = !slot;
    write(
      trouble,
      slot
        ? (slot.errorMessage ?? "")
        : "This slot does not exist, or not any more. Its history stays.",
    );
    if (!slot) return;
    fillPill(status, slot.status);
    write(cordoned, slot.cordoned ? "cordoned" : "");
    const actions = slotActions(slot);
    follow(
      tools,
      actions,
      ({ verb, does, off }) => verb + does + off,
      (action) =>
        actionButton(action, () => {
          show();
          refresh();
        }),
    );
    const at = now();
    facts.replaceChildren(
      ...[
        ["Bot", slot.assignedBotId === null ? "none" : botLink(slot.assignedBotId)],
        ["Phase", slot.phase && spoken(slot.phase)],
        ["Pool", slot.platform],
        ["Last assigned", slot.lastAssignedAt && clock(slot.lastAssignedAt, at)],
        ["Last released", slot.lastReleasedAt && clock(slot.lastReleasedAt, at)],
        ["Failed resets", slot.recoveryAttempts],
        ["Skipped recoveries", slot.skippedRecoveries],
        ["Image", slot.image && make("code", { text: slot.image })],
        ["Container", slot.containerId && make("code", { text: slot.containerId })],
        ["Made", clock(slot.createdAt, at)],
      ].map(([label, value]) => fact(label, value)),
    );
  }

  const refresh = throttled(async () => {
    const answers = await Promise.allSettled([
      ask(`v1/slots/${id}`),
      ask(`v1/slots/${id}/assignments`),
      ask(`v1/slots/${id}/history`),
    ]);
    const [slot, assignments, events] = answers.map(({ value }) => value);
    if (slot) world.slots.set(id, slot.slot);
    else if (answers[0].reason.status === 404) world.slots.delete(id);
    show();
    over.show(assignments?.assignments ?? [], now());
    history.show(events?.events ?? [], now());
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
    tick: (at) => over.tick(at),
    close: refresh.stop,
  };
}
