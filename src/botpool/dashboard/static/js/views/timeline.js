/** A bot's life: each phase a bar, in its place and with its length. The way into the call and
 * the call itself have a scale each: beside an hour in a meeting, the seconds before it vanish. */
import { follow, make, measure, write } from "../dom.js";
import { PHASES } from "../states.js";
import { measured } from "../wording.js";

export function timeline() {
  const whole = make("span", { class: "soft" });
  const [way, call] = [lanes("On its way"), lanes("In the call")];
  const element = make(
    "section",
    { class: "card life", "aria-labelledby": "life" },
    make("header", {}, make("h2", { id: "life", text: "Its life" }), whole),
    way.element,
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
    const joined = spans.findIndex(({ phase }) => phase === "in_call");
    const before = joined < 0 ? spans.length : joined;
    write(whole, `${measured(lengthOf(spans))} in all`);
    way.show(spans.slice(0, before));
    call.show(spans.slice(before));
  }

  return {
    element,
    tick,
    show(answer, now) {
      phases = answer;
      element.hidden = phases.length === 0;
      tick(now);
    },
  };
}

const lengthOf = (spans) => Math.max(1, spans.at(-1).to - spans[0].from);

function lanes(name) {
  const title = make("h3", {}, make("span", { text: name }), make("span", { class: "took" }));
  const list = make("ol", { class: "phases" });
  const element = make("div", {}, title, list);

  function show(spans) {
    element.hidden = spans.length === 0;
    if (element.hidden) return;
    const [begin, length] = [spans[0].from, lengthOf(spans)];
    write(title.lastChild, measured(length));
    follow(
      list,
      spans,
      ({ phase, from }) => phase + from,
      newRow,
      (row, { phase, from, to, open }) => {
        const [label, lane, took] = row.children;
        write(label, PHASES[phase] ?? phase);
        measure(lane.firstChild, "left", `${(100 * (from - begin)) / length}%`);
        measure(lane.firstChild, "width", `${(100 * (to - from)) / length}%`);
        lane.firstChild.classList.toggle("open", open);
        write(took, `${measured(to - from)}${open ? " …" : ""}`);
      },
    );
  }
  return { element, show };
}

const newRow = ({ phase }) =>
  make(
    "li",
    { "data-phase": phase },
    make("span"),
    make("span", { class: "lane", "aria-hidden": "true" }, make("i")),
    make("span", { class: "took" }),
  );
