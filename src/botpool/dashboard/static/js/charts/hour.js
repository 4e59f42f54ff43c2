/** The last hour of a pool: four small charts that share one cursor. */
import { assign, make, write } from "../dom.js";
import { SLOT_STATES } from "../states.js";
import { NONE, measured } from "../wording.js";
import { bars, lines, stack } from "./shapes.js";

const CHARTS = [
  {
    name: "Arrivals",
    draw: (minutes) => bars(minutes.map((m) => m.arrivals)),
    read: (m) => `${m.arrivals} a minute`,
  },
  {
    name: "Queue depth",
    draw: (minutes) => lines([minutes.map((m) => m.queueDepth)], ["queue"], true),
    read: (m) => (m.queueDepth === null ? NONE : `${m.queueDepth} waiting`),
  },
  {
    name: "Slots by status",
    draw: (minutes) =>
      stack(
        Object.keys(SLOT_STATES),
        minutes.map((m) => m.slots ?? {}),
      ),
    read: (m) =>
      Object.keys(SLOT_STATES)
        .filter((status) => m.slots?.[status])
        .map((status) => `${m.slots[status]} ${status}`)
        .join(", ") || "no slots",
  },
  {
    name: "Time to running",
    draw: (minutes) =>
      lines(
        [minutes.map((m) => m.timeToRunningP50Ms), minutes.map((m) => m.timeToRunningP95Ms)],
        ["p50", "p95"],
      ),
    read: (m) =>
      m.timeToRunningP50Ms === null
        ? NONE
        : `p50 ${measured(m.timeToRunningP50Ms)}, p95 ${measured(m.timeToRunningP95Ms)}`,
  },
];

export function hourCharts(platform) {
  const charts = CHARTS.map((chart) => ({ ...chart, ...frame(chart.name) }));
  const rows = make("tbody");
  const table = make(
    "details",
    { class: "numbers", toggle: () => fillTable() },
    make("summary", { text: "The hour in numbers" }),
    make(
      "div",
      {
        class: "scroll",
        tabindex: 0,
        role: "region",
        "aria-label": `The last hour of ${platform}`,
      },
      make(
        "table",
        {},
        make(
          "thead",
          {},
          make(
            "tr",
            {},
            ["Minute", ...CHARTS.map(({ name }) => name)].map((name) =>
              make("th", { scope: "col", text: name }),
            ),
          ),
        ),
        rows,
      ),
    ),
  );
  const element = make(
    "section",
    { class: "hour", "aria-label": `The last hour of ${platform}`, hidden: true },
    make(
      "div",
      { class: "charts" },
      charts.map((chart) => chart.element),
    ),
    table,
  );
  let minutes = [];

  function point(index) {
    const minute = minutes[index ?? minutes.length - 1];
    for (const chart of charts) {
      write(chart.value, minute ? chart.read(minute) : NONE);
      chart.cursor.style.setProperty(
        "left",
        index === null ? "-10px" : `${(100 * (index + 0.5)) / minutes.length}%`,
      );
      write(chart.when, index === null ? "" : time(minute));
    }
  }
  for (const { area } of charts) {
    area.addEventListener("pointermove", (event) => {
      const { left, width } = area.getBoundingClientRect();
      const index = Math.floor(((event.clientX - left) / width) * minutes.length);
      point(Math.min(minutes.length - 1, Math.max(0, index)));
    });
    area.addEventListener("pointerleave", () => point(null));
  }

  function fillTable() {
    if (!table.open) return;
    rows.replaceChildren(
      ...minutes.toReversed().map((minute) =>
        make(
          "tr",
          {},
          make("td", { text: time(minute) }),
          CHARTS.map(({ read }) => make("td", { text: read(minute) })),
        ),
      ),
    );
  }

  return {
    element,
    show(answer) {
      minutes = answer;
      element.hidden = minutes.every(
        ({ arrivals, slots }) => !arrivals && !Object.keys(slots ?? {}).length,
      );
      for (const chart of charts) {
        const { drawing, top } = chart.draw(minutes);
        chart.area.replaceChildren(drawing, chart.cursor);
        write(chart.top, chart.name === "Time to running" ? measured(top) : top);
        const now = minutes.length ? chart.read(minutes.at(-1)) : NONE;
        const label = `${chart.name}, last hour: now ${now}; at most ${chart.top.textContent}`;
        assign(chart.area, "aria-label", label);
      }
      point(null);
      fillTable();
    },
  };
}

function frame(name) {
  const [value, when, top] = [
    make("span", { class: "value" }),
    make("span", { class: "when" }),
    make("span", { class: "top" }),
  ];
  const cursor = make("i", { class: "cursor" });
  const area = make("div", { class: "area", role: "img" }, cursor);
  const element = make(
    "figure",
    { class: "chart" },
    make("figcaption", {}, make("b", { text: name }), when, value),
    area,
    make(
      "div",
      { class: "axis", "aria-hidden": "true" },
      make("span", { text: "1 h ago" }),
      top,
      make("span", { text: "now" }),
    ),
  );
  return { element, area, value, when, top, cursor };
}

const time = (minute) =>
  new Date(minute.at).toLocaleTimeString(undefined, {
    hour: "2-digit",
    minute: "2-digit",
    hour12: false,
  });
