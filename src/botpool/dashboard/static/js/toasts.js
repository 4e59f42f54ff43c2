/** Short messages about results. A screen reader announces them; they disappear after a while. */
import { html } from "./dom.js";

const VISIBLE_MS = 7_000;
const VISIBLE_WITH_LINK_MS = 20_000;

/** `kind`: good or bad. `link`: [text, address]. */
export function showToast(text, kind = "good", link = null) {
  const toast = html(
    "p",
    { class: `toast ${kind}` },
    html("span", { text }),
    link && html("a", { href: link[1], text: link[0] }),
    html("button", {
      type: "button",
      class: "quiet icon",
      "aria-label": "Dismiss",
      text: "×",
      click: () => toast.remove(),
    }),
  );
  document.getElementById("toasts").append(toast);
  setTimeout(() => toast.remove(), link ? VISIBLE_WITH_LINK_MS : VISIBLE_MS);
}
