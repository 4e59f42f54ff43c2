/** Maps addresses such as `#/bots/7` and `#/bots?status=FAILED` to views. */
import { model } from "./model.js";
import * as audit from "./views/audit.js";
import * as bot from "./views/bot.js";
import * as bots from "./views/bots.js";
import * as operatorsOnly from "./views/operators-only.js";
import * as overview from "./views/overview.js";
import * as plan from "./views/plan.js";
import * as queue from "./views/queue.js";
import * as rollouts from "./views/rollouts.js";
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
  [/^\/rollouts$/, rollouts],
  [/^\/audit$/, audit],
  [/^\/plan$/, plan],
  [/^\/webhooks$/, webhooks],
  [/^\/webhooks\/(\d+)$/, webhook],
];

const OPERATOR_VIEWS = [audit, plan, rollouts, slot, slots];

const routeOf = (address) => {
  const [path, query] = address.slice(1).split("?");
  for (const [pattern, view] of ROUTES) {
    const found = path.match(pattern);
    if (found) return { view, id: Number(found[1]), query: new URLSearchParams(query) };
  }
  return { view: overview, id: null, query: new URLSearchParams() };
};

/** Whether keys of the scope “user” cannot open this address. */
export const isForOperators = (address) => OPERATOR_VIEWS.includes(routeOf(address).view);

/** The view for the current address: `{view, id, query}`. An unknown address opens the overview. */
export function currentRoute() {
  const route = routeOf(location.hash);
  return model.isOperator || !isForOperators(location.hash)
    ? route
    : { ...route, view: operatorsOnly };
}
