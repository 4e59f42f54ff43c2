/** Sleeping and throttling. */

export const sleep = (ms) =>
  new Promise((resolve) => {
    setTimeout(resolve, ms);
  });

/** A function that runs `work` at once, then at most once per `periodMs`, with one more run for the
 * calls in between. Request errors are dropped, because the event stream reports a lost server.
 * `stop()` ends it. */
export function throttle(work, periodMs) {
  let [running, again, stopped] = [false, false, false];
  async function run() {
    again = running;
    if (running || stopped) return;
    running = true;
    await work().catch((error) => error.status === undefined && console.error(error));
    await sleep(periodMs);
    running = false;
    if (again) run();
  }
  run.stop = () => {
    stopped = true;
  };
  return run;
}
