/** What is shown. Elements are kept from look to look and only changed where the answer changed;
 * everything from the server is written as text, never as markup. */
import { NONE, commandFor, duration, hostOf, measured } from "./wording.js";

const STATUSES = ["busy", "deploying", "releasing", "idle", "error", "deleting"];
const QUEUE_SHOWN = 50;
const MANY_SLOTS = 12;
const NOT_AN_OPERATOR = "This key has the scope “user”: it sees bots and the queue, but no pools "
  + "and slots. A key with the scope “operator” sees all.";

const find = (id) => document.getElementById(id);
const make = (tag) => document.createElement(tag);
const newPool = () => find("pool").content.firstElementChild.cloneNode(true);

/** Show one look at the server. `pools` and `slots` are null where the key may not see them. */
export function show({ pools, slots, queue, bots, more, now }) {
  write(find("pools-note"), pools === null ? NOT_AN_OPERATOR : pools.length ? "" : "No pools yet.");
  follow(find("pools"), pools ?? [], (pool) => pool.platform, newPool, (article, pool) => {
    fillPool(article, pool, slots.filter((slot) => slot.platform === pool.platform), now);
  });
  showQueue(queue, now);
  showBots(bots, more, pools?.[0]?.platform ?? "google-meet", now);
}

function fillPool(article, pool, slots, now) {
  const marked = article.querySelectorAll("[data-field]");
  const field = Object.fromEntries(Array.from(marked, (node) => [node.dataset.field, node]));
  const count = (status) => pool.slotsByStatus[status] ?? 0;
  const used = count("busy") + count("deploying") + count("releasing");
  const { ok, detail } = pool.backendHealth;
  const [warm, p50, p95] = [pool.warmHitRatio, pool.timeToRunningP50Ms, pool.timeToRunningP95Ms];
  const oldest = pool.queueDepth ? `, oldest ${duration(pool.oldestWaitMs)}` : "";
  article.classList.toggle("wide", slots.length > MANY_SLOTS);
  write(field.name, pool.platform);
  write(field.drained, pool.drained ? "drained" : "");
  write(field.trouble, ok ? "" : `Trouble with the backend “${pool.backend}”: ${detail}`);
  write(field.used, `${used} of ${pool.maxSize}`);
  write(field.waiting, `${pool.queueDepth}${oldest}`);
  write(field.warm, warm === null ? NONE : `${Math.round(warm * 100)} %`);
  write(field.running, p50 === null ? NONE : `${measured(p50)} / ${measured(p95)}`);
  write(field.command, commandFor(pool.platform));
  field.empty.hidden = slots.length > 0;
  Object.assign(field.meter, { max: Math.max(1, pool.maxSize), value: used });
  follow(field.counts, STATUSES.filter(count), String, () => make("li"), (item, status) => {
    item.dataset.status = status;
    write(item, `${count(status)} ${status}`);
  });
  follow(field.slots, slots, (slot) => slot.id, newTile, (tile, slot) => fillTile(tile, slot, now));
}

function newTile() {
  const tile = make("li");
  tile.append(...["b", "span", "span", "span", "small"].map(make));
  return tile;
}

/** All of a tile is text, so that it takes neither colours nor a pointer to read it. */
function fillTile(tile, slot, now) {
  const { assignedBotId: bot, lastAssignedAt, lastReleasedAt, createdAt } = slot;
  const since = (bot === null && lastReleasedAt) || lastAssignedAt || createdAt;
  const step = (slot.phase ?? slot.status).replaceAll("_", " ");
  const texts = [
    slot.name.match(/\d+$/)?.[0] ?? slot.name,
    slot.cordoned ? `${step}, cordoned` : step,
    bot === null ? "no bot" : `bot ${bot}`,
    duration(now - Date.parse(since)),
    slot.errorMessage ?? "",
  ];
  texts.forEach((text, index) => write(tile.children[index], text));
  tile.dataset.status = slot.status;
  tile.classList.toggle("cordoned", slot.cordoned);
  tile.title = [slot.name, slot.status, ...texts.slice(1)].filter(Boolean).join(" · ");
}

function showQueue(queue, now) {
  const more = queue.length - QUEUE_SHOWN;
  const note = more > 0 ? `The first ${QUEUE_SHOWN}; ${more} more wait behind them.` : "";
  write(find("queue-note"), queue.length ? note : "Nobody waits: there is a slot for every bot.");
  fillTable("queue", queue.slice(0, QUEUE_SHOWN), (entry) => [
    entry.position,
    entry.botId,
    entry.platform,
    entry.priority,
    duration(now - Date.parse(entry.queuedAt)),
    duration(Date.parse(entry.timeoutAt) - now),
    entry.estimatedWaitMs === null ? NONE : duration(entry.estimatedWaitMs),
  ]);
}

function showBots(bots, more, platform, now) {
  write(find("bots-note"), bots.length ? (more ? "The newest 50." : "") : "No bots yet. Send one:");
  write(find("bots-command"), bots.length ? "" : commandFor(platform));
  fillTable("bots", bots, (bot) => [
    bot.id,
    bot.status,
    hostOf(bot.meetingUrl),
    bot.slotName ?? "",
    duration(now - Date.parse(bot.createdAt)),
    bot.failureReason ?? bot.failureCode ?? "",
  ]);
}

/** One row for each item. Narrow screens show rows as cards, so their roles are spelled out. */
function fillTable(id, items, textsOf) {
  find(id).hidden = items.length === 0;
  const rows = find(id).tBodies[0];
  follow(rows, items, (item) => item.id ?? item.botId, () => make("tr"), (row, item) => {
    row.role = "row";
    row.dataset.status = item.status ?? "QUEUED";
    textsOf(item).forEach((text, column) => {
      const cell = row.cells[column] ?? row.insertCell();
      cell.role = "cell";
      write(cell, String(text));
    });
  });
}

const known = new WeakMap();

/** Make the children of `parent` follow `items`, one element for each key: kept, moved, removed. */
function follow(parent, items, keyOf, create, fill) {
  const before = known.get(parent) ?? new Map();
  const after = new Map(items.map((item) => [keyOf(item), before.get(keyOf(item)) ?? create()]));
  before.forEach((element, key) => after.has(key) || element.remove());
  items.forEach((item, index) => {
    const element = after.get(keyOf(item));
    if (parent.children[index] !== element) parent.insertBefore(element, parent.children[index]);
    fill(element, item);
  });
  known.set(parent, after);
}

/** Write only what is new: the page stays smooth, and a notice is read aloud once. */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
