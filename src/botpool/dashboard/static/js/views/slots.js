/** All slots as a table: for looking for one, and for what is wrong with them. */
import { rewrite } from "../address.js";
import { make, write } from "../dom.js";
import { now } from "../http.js";
import { SLOT_STATES } from "../states.js";
import { duration, plural, spoken } from "../wording.js";
import { world } from "../world.js";
import { botLink, choice, pill } from "./parts.js";
import { table } from "./table.js";

export const title = () => "Slots";

export function open(place, { query }) {
  const chosen = { platform: query.get("platform") ?? "", status: query.get("status") ?? "" };
  const rows = table("Slots", [
    "Slot",
    "Status",
    "Phase",
    "Bot",
    "Since",
    "Failed resets",
    "Skips",
    "Error",
  ]);
  const note = make("p", { class: "soft" });
  const empty = make("p", { class: "empty" });
  const choose = (name) => (value) => {
    chosen[name] = value;
    rewrite(chosen);
    show(now());
  };
  place.append(
    make(
      "div",
      { class: "heading" },
      make("h1", { text: "Slots" }),
      make(
        "div",
        { class: "filters" },
        choice(
          "Pool",
          "all pools",
          world.pools.map((pool) => pool.platform),
          chosen.platform,
          choose("platform"),
        ),
        choice("Status", "any status", Object.keys(SLOT_STATES), chosen.status, choose("status")),
      ),
    ),
    note,
    empty,
    rows.element,
  );

  function show(at) {
    const fits = (slot) =>
      Object.entries(chosen).every(([name, value]) => !value || slot[name] === value);
    const slots = Array.from(world.slots.values()).filter(fits);
    write(note, slots.length ? plural(slots.length, "slot") : "");
    empty.hidden = slots.length > 0;
    write(
      empty,
      world.slots.size
        ? "No slot is like that."
        : "No slots yet: the first bot of a pool makes one.",
    );
    rows.show(
      slots,
      (slot) => slot.id,
      (slot) => [
        make("a", { href: `#/slots/${slot.id}`, text: slot.name }),
        pill(slot.status),
        [slot.phase && spoken(slot.phase), slot.cordoned && "cordoned"].filter(Boolean).join(", "),
        botLink(slot.assignedBotId),
        duration(
          at -
            Date.parse(
              (slot.assignedBotId === null && slot.lastReleasedAt) ||
                slot.lastAssignedAt ||
                slot.createdAt,
            ),
        ),
        slot.recoveryAttempts || "",
        slot.skippedRecoveries || "",
        slot.errorMessage ?? "",
      ],
    );
  }
  show(now());
  return { refresh: () => show(now()), changed: () => show(now()) };
}
