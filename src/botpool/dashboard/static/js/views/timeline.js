/** The phases of a bot as bars over time. The phases before the call and the call itself have
 * separate scales, because the call is much longer. */
import { html, setStyle, setText, syncChildren } from "../dom.js";
import { preciseDuration } from "../format.js";
import { BOT_PHASES } from "../statuses.js";

export function timeline() {
  const total = html("span", { class: "soft" });
  const [before, call] = [lanes("Before the call"), lanes("Call, finishing and release")];
  const element = html(
    "section",
    { class: "card timeline", "aria-labelledby": "timeline" },
    html("header", {}, html("h2", { id: "timeline", text: "Timeline" }), total),
    before.element,
    call.element,
  );
  let phases = [];

  function tick(now) {
    if (phases.length === 0) return;
    const spans = phases.map(({ phase, from, to }) => ({
      phase,
      from: Date.parse(from),
      to: to === null ? Math.max(now, Date.parse(from)) : Date.parse(to),
      open: to === null,
    }));
    const joined = spans.findIndex(({ phase }) => phase === "in_call" || phase === "finishing");
    const split = joined < 0 ? spans.length : joined;
    setText(total, `${preciseDuration(lengthOf(spans))} in total`);
    before.show(spans.slice(0, split));
    call.show(spans.slice(split));
  }

  return {
    element,
    tick,
    show(loaded, now) {
      phases = loaded;
      element.hidden = phases.length === 0;
      tick(now);
    },
  };
}

const lengthOf = (spans) => Math.max(1, spans.at(-1).to - spans[0].from);

function lanes(name) {
  const title = html("h3", {}, html("span", { text: name }), html("span", { class: "took" }));
  const list = html("ol", { class: "phases" });
  const element = html("div", {}, title, list);

  function show(spans) {
    element.hidden = spans.length === 0;
    if (element.hidden) return;
    const [begin, length] = [spans[0].from, lengthOf(spans)];
    setText(title.lastChild, preciseDuration(length));
    syncChildren(
      list,
      spans,
      ({ phase, from }) => phase + from,
      newRow,
      (row, { phase, from, to, open }) => {
        const [label, lane, took] = row.children;
        setText(label, BOT_PHASES[phase] ?? phase);
        setStyle(lane.firstChild, "left", `${(100 * (from - begin)) / length}%`);
        setStyle(lane.firstChild, "width", `${(100 * (to - from)) / length}%`);
        lane.firstChild.classList.toggle("open", open);
        setText(took, `${preciseDuration(to - from)}${open ? " …" : ""}`);
      },
    );
  }
  return { element, show };
}

const newRow = ({ phase }) =>
  html(
    "li",
    { "data-phase": phase },
    html("span"),
    html("span", { class: "lane", "aria-hidden": "true" }, html("i")),
    html("span", { class: "took" }),
  );
