/** Keeps the page live: one connection, resumed where it broke off, and changes handed on once
 * for each animation frame, however many arrive. */
import { Trouble } from "./http.js";
import * as session from "./session.js";
import { connect } from "./stream.js";
import { pause, throttled } from "./timing.js";
import { apply, load, loadPools, world } from "./world.js";

const RETRY_MS = [500, 1_000, 2_000, 4_000];
const FIGURES_MS = 3_000;
const WITHOUT_STREAM_MS = 5_000;
const HIDDEN_MS = 20_000;

/** `onState(state, text)`, `onBatch(changes, slotsCameOrWent)`, `onLoaded()`. */
export async function stayLive({ onState, onBatch, onLoaded }) {
  const batch = batching(onBatch);
  const figures = throttled(async () => {
    await loadPools();
    onBatch([], false);
  }, FIGURES_MS);
  let lastId = null;
  let failures = 0;

  /** Until the stream ends. What was seen of it is not asked for again. */
  async function turn() {
    await session.open();
    const needed = whileNeeded();
    try {
      const events = await connect("v1/events", { lastId, signal: needed.signal });
      if (lastId === null)
        await loadAll(); // after the stream is open: nothing falls between
      else figures();
      failures = 0;
      session.opened();
      onState("live");
      for await (const chunk of events) await take(chunk);
    } finally {
      needed.forget();
    }
  }

  async function take(events) {
    for (const { id, name, data } of events) {
      lastId = id ?? lastId;
      if (name === "denied") throw new Trouble(401, "the key is no longer valid.");
      if (name === "reset") await loadAll();
      if (name === "change") batch(JSON.parse(data));
    }
    if (events.some(({ name }) => name === "change")) figures();
  }

  async function loadAll() {
    await load();
    onLoaded();
  }

  /** A key that may not follow the stream sees bots and the queue a few seconds late. */
  async function withoutStream() {
    await loadAll();
    session.opened();
    onState("slow");
    await pause(WITHOUT_STREAM_MS);
  }

  for (;;) {
    await untilVisible();
    try {
      await (world.mayOperate ? turn() : withoutStream());
    } catch (error) {
      if (document.hidden) continue;
      if (error.status === 403) world.mayOperate = false;
      else if (error.status === 401) {
        onState("signed-out");
        await session.enterKey();
        [lastId, world.mayOperate] = [null, true];
      } else {
        onState("lost", error.status === undefined ? "this page has a fault." : error.message);
        if (error.status === undefined) console.error(error);
        await pause(RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]);
      }
    }
  }
}

/** Gathers changes until the next frame. Its own work is there to be measured. */
function batching(onBatch) {
  let waiting = [];
  function flush() {
    const start = performance.now();
    const changes = waiting;
    waiting = [];
    const cameOrWent = changes.map(apply).some(Boolean);
    onBatch(changes, cameOrWent);
    performance.measure("botpool.batch", { start, detail: changes.length });
    performance.clearMeasures("botpool.batch");
  }
  return (change) => {
    if (waiting.push(change) === 1) requestAnimationFrame(flush);
  };
}

/** Hidden tabs hold no connection: a browser has six for a server, and ours is one of them. A
 * refused key ends it too: it would go on with what the server no longer shows to this key. */
function whileNeeded() {
  const controller = new AbortController();
  const end = () => controller.abort();
  let timer;
  const watch = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(end, HIDDEN_MS);
  };
  document.addEventListener("visibilitychange", watch);
  addEventListener("botpool:refused", end);
  watch();
  const forget = () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", watch);
    removeEventListener("botpool:refused", end);
    end();
  };
  return { signal: controller.signal, forget };
}

async function untilVisible() {
  while (document.hidden) {
    await new Promise((resolve) => {
      document.addEventListener("visibilitychange", resolve, { once: true });
    });
  }
}
