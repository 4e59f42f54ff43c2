/** What was done, told at once and read aloud, then gone by itself. */
import { make } from "./dom.js";

const SHOWN_MS = 7_000;

/** `kind`: good or bad. `link`: where to look further, as [text, address]. */
export function announce(text, kind = "good", link = null) {
  const toast = make(
    "p",
    { class: `toast ${kind}` },
    make("span", { text }),
    link && make("a", { href: link[1], text: link[0] }),
    make("button", {
      type: "button",
      class: "quiet icon",
      "aria-label": "Dismiss",
      text: "×",
      click: () => toast.remove(),
    }),
  );
  document.getElementById("toasts").append(toast);
  setTimeout(() => toast.remove(), SHOWN_MS);
}
