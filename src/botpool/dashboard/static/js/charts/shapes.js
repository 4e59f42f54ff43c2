/** Shapes of charts, drawn in a box of 60 by 100 that stretches to its place. */
import { drawn } from "../dom.js";

const HEIGHT = 100;

const box = (width, ...shapes) =>
  drawn(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    shapes,
  );

/** At least one, so that nothing is divided by nothing and a quiet hour lies flat. */
const topOf = (values) => Math.max(1, ...values.filter((value) => value !== null));

export function bars(values) {
  const top = topOf(values);
  const shapes = values.map(
    (value, index) =>
      value > 0 &&
      drawn("rect", {
        x: index + 0.12,
        width: 0.76,
        y: HEIGHT - (HEIGHT * value) / top,
        height: (HEIGHT * value) / top,
        class: "arrivals",
      }),
  );
  return { drawing: box(values.length, shapes.filter(Boolean)), top };
}

/** Series of numbers; null is a gap. With `filled`, the first has an area below it. */
export function lines(series, classes, filled = false) {
  const top = topOf(series.flat());
  const shapes = series.flatMap((values, index) => {
    const runs = runsOf(values).map((run) =>
      run.map(([at, value]) => [at + 0.5, HEIGHT - (96 * value) / top]),
    );
    const area = filled && index === 0 && runs.map(closed).join("");
    return [
      area && drawn("path", { d: area, class: `${classes[index]} filled` }),
      drawn("path", { d: runs.map(through).join(""), class: `${classes[index]} line` }),
    ].filter(Boolean);
  });
  return { drawing: box(series[0].length, shapes), top };
}

/** A line through points; one that stands alone is a dot. */
const through = (points) => `M${points.join("L")}${points.length === 1 ? "h0.01" : ""}`;

/** The area between points and the ground. */
function closed(points) {
  const ground = (point) => [point[0], HEIGHT];
  return `M${[ground(points[0]), ...points, ground(points.at(-1))].join("L")}Z`;
}

/** Neighbours without a gap, as [place, value]. */
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

/** One column for each minute, its parts on top of each other in the order of `names`. */
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
    return drawn("path", { d: path, "data-status": name, class: "part" });
  });
  return { drawing: box(columns.length, shapes), top };
}
