/** Small elements that several views use. */
import { html, setText } from "../dom.js";
import { statusLabel, timeOfDay } from "../format.js";
import { serverNow } from "../http.js";
import { showToast } from "../toasts.js";

/** A coloured label for a status. */
export function pill(status) {
  return fillPill(html("span"), status);
}

export function fillPill(element, status) {
  element.className = "pill";
  element.dataset.status = status;
  setText(element, statusLabel(status));
  return element;
}

export const botLink = (id) =>
  id === null ? "" : html("a", { href: `#/bots/${id}`, text: `bot ${id}` });

/** Text with a button that copies it. */
export function copyable(text, name) {
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    showToast(`Copied the ${name}`);
  };
  // Browsers offer the clipboard only over TLS or on localhost.
  const button =
    navigator.clipboard &&
    html("button", {
      type: "button",
      class: "quiet small",
      text: "Copy",
      "aria-label": `Copy the ${name}`,
      click: copy,
    });
  return html("span", { class: "copyable" }, html("code", { text }), button);
}

/** A row of a definition list. */
export const fact = (name, value) =>
  html("div", {}, html("dt", { text: name }), html("dd", {}, value ?? "–"));

/** A select field whose first option, `all`, has an empty value. */
export function filterSelect(label, all, names, chosen, onChange) {
  return html(
    "label",
    {},
    html("span", { text: label }),
    html(
      "select",
      { change: (event) => onChange(event.target.value) },
      html("option", { value: "", text: all }),
      names.map((name) =>
        html("option", { value: name, text: statusLabel(name), selected: name === chosen }),
      ),
    ),
  );
}

/** Why the stop of a slot's container cannot be confirmed, and since when. */
export function unconfirmedText(slot) {
  const since = timeOfDay(slot.unconfirmedSince, serverNow());
  return `${slot.unconfirmedReason} since ${since}`;
}
