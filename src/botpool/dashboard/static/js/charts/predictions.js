/** Predicted against actual: how often bots of each prediction were on time. */
import { html, setAttribute, svg } from "../dom.js";
import { percent, plural } from "../format.js";

const SIZE = 100;

export function predictions(platform) {
  const area = html("div", { class: "area", role: "img" });
  const element = html(
    "figure",
    { class: "chart predictions", hidden: true },
    html("figcaption", {}, html("b", { text: "On time: predicted (→) against actual (↑)" })),
    area,
    html("div", { class: "axis", "aria-hidden": "true" }, html("span", { text: "0 %" }), html("span", { text: "100 % predicted" })),
  );

  return {
    element,
    show(score) {
      element.hidden = score.length === 0;
      if (element.hidden) return;
      const most = Math.max(...score.map(({ bots }) => bots));
      area.replaceChildren(
        svg(
          "svg",
          { viewBox: `-4 -4 ${SIZE + 8} ${SIZE + 8}`, "aria-hidden": "true" },
          svg("path", { d: `M0,${SIZE}L${SIZE},0`, class: "exact" }),
          score.map((each) => dot(each, most)),
        ),
      );
      setAttribute(area, "aria-label", `${platform}: ${score.map(sentence).join("; ")}`);
    },
  };
}

function dot(each, most) {
  return svg(
    "circle",
    {
      cx: SIZE * each.predicted,
      cy: SIZE - (SIZE * each.onTime) / each.bots,
      r: 1.5 + 3.5 * Math.sqrt(each.bots / most),
      "data-part": each.reserved ? "reserved" : "booked",
    },
    svg("title", { text: sentence(each) }),
  );
}

const sentence = ({ bots, onTime, predicted, reserved }) =>
  `${plural(bots, "bot")} ${reserved ? "with" : "without"} a reservation: predicted ${percent(predicted)}, on time ${percent(onTime / bots)}`;
