/** Maps addresses such as `#/bots/7` and `#/bots?status=FAILED` to views. */
import * as audit from "./views/audit.js";
import * as bot from "./views/bot.js";
import * as bots from "./views/bots.js";
import * as overview from "./views/overview.js";
import * as queue from "./views/queue.js";
import * as slot from "./views/slot.js";
import * as slots from "./views/slots.js";
import * as webhook from "./views/webhook.js";
import * as webhooks from "./views/webhooks.js";

const ROUTES = [
  [/^\/?$/, overview],
  [/^\/queue$/, queue],
  [/^\/bots$/, bots],
  [/^\/bots\/(\d+)$/, bot],
  [/^\/slots$/, slots],
  [/^\/slots\/(\d+)$/, slot],
  [/^\/audit$/, audit],
  [/^\/webhooks$/, webhooks],
  [/^\/webhooks\/(\d+)$/, webhook],
];

/** The view for the current address: `{view, id, query}`. An unknown address opens the overview. */
export function currentRoute() {
  const [path, query] = location.hash.slice(1).split("?");
  for (const [pattern, view] of ROUTES) {
    const found = path.match(pattern);
    if (found) return { view, id: Number(found[1]), query: new URLSearchParams(query) };
  }
  return { view: overview, id: null, query: new URLSearchParams() };
}
