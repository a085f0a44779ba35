"use strict";
// Tables that are in the page already: a click on a column's name sorts by it.

function marked(head, down) {
  for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
}

// A column's name becomes a button. Numbers are first sorted from the largest on, words from A on.
function sorts(head, numbers, order) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const before = head.getAttribute("aria-sort");
    const down = before ? before === "ascending" : numbers;
    marked(head, down);
    order(down);
  });
}

function value(cell) {
  const text = cell.dataset.value ?? cell.textContent.trim();
  const number = text === "" ? NaN : Number(text.replaceAll(",", "").replace(/ [%s]$/, ""));
  return Number.isNaN(number) ? text : number;
}

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const all = rows.map((row) => [...row.cells].map(value));
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    sorts(head, head.classList.contains("n"), (down) => {
      const places = sorted([...rows.keys()], (at) => all[at][column], down);
      body.append(...places.map((at) => rows[at]));
    });
  });
}
