/** Four charts of a pool's last hour that share one cursor. */
import { html, setAttribute, setText } from "../dom.js";
import { NO_VALUE, preciseDuration } from "../format.js";
import { SLOT_STATUSES } from "../statuses.js";
import { bars, lines, stack } from "./shapes.js";

const CHARTS = [
  {
    name: "Arrivals",
    draw: (minutes) => bars(minutes.map((m) => m.arrivals)),
    read: (m) => `${m.arrivals} per minute`,
  },
  {
    name: "Queue depth",
    draw: (minutes) => lines([minutes.map((m) => m.queueDepth)], ["queue"], true),
    read: (m) => (m.queueDepth === null ? NO_VALUE : `${m.queueDepth} waiting`),
  },
  {
    name: "Slots by status",
    draw: (minutes) =>
      stack(
        Object.keys(SLOT_STATUSES),
        minutes.map((m) => m.slots ?? {}),
      ),
    read: (m) =>
      Object.keys(SLOT_STATUSES)
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
        ? NO_VALUE
        : `p50 ${preciseDuration(m.timeToRunningP50Ms)}, ` +
          `p95 ${preciseDuration(m.timeToRunningP95Ms)}`,
  },
];

export function lastHourCharts(platform) {
  const charts = CHARTS.map((chart) => ({ ...chart, ...frame(chart.name) }));
  const rows = html("tbody");
  const table = html(
    "details",
    { class: "numbers", toggle: () => fillTable() },
    html("summary", { text: "Show as a table" }),
    html(
      "div",
      {
        class: "scroll",
        tabindex: 0,
        role: "region",
        "aria-label": `Last hour of ${platform}`,
      },
      html(
        "table",
        {},
        html(
          "thead",
          {},
          html(
            "tr",
            {},
            ["Minute", ...CHARTS.map(({ name }) => name)].map((name) =>
              html("th", { scope: "col", text: name }),
            ),
          ),
        ),
        rows,
      ),
    ),
  );
  const element = html(
    "section",
    { class: "last-hour", "aria-label": `Last hour of ${platform}`, hidden: true },
    html(
      "div",
      { class: "charts" },
      charts.map((chart) => chart.element),
    ),
    table,
  );
  let minutes = [];
  let pointedAt = null;

  /** Show the values of one minute; null shows those of the last minute. */
  function pointAt(index) {
    pointedAt = index;
    const minute = minutes[index ?? minutes.length - 1];
    for (const chart of charts) {
      setText(chart.value, minute ? chart.read(minute) : NO_VALUE);
      chart.cursor.style.setProperty(
        "left",
        index === null ? "-10px" : `${(100 * (index + 0.5)) / minutes.length}%`,
      );
      setText(chart.when, index === null ? "" : time(minute));
    }
  }
  for (const { area } of charts) {
    area.addEventListener("pointermove", (event) => {
      const { left, width } = area.getBoundingClientRect();
      const index = Math.floor(((event.clientX - left) / width) * minutes.length);
      pointAt(Math.min(minutes.length - 1, Math.max(0, index)));
    });
    area.addEventListener("pointerleave", () => pointAt(null));
  }

  function fillTable() {
    if (!table.open) return;
    rows.replaceChildren(
      ...minutes.toReversed().map((minute) =>
        html(
          "tr",
          {},
          html("td", { text: time(minute) }),
          CHARTS.map(({ read }) => html("td", { text: read(minute) })),
        ),
      ),
    );
  }

  return {
    element,
    show(loaded) {
      minutes = loaded;
      element.hidden = minutes.every(
        ({ arrivals, slots }) => !arrivals && !Object.keys(slots ?? {}).length,
      );
      for (const chart of charts) {
        const { element: drawing, top } = chart.draw(minutes);
        chart.area.replaceChildren(drawing, chart.cursor);
        setText(chart.top, chart.name === "Time to running" ? preciseDuration(top) : top);
        const now = minutes.length ? chart.read(minutes.at(-1)) : NO_VALUE;
        const label = `${chart.name}, last hour: now ${now}, maximum ${chart.top.textContent}`;
        setAttribute(chart.area, "aria-label", label);
      }
      pointAt(pointedAt);
      fillTable();
    },
  };
}

function frame(name) {
  const [value, when, top] = [
    html("span", { class: "value" }),
    html("span", { class: "when" }),
    html("span", { class: "top" }),
  ];
  const cursor = html("i", { class: "cursor" });
  const area = html("div", { class: "area", role: "img" }, cursor);
  const element = html(
    "figure",
    { class: "chart" },
    html("figcaption", {}, html("b", { text: name }), when, value),
    area,
    html(
      "div",
      { class: "axis", "aria-hidden": "true" },
      html("span", { text: "1 h ago" }),
      top,
      html("span", { text: "now" }),
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
