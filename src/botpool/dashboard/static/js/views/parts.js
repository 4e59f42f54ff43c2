/** Small parts that several views share. */
import { make, write } from "../dom.js";
import { announce } from "../toasts.js";
import { spoken } from "../wording.js";

/** A status as a word with its colour. */
export function pill(status) {
  return fillPill(make("span"), status);
}

export function fillPill(element, status) {
  element.className = "pill";
  element.dataset.state = status;
  write(element, spoken(status));
  return element;
}

export const botLink = (id) =>
  id === null ? "" : make("a", { href: `#/bots/${id}`, text: `bot ${id}` });

/** A text to copy, such as a correlation id. */
export function copyable(text, name) {
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    announce(`Copied the ${name}`);
  };
  // Browsers give the clipboard only to pages that came over TLS or from this machine.
  const button =
    navigator.clipboard &&
    make("button", {
      type: "button",
      class: "quiet small",
      text: "Copy",
      "aria-label": `Copy the ${name}`,
      click: copy,
    });
  return make("span", { class: "copyable" }, make("code", { text }), button);
}

export const fact = (name, value) =>
  make("div", {}, make("dt", { text: name }), make("dd", {}, value ?? "–"));

/** A choice among names; the first is "all". */
export function choice(label, all, names, chosen, onChoice) {
  return make(
    "label",
    {},
    make("span", { text: label }),
    make(
      "select",
      { change: (event) => onChoice(event.target.value) },
      make("option", { value: "", text: all }),
      names.map((name) =>
        make("option", { value: name, text: spoken(name), selected: name === chosen }),
      ),
    ),
  );
}
