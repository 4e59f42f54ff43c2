/** The plan of a pool: a replay of its recorded bots under several policies, and settings to paste. */
import { policyBars } from "../charts/policy-bars.js";
import { html, setText } from "../dom.js";
import { NO_VALUE, plural, preciseDuration, preciseShare, timeOfDay } from "../format.js";
import { fetchJson, serverNow, withQuery } from "../http.js";
import { model } from "../model.js";
import { copyable } from "./components.js";
import { table } from "./table.js";

const DAY_MS = 86_400_000;
const COLUMNS = ["Policy", "On time", "p50", "p95", "p99", "Longest queue", "Idle h/day", "Hot h/day"];
const FIELDS = {
  replayMs: ["Replay", { [DAY_MS]: "last day", [7 * DAY_MS]: "last 7 days", [30 * DAY_MS]: "last 30 days" }],
  slo: ["Bots on time", { 0.9: "90 % on time", 0.99: "99 % on time", 0.999: "99.9 % on time" }],
  withinMs: ["Within", { 1000: "within 1 s", 5000: "within 5 s", 30000: "within 30 s", 60000: "within 1 min" }],
};
const DEFAULTS = { replayMs: String(7 * DAY_MS), slo: "0.999", withinMs: "5000" };

export const title = () => "Plan";

export function open(root, { query }) {
  const chosen = { ...DEFAULTS, ...Object.fromEntries(query) };
  chosen.platform ??= model.pools[0]?.platform ?? "";
  const state = html("p", { class: "soft", role: "status" });
  const advice = html("p", { class: "advice" });
  const settings = html("div", { class: "settings" });
  const bars = policyBars();
  const rows = table("Policies", COLUMNS);
  const result = html("div", { hidden: true }, advice, settings, bars.element, rows.element);
  const pools = Object.fromEntries(model.pools.map(({ platform }) => [platform, platform]));
  root.append(
    html("div", { class: "heading" }, html("h1", { text: "Plan" })),
    html("p", {
      class: "soft",
      text: "How many slots should wait for bots? Botpool replays the recorded bots under each policy.",
    }),
    html(
      "div",
      { class: "filters" },
      choice("Pool", pools, chosen.platform, (value) => choose("platform", value)),
      Object.entries(FIELDS).map(([name, [label, options]]) =>
        choice(label, options, chosen[name], (value) => choose(name, value)),
      ),
    ),
    state,
    result,
  );
  let latest = 0;

  function choose(name, value) {
    chosen[name] = value;
    load();
  }

  async function load() {
    const { platform, ...goal } = chosen;
    latest += 1;
    const mine = latest;
    if (!platform) {
      setText(state, "There is no pool to plan.");
      return;
    }
    setText(state, `Replaying the bots of ${platform} …`);
    result.classList.add("stale");
    try {
      const timezone = Intl.DateTimeFormat().resolvedOptions().timeZone;
      const address = `v1/pools/${encodeURIComponent(platform)}/plan`;
      const { plan } = await fetchJson(withQuery(address, { ...goal, timezone }));
      if (mine === latest) show(plan);
    } catch (error) {
      if (mine !== latest) return;
      result.hidden = true;
      setText(state, error.message);
    }
  }

  function show(plan) {
    const from = timeOfDay(plan.sinceAt, serverNow());
    setText(
      state,
      plan.bots ? `${plural(plan.bots, "bot")} since ${from}, replayed` : plan.advice,
    );
    result.hidden = plan.bots === 0;
    result.classList.remove("stale");
    setText(advice, plan.advice);
    const recommended = plan.policies.find(({ name }) => name === plan.recommended);
    settings.replaceChildren(...(recommended?.settings ? [paste(recommended.settings)] : []));
    bars.show(plan);
    rows.show(
      plan.policies,
      ({ name }) => name,
      (policy) => cellsOf(policy, plan.recommended),
    );
  }

  load();
  return { close: () => (latest += 1) };
}

function choice(label, options, chosen, onChange) {
  return html(
    "label",
    {},
    html("span", { text: label }),
    html(
      "select",
      { change: (event) => onChange(event.target.value) },
      Object.entries(options).map(([value, text]) =>
        html("option", { value, text, selected: value === chosen }),
      ),
    ),
  );
}

const paste = (text) => html("div", { class: "paste" }, copyable(text, "settings"));

function cellsOf(policy, recommended) {
  const hours = (value) => (value === null ? NO_VALUE : value.toFixed(value < 10 ? 1 : 0));
  const name = html("span", { text: policy.name });
  if (policy.name === recommended) name.append(html("span", { class: "badge good", text: "recommended" }));
  return [
    name,
    html("span", { class: policy.meetsGoal ? "met" : "missed", text: preciseShare(policy.onTimeShare) }),
    preciseDuration(policy.p50Ms),
    preciseDuration(policy.p95Ms),
    preciseDuration(policy.p99Ms),
    policy.longestQueue ?? NO_VALUE,
    hours(policy.idleSlotHoursPerDay),
    hours(policy.hotSlotHoursPerDay),
  ];
}
