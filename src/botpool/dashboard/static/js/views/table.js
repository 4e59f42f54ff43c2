/** A table with one row per item. Narrow screens show rows as cards, which needs explicit roles and
 * the column's name on each cell. */
import { html, setAttribute, setText, syncChildren } from "../dom.js";

export function table(label, columns) {
  const body = html("tbody", { role: "rowgroup" });
  const heads = columns.map((name) =>
    html("th", { scope: "col", role: "columnheader", text: name }),
  );
  const element = html(
    "table",
    { role: "table", "aria-label": label },
    html("thead", { role: "rowgroup" }, html("tr", { role: "row" }, heads)),
    body,
  );

  /** `cellsOf(item)` returns a text or an element per column. Replaces only changed cells. */
  function show(items, keyOf, cellsOf) {
    element.hidden = items.length === 0;
    syncChildren(body, items, keyOf, newRow, (row, item) => {
      cellsOf(item).forEach((content, index) => setCell(row.cells[index], content));
    });
  }
  const newRow = () =>
    html(
      "tr",
      { role: "row" },
      columns.map((name) => html("td", { role: "cell", "data-label": name })),
    );

  return { element, show };
}

function setCell(cell, content) {
  if (!(content instanceof Node)) setText(cell, content ?? "");
  else if (!cell.firstChild?.isEqualNode(content)) cell.replaceChildren(content);
  setAttribute(cell, "data-empty", cell.textContent === "");
}
