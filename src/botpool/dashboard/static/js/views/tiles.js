/** The slots of a pool as tiles: a colour and a letter for the status; bot, phase and age. */
import { assign, follow, make, write } from "../dom.js";
import { SLOT_PHASES, SLOT_STATES } from "../states.js";
import { age } from "../wording.js";
import { world } from "../world.js";

const MANY = 60;
const KEYS = {
  ArrowRight: 1,
  ArrowLeft: -1,
  ArrowDown: "row",
  ArrowUp: "-row",
  Home: "first",
  End: "last",
};

/** The grid is one stop of the Tab key; arrows move inside. Five hundred stops would be a wall. */
export function tileGrid(label) {
  const element = make("ul", { class: "tiles", "aria-label": label, keydown: move });
  const tiles = new Map();

  function show(slots, now) {
    element.classList.toggle("many", slots.length > MANY);
    for (const id of tiles.keys()) if (!world.slots.has(id)) tiles.delete(id);
    follow(
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

  function touch(ids, now) {
    for (const id of ids) {
      const [tile, slot] = [tiles.get(id), world.slots.get(id)];
      if (tile && slot) fill(tile, slot, now);
    }
  }

  function tick(now) {
    for (const [id, tile] of tiles) {
      const slot = world.slots.get(id);
      if (slot) write(tile.firstChild.lastChild, age(now - since(slot)));
    }
  }

  function move(event) {
    const step = KEYS[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const links = Array.from(element.querySelectorAll("a"));
    const at = links.indexOf(document.activeElement);
    const next = links[target(step, at, links)];
    if (!next) return;
    links[at].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
  return { element, show, touch, tick };
}

function target(step, at, links) {
  if (step === "first") return 0;
  if (step === "last") return links.length - 1;
  if (typeof step === "number") return at + step;
  const top = links[0].parentElement.offsetTop;
  const columns = links.findIndex((link) => link.parentElement.offsetTop > top);
  return at + (step === "row" ? 1 : -1) * (columns < 0 ? links.length : columns);
}

function newTile(slot) {
  const parts = [
    make("b", { class: "mark" }),
    make("b"),
    make("span"),
    make("span"),
    make("small"),
  ];
  return make("li", {}, make("a", { href: `#/slots/${slot.id}`, tabindex: -1 }, parts));
}

const since = ({ assignedBotId: bot, lastAssignedAt, lastReleasedAt, createdAt }) =>
  Date.parse((bot === null && lastReleasedAt) || lastAssignedAt || createdAt);

/** All of a tile is text, so that it takes neither colours nor a pointer to read it. */
function fill(tile, slot, now) {
  const [mark, number, bot, phase, old] = tile.firstChild.children;
  const step = SLOT_PHASES[slot.phase] ?? slot.status;
  assign(tile, "data-status", slot.status);
  assign(tile, "class", slot.cordoned ? "cordoned" : null);
  write(mark, SLOT_STATES[slot.status].letter);
  write(number, slot.name.match(/\d+$/)?.[0] ?? slot.name);
  write(bot, slot.assignedBotId === null ? "no bot" : `bot ${slot.assignedBotId}`);
  write(phase, slot.cordoned ? `${step}, cordoned` : step);
  write(old, age(now - since(slot)));
  assign(
    tile.firstChild,
    "title",
    [slot.name, slot.status, phase.textContent, bot.textContent, slot.errorMessage]
      .filter(Boolean)
      .join(" · "),
  );
}
