/** The rollouts of all pools: the last one of each with both revisions side by side. */
import { actionButton } from "../actions.js";
import { html, setText, syncChildren } from "../dom.js";
import { duration, NO_VALUE, preciseDuration, statusLabel, timeOfDay } from "../format.js";
import { fetchJson, serverNow } from "../http.js";
import { model } from "../model.js";
import { throttle } from "../timing.js";
import { fact, fillPill } from "./components.js";
import { table } from "./table.js";

const REFRESH_MS = 2_000;
const MEASURES = {
  failed_starts: "Failed starts",
  slow_starts: "Slow starts",
  early_exits: "Early exits",
  not_in_call: "Not in call",
};
const EMPTY =
  "No rollout yet. Start one with “botpool rollout start google-meet --image …”: " +
  "Botpool gives the new image to a share of bots first, and promotes it or rolls it back.";

export const title = () => "Rollouts";

export function open(root) {
  const list = html("div", { class: "rollouts" });
  const empty = html("p", { class: "empty", text: EMPTY, hidden: true });
  root.append(html("div", { class: "heading" }, html("h1", { text: "Rollouts" })), empty, list);
  const cards = new Map();

  const refresh = throttle(async () => {
    const found = await Promise.all(
      model.pools.map(async ({ platform }) => {
        const { rollouts } = await fetchJson(`v1/pools/${platform}/rollouts`);
        return { platform, rollouts };
      }),
    );
    const shown = found.filter(({ rollouts }) => rollouts.length);
    empty.hidden = shown.length > 0;
    syncChildren(
      list,
      shown,
      ({ platform }) => platform,
      ({ platform }) => {
        cards.set(platform, rolloutCard(platform, refresh));
        return cards.get(platform).element;
      },
      (_, { platform, rollouts }) => cards.get(platform).show(rollouts),
    );
  }, REFRESH_MS);

  refresh();
  return {
    refresh,
    changed: () => refresh(),
    tick: (at) => {
      // Comparisons change without an event.
      if (Math.floor(at / 1000) % 5 === 0) refresh();
    },
    close: refresh.stop,
  };
}

function rolloutCard(platform, onAction) {
  const state = html("span");
  const buttons = html("div", { class: "buttons" });
  const reason = html("p", { class: "reason" });
  const facts = html("dl", { class: "facts" });
  const measures = table(`Revisions of ${platform}`, [
    "Measure",
    "Old revision",
    "New revision",
    "Probably worse",
    "Bots needed",
  ]);
  const earlier = html("ul", { class: "earlier" });
  const element = html(
    "article",
    { class: "card rollout", "aria-labelledby": `rollout-${platform}` },
    html("div", { class: "heading" }, html("h2", { id: `rollout-${platform}`, text: platform }), state, buttons),
    reason,
    facts,
    measures.element,
    earlier,
  );

  function show([rollout, ...others]) {
    fillPill(state, rollout.state);
    setText(reason, rollout.reason ?? `Waits for ${rollout.waitsFor}`);
    syncChildren(
      buttons,
      actionsOf(rollout),
      (action) => action.label + action.description,
      (action) => actionButton(action, onAction),
    );
    facts.replaceChildren(...factsOf(rollout).map(([label, value]) => fact(label, value)));
    measures.show(rowsOf(rollout), ([name]) => name, (cells) => cells);
    syncChildren(
      earlier,
      others.slice(0, 5),
      (each) => `${each.id} ${each.state}`,
      (each) => html("li", { text: earlierText(each) }),
    );
  }

  return { element, show };
}

function factsOf(rollout) {
  const at = (time) => time && timeOfDay(time, serverNow());
  const share = `${Number((rollout.canaryShare * 100).toPrecision(3))} % of assignments`;
  const { comparison } = rollout;
  return [
    ["Canary", `${share}, at least ${duration(rollout.bakeMs)}`],
    ["Tolerance", `${Number((rollout.tolerance * 100).toPrecision(3))} percentage points`],
    ["Sure that it is not worse", comparison && `${(comparison.sureness * 100).toFixed(1)} %`],
    ["Started", `${at(rollout.startedAt)} by ${rollout.startedBy}`],
    ["Canary since", at(rollout.canaryAt)],
    ["Ended", at(rollout.endedAt)],
  ].filter(([, value]) => value !== null);
}

/** One row per property and measure: the cells of both revisions side by side. */
function rowsOf({ old, new: fresh, comparison }) {
  const limits = ({ cpus, memoryMb }) => `${cpus} CPU, ${memoryMb} MB`;
  const rows = [
    ["Image", old.image, fresh.image, "", ""],
    ["Limits", limits(old), limits(fresh), "", ""],
  ];
  if (!comparison) return rows;
  const times = ({ timeToRunningP50Ms: p50, timeToRunningP95Ms: p95 }) =>
    p50 === null ? NO_VALUE : `${preciseDuration(p50)} / ${preciseDuration(p95)}`;
  rows.push(
    ["Assignments", comparison.old.assignments, comparison.new.assignments, "", ""],
    ["Time to running, p50 / p95", times(comparison.old), times(comparison.new), "", ""],
  );
  const tally = ({ failures, bots }) => `${failures} of ${bots}`;
  for (const each of comparison.measures) {
    const worse = `${(each.probabilityWorse * 100).toFixed(1)} %`;
    const name = MEASURES[each.measure] ?? statusLabel(each.measure);
    rows.push([name, tally(each.old), tally(each.new), worse, each.botsNeeded]);
  }
  return rows;
}

function actionsOf(rollout) {
  const { platform } = rollout;
  const post = (action) =>
    fetchJson(`v1/pools/${platform}/rollouts/${action}`, { method: "POST" });
  const isActive = rollout.endedAt === null;
  return [
    isActive && {
      label: "Promote",
      title: `Promote ${rollout.new.image}?`,
      description: `All new bots of ${platform} get the new image, without regard to the comparison. Running bots keep theirs.`,
      destructive: true,
      run: () => post("promote"),
      result: () => `${platform} has ${rollout.new.image}`,
    },
    (isActive || rollout.state === "promoted") && {
      label: "Roll back",
      title: `Roll back to ${rollout.old.image}?`,
      description: `All new bots of ${platform} get the old image. Running bots keep theirs.`,
      destructive: true,
      run: () => post("rollback"),
      result: () => `${platform} has ${rollout.old.image}`,
    },
  ].filter(Boolean);
}

const earlierText = (rollout) =>
  `${timeOfDay(rollout.startedAt, serverNow())}: ${rollout.new.image}, ${statusLabel(rollout.state)}. ${rollout.reason}`;
