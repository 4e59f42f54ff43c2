/** The view of all slots, filtered by pool and status. */
import { html, setText } from "../dom.js";
import { duration, plural, statusLabel } from "../format.js";
import { serverNow } from "../http.js";
import { model, slotSince } from "../model.js";
import { SLOT_STATUSES, STANDBYS } from "../statuses.js";
import { setQuery } from "../url-query.js";
import { botLink, filterSelect, pill, unconfirmedText } from "./components.js";
import { table } from "./table.js";

export const title = () => "Slots";

export function open(root, { query }) {
  const chosen = { platform: query.get("platform") ?? "", status: query.get("status") ?? "" };
  const rows = table("Slots", [
    "Slot",
    "Status",
    "Phase",
    "Bot",
    "Since",
    "Failed resets",
    "Skipped recoveries",
    "Error",
  ]);
  const note = html("p", { class: "soft" });
  const empty = html("p", { class: "empty" });
  const choose = (name) => (value) => {
    chosen[name] = value;
    setQuery(chosen);
    show(serverNow());
  };
  root.append(
    html(
      "div",
      { class: "heading" },
      html("h1", { text: "Slots" }),
      html(
        "div",
        { class: "filters" },
        filterSelect(
          "Pool",
          "all pools",
          model.pools.map((pool) => pool.platform),
          chosen.platform,
          choose("platform"),
        ),
        filterSelect(
          "Status",
          "any status",
          Object.keys(SLOT_STATUSES),
          chosen.status,
          choose("status"),
        ),
      ),
    ),
    note,
    empty,
    rows.element,
  );

  function show(at) {
    const matches = (slot) =>
      Object.entries(chosen).every(([name, value]) => !value || slot[name] === value);
    const slots = Array.from(model.slots.values()).filter(matches);
    setText(note, slots.length ? plural(slots.length, "slot") : "");
    empty.hidden = slots.length > 0;
    setText(
      empty,
      model.slots.size
        ? "No slot matches these filters."
        : "No slots yet. The first bot of a pool creates one.",
    );
    rows.show(
      slots,
      (slot) => slot.id,
      (slot) => [
        html("a", { href: `#/slots/${slot.id}`, text: slot.name }),
        pill(slot.status),
        [slot.phase && statusLabel(slot.phase), STANDBYS[slot.standby], slot.cordoned && "cordoned"]
          .filter(Boolean)
          .join(", "),
        botLink(slot.assignedBotId),
        duration(at - slotSince(slot)),
        slot.recoveryAttempts || "",
        slot.skippedRecoveries || "",
        slot.unconfirmedReason
          ? `stop not confirmed: ${unconfirmedText(slot)}`
          : (slot.errorMessage ?? ""),
      ],
    );
  }
  show(serverNow());
  return { refresh: () => show(serverNow()), changed: () => show(serverNow()) };
}
