/** Buttons that turn the pages of a list, and the cursor of the page that is shown. */
import { html, setText } from "../dom.js";

/** `turned` loads the page of the new cursor. */
export function pager(turned, { back = "‹ Newer", forward = "Older ›" } = {}) {
  const cursors = [null];
  let next = null;
  const button = (text, click) =>
    html("button", { type: "button", class: "quiet", text, click });
  const previousButton = button(back, () => {
    cursors.pop();
    turned();
  });
  const nextButton = button(forward, () => {
    cursors.push(next);
    turned();
  });
  const label = html("span", { class: "soft" });
  const element = html(
    "nav",
    { class: "paging", "aria-label": "Pages", hidden: true },
    previousButton,
    label,
    nextButton,
  );

  /** Show the buttons for a loaded page. `loading` tells that the page is not complete yet. */
  function show(nextCursor, loading = "") {
    next = nextCursor ?? null;
    previousButton.disabled = cursors.length === 1;
    nextButton.disabled = !next || Boolean(loading);
    element.hidden = cursors.length === 1 && !next;
    setText(label, loading || `Page ${cursors.length}`);
  }

  return {
    element,
    show,
    cursor: () => cursors.at(-1),
    isFirst: () => cursors.length === 1,
    reset: () => cursors.splice(1),
  };
}
