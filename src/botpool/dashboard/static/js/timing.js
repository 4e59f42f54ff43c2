/** Waiting, and not asking too often. */

export const pause = (ms) =>
  new Promise((resolve) => {
    setTimeout(resolve, ms);
  });

/** `work` at once, then at most every so often, and once more for what came in between. Its
 * errors are dropped: the stream tells of a server that is gone. `stop()` ends it. */
export function throttled(work, period) {
  let [busy, again, stopped] = [false, false, false];
  async function run() {
    again = busy;
    if (busy || stopped) return;
    busy = true;
    await work().catch((error) => error.status === undefined && console.error(error));
    await pause(period);
    busy = false;
    if (again) run();
  }
  run.stop = () => {
    stopped = true;
  };
  return run;
}
