/** The calendar strip of a pool's next hours: bookings, reservations and capacity. */
import { html, setText, svg } from "../dom.js";
import { percent, plural, timeOfDay } from "../format.js";
import { predictions } from "./predictions.js";

const HEIGHT = 100;

export function nextHours(platform) {
  const value = html("span", { class: "value" });
  const area = html("div", { class: "area" });
  const first = html("span");
  const last = html("span");
  const score = html("p", { class: "soft score" });
  const outcomes = predictions(platform);
  const element = html(
    "section",
    { class: "next-hours", "aria-label": `Next hours of ${platform}`, hidden: true },
    html(
      "figure",
      { class: "chart" },
      html("figcaption", {}, html("b", { text: "Scheduled bots" }), value),
      area,
      html("div", { class: "axis" }, first, last),
    ),
    html(
      "ul",
      { class: "legend", "aria-label": "Colours of the strip" },
      html("li", { "data-part": "reserved", text: "reserved" }),
      html("li", { "data-part": "booked", text: "without a reservation" }),
      html("li", { "data-part": "limit", text: "reservable" }),
    ),
    score,
    outcomes.element,
  );

  return {
    element,
    /** Show a schedule, or nothing for a pool without bookings and without a record. */
    show(schedule, now) {
      element.hidden = schedule.bookings.length === 0 && schedule.score.length === 0;
      if (element.hidden) return;
      const top = Math.max(schedule.maxSize, 1, ...schedule.slices.map(({ booked }) => booked));
      area.replaceChildren(strip(schedule, top));
      setText(value, summary(schedule));
      setText(first, timeOfDay(schedule.slices[0].from, now));
      setText(last, timeOfDay(schedule.slices.at(-1).to, now));
      setText(score, scoreText(schedule.score));
      outcomes.show(schedule.score);
    },
  };
}

function strip({ slices, reservableSlots }, top) {
  const column = (part, index, from, count) =>
    count > 0 &&
    svg("rect", {
      x: index + 0.06,
      width: 0.88,
      y: HEIGHT - (HEIGHT * (from + count)) / top,
      height: (HEIGHT * count) / top,
      "data-part": part,
    });
  const columns = slices.flatMap(({ booked, reserved }, index) => [
    column("reserved", index, 0, reserved),
    column("booked", index, reserved, booked - reserved),
  ]);
  const limit = HEIGHT - (HEIGHT * reservableSlots) / top;
  const line = svg("path", { d: `M0,${limit}H${slices.length}`, "data-part": "limit" });
  return svg(
    "svg",
    {
      viewBox: `0 0 ${slices.length} ${HEIGHT}`,
      preserveAspectRatio: "none",
      "aria-hidden": "true",
    },
    [...columns.filter(Boolean), line],
  );
}

function summary({ bookings, reservableSlots, held, maxSize }) {
  const atRisk = bookings.filter((booking) => booking.atRisk).length;
  const parts = [
    plural(bookings.length, "bot"),
    `${reservableSlots} of ${maxSize} reservable`,
    held > 0 && `${held} held now`,
    atRisk > 0 && `${atRisk} at risk`,
  ];
  return parts.filter(Boolean).join(" · ");
}

function scoreText(score) {
  const sum = (read) => score.reduce((total, each) => total + read(each), 0);
  const bots = sum((each) => each.bots);
  if (bots === 0) return "";
  const predicted = sum((each) => each.predicted * each.bots) / bots;
  const actual = sum((each) => each.onTime) / bots;
  return `On time: ${percent(actual)} of the last ${plural(bots, "scheduled bot")}, predicted ${percent(predicted)}`;
}
