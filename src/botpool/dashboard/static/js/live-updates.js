/** Keeps the page up to date: one event stream, resumed after the last event that arrived. Changes
 * are handed on in one batch for each animation frame. */
import { connect } from "./event-stream.js";
import { RequestError } from "./http.js";
import { applyChange, load, loadPools, model } from "./model.js";
import * as session from "./session.js";
import { sleep, throttle } from "./timing.js";

const RETRY_MS = [500, 1_000, 2_000, 4_000];
const POOL_REFRESH_MS = 3_000;
const HIDDEN_MS = 20_000;

/** Runs forever. Calls `onState(state, text)`, `onBatch(changes, slotsCreatedOrDeleted)` and
 * `onLoaded()`. */
export async function runLiveUpdates({ onState, onBatch, onLoaded }) {
  const batch = batchByFrame(onBatch);
  const refreshPools = throttle(async () => {
    if (model.isOperator) await loadPools();
    onBatch([], false);
  }, POOL_REFRESH_MS);
  let lastId = null;
  let failures = 0;

  /** Follow the stream until it ends. Loads pools and slots only for a new stream. */
  async function followStream() {
    await session.signInWithPendingKey();
    const needed = abortWhenNotNeeded();
    try {
      const events = await connect("v1/events", { lastId, signal: needed.signal });
      // Load after the stream is open, so that no change is lost in between.
      if (lastId === null) await loadAll();
      else refreshPools();
      failures = 0;
      session.markSignedIn();
      onState("live");
      for await (const chunk of events) await handle(chunk);
    } finally {
      needed.cleanUp();
    }
  }

  async function handle(events) {
    for (const { id, name, data } of events) {
      lastId = id ?? lastId;
      if (name === "denied") throw new RequestError(401, "the key is no longer valid.");
      if (name === "reset") await loadAll();
      if (name === "change") batch(JSON.parse(data));
    }
    if (events.some(({ name }) => name === "change")) refreshPools();
  }

  async function loadAll() {
    await load();
    onLoaded();
  }

  for (;;) {
    await untilVisible();
    try {
      await followStream();
    } catch (error) {
      if (document.hidden) continue;
      if (error.status === 401) {
        onState("signed-out");
        await session.promptForKey();
        lastId = null;
      } else {
        onState("lost", error.status === undefined ? "this page has an error." : error.message);
        if (error.status === undefined) console.error(error);
        await sleep(RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]);
      }
    }
  }
}

/** Collect changes until the next animation frame, then apply them to the model together. The
 * browser tests read the performance measure. */
function batchByFrame(onBatch) {
  let pending = [];
  function flush() {
    const start = performance.now();
    const changes = pending;
    pending = [];
    const slotsCreatedOrDeleted = changes.map(applyChange).some(Boolean);
    onBatch(changes, slotsCreatedOrDeleted);
    performance.measure("botpool.batch", { start, detail: changes.length });
    performance.clearMeasures("botpool.batch");
  }
  return (change) => {
    if (pending.push(change) === 1) requestAnimationFrame(flush);
  };
}

/** A signal that aborts the stream after a 401 and in a tab that stays hidden: a browser opens at
 * most six connections to a server. */
function abortWhenNotNeeded() {
  const controller = new AbortController();
  const abort = () => controller.abort();
  let timer;
  const onVisibility = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(abort, HIDDEN_MS);
  };
  document.addEventListener("visibilitychange", onVisibility);
  addEventListener("botpool:unauthorized", abort);
  onVisibility();
  const cleanUp = () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", onVisibility);
    removeEventListener("botpool:unauthorized", abort);
    abort();
  };
  return { signal: controller.signal, cleanUp };
}

async function untilVisible() {
  while (document.hidden) {
    await new Promise((resolve) => {
      document.addEventListener("visibilitychange", resolve, { once: true });
    });
  }
}
