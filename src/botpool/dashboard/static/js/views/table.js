/** A table whose rows follow items. Narrow screens show rows as cards, so its roles are spelled
 * out, and every cell has its column's name with it. */
import { assign, follow, make, write } from "../dom.js";

export function table(label, columns) {
  const body = make("tbody", { role: "rowgroup" });
  const heads = columns.map((name) =>
    make("th", { scope: "col", role: "columnheader", text: name }),
  );
  const element = make(
    "table",
    { role: "table", "aria-label": label },
    make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, heads)),
    body,
  );

  /** `cellsOf(item)` gives a text or an element for each column; only what is new is replaced. */
  function show(items, keyOf, cellsOf) {
    element.hidden = items.length === 0;
    follow(body, items, keyOf, newRow, (row, item) => {
      cellsOf(item).forEach((content, index) => put(row.cells[index], content));
    });
  }
  const newRow = () =>
    make(
      "tr",
      { role: "row" },
      columns.map((name) => make("td", { role: "cell", "data-label": name })),
    );

  return { element, show };
}

function put(cell, content) {
  if (!(content instanceof Node)) write(cell, content ?? "");
  else if (!cell.firstChild?.isEqualNode(content)) cell.replaceChildren(content);
  assign(cell, "data-empty", cell.textContent === "");
}
