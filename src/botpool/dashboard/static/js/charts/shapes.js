/** Chart shapes as SVG: one unit wide per value, 100 high, stretched to the available space. */
import { svg } from "../dom.js";

const HEIGHT = 100;

const box = (width, ...shapes) =>
  svg(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    shapes,
  );

/** The largest value, at least 1, which avoids a division by zero. */
const topOf = (values) => Math.max(1, ...values.filter((value) => value !== null));

/** A bar chart. */
export function bars(values) {
  const top = topOf(values);
  const shapes = values.map(
    (value, index) =>
      value > 0 &&
      svg("rect", {
        x: index + 0.12,
        width: 0.76,
        y: HEIGHT - (HEIGHT * value) / top,
        height: (HEIGHT * value) / top,
        class: "arrivals",
      }),
  );
  return { element: box(values.length, shapes.filter(Boolean)), top };
}

/** Line charts of several series; null is a gap. `filled` fills the area below the first series. */
export function lines(series, classes, filled = false) {
  const top = topOf(series.flat());
  const shapes = series.flatMap((values, index) => {
    const runs = runsOf(values).map((run) =>
      run.map(([at, value]) => [at + 0.5, HEIGHT - (96 * value) / top]),
    );
    const area = filled && index === 0 && runs.map(areaPath).join("");
    return [
      area && svg("path", { d: area, class: `${classes[index]} filled` }),
      svg("path", { d: runs.map(linePath).join(""), class: `${classes[index]} line` }),
    ].filter(Boolean);
  });
  return { element: box(series[0].length, shapes), top };
}

/** A path through points; a single point becomes a dot. */
const linePath = (points) => `M${points.join("L")}${points.length === 1 ? "h0.01" : ""}`;

/** The area between the points and the base line. */
function areaPath(points) {
  const base = (point) => [point[0], HEIGHT];
  return `M${[base(points[0]), ...points, base(points.at(-1))].join("L")}Z`;
}

/** Runs of values without a gap, as [index, value]. */
function runsOf(values) {
  const runs = [];
  values.forEach((value, index) => {
    if (value === null || value === undefined) return;
    if (index > 0 && runs.length && runs.at(-1).at(-1)[0] === index - 1)
      runs.at(-1).push([index, value]);
    else runs.push([[index, value]]);
  });
  return runs;
}

/** Stacked columns, one per minute, in the order of `names`. */
export function stack(names, columns) {
  const top = topOf(
    columns.map((column) => names.reduce((sum, name) => sum + (column[name] ?? 0), 0)),
  );
  const below = columns.map(() => 0);
  const shapes = names.map((name) => {
    const path = columns
      .map((column, index) => {
        const height = (HEIGHT * (column[name] ?? 0)) / top;
        if (height === 0) return "";
        below[index] += height;
        return `M${index},${HEIGHT - below[index]}h1.02v${height}h-1.02z`;
      })
      .join("");
    return svg("path", { d: path, "data-status": name, class: "part" });
  });
  return { element: box(columns.length, shapes), top };
}
