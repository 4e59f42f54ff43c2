/** Views by address: `#/bots/7`, `#/bots?status=FAILED`. An address can be sent to a colleague. */
import * as bot from "./views/bot.js";
import * as bots from "./views/bots.js";
import * as overview from "./views/overview.js";
import * as queue from "./views/queue.js";
import * as slot from "./views/slot.js";
import * as slots from "./views/slots.js";

const ROUTES = [
  [/^\/?$/, overview],
  [/^\/queue$/, queue],
  [/^\/bots$/, bots],
  [/^\/bots\/(\d+)$/, bot],
  [/^\/slots$/, slots],
  [/^\/slots\/(\d+)$/, slot],
];

/** The view for the present address: `{open, id, query}`. */
export function routed() {
  const [path, query] = location.hash.slice(1).split("?");
  for (const [pattern, view] of ROUTES) {
    const found = path.match(pattern);
    if (found) return { view, id: Number(found[1]), query: new URLSearchParams(query) };
  }
  return { view: overview, id: null, query: new URLSearchParams() };
}
