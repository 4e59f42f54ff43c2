/** A grid of tiles, one per slot, with status, bot, phase and age. */
import { html, setAttribute, setText, syncChildren } from "../dom.js";
import { shortDuration } from "../format.js";
import { model, slotSince } from "../model.js";
import { SLOT_PHASES, SLOT_STATUSES, STANDBYS } from "../statuses.js";
import { unconfirmedText } from "./components.js";

const MANY_SLOTS = 60;
const KEYS = {
  ArrowRight: 1,
  ArrowLeft: -1,
  ArrowDown: "row",
  ArrowUp: "-row",
  Home: "first",
  End: "last",
};

/** The Tab key enters the grid once, and the arrow keys move the focus inside it. */
export function tileGrid(label) {
  const element = html("ul", { class: "tiles", "aria-label": label, keydown: moveFocus });
  const tiles = new Map();

  function show(slots, now) {
    element.classList.toggle("many", slots.length > MANY_SLOTS);
    for (const id of tiles.keys()) if (!model.slots.has(id)) tiles.delete(id);
    syncChildren(
      element,
      slots,
      (slot) => slot.id,
      newTile,
      (tile, slot) => {
        tiles.set(slot.id, tile);
        fill(tile, slot, now);
      },
    );
    const links = element.querySelectorAll("a");
    if (links.length && !element.querySelector("a[tabindex='0']")) links[0].tabIndex = 0;
  }

  /** Update the tiles of these slots only. */
  function update(ids, now) {
    for (const id of ids) {
      const [tile, slot] = [tiles.get(id), model.slots.get(id)];
      if (tile && slot) fill(tile, slot, now);
    }
  }

  function tick(now) {
    for (const [id, tile] of tiles) {
      const slot = model.slots.get(id);
      if (slot) setText(tile.firstChild.lastChild, shortDuration(now - slotSince(slot)));
    }
  }

  function moveFocus(event) {
    const step = KEYS[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const links = Array.from(element.querySelectorAll("a"));
    const at = links.indexOf(document.activeElement);
    const next = links[targetIndex(step, at, links)];
    if (!next) return;
    links[at].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
  return { element, show, update, tick };
}

function targetIndex(step, at, links) {
  if (step === "first") return 0;
  if (step === "last") return links.length - 1;
  if (typeof step === "number") return at + step;
  const top = links[0].parentElement.offsetTop;
  const columns = links.findIndex((link) => link.parentElement.offsetTop > top);
  return at + (step === "row" ? 1 : -1) * (columns < 0 ? links.length : columns);
}

function newTile(slot) {
  const parts = [
    html("b", { class: "mark" }),
    html("b"),
    html("span"),
    html("span"),
    html("small"),
  ];
  return html("li", {}, html("a", { href: `#/slots/${slot.id}`, tabindex: -1 }, parts));
}

/** A tile is readable as text, without colours and without its tooltip. */
function fill(tile, slot, now) {
  const [mark, number, bot, phase, age] = tile.firstChild.children;
  const step = slot.status === "idle" ? "idle" : (SLOT_PHASES[slot.phase] ?? slot.status);
  setAttribute(tile, "data-status", slot.status);
  setAttribute(tile, "class", slot.cordoned ? "cordoned" : null);
  setText(mark, SLOT_STATUSES[slot.status].letter);
  setText(number, slot.name.match(/\d+$/)?.[0] ?? slot.name);
  const without = STANDBYS[slot.standby] ?? "no bot";
  setText(bot, slot.assignedBotId === null ? without : `bot ${slot.assignedBotId}`);
  const label = slot.unconfirmedReason ? "unconfirmed" : step;
  setText(phase, slot.cordoned ? `${label}, cordoned` : label);
  setText(age, shortDuration(now - slotSince(slot)));
  setAttribute(
    tile.firstChild,
    "title",
    [
      slot.name,
      slot.status,
      phase.textContent,
      bot.textContent,
      slot.unconfirmedReason && unconfirmedText(slot),
      slot.errorMessage,
    ]
      .filter(Boolean)
      .join(" · "),
  );
}
