// The queue: a grid of pictures, or rows. A row is changed in place, so that nothing jumps while one decides.

import { count, find, make, told } from "/page/elements.js";

const SORTS = {
  worst: "worst first", quality: "quality", given: "given class", predicted: "predicted class", votes: "votes",
  voters: "voters", agreement: "agreement", name: "file name", user: "user", item: "item", time: "time",
  number: "number of the row",
};

export class Queue {
  // `open(k)` shows the k-th row, `select(k, on, range)` selects it.
  constructor(start, { open, select }) {
    Object.assign(this, { start, open, select, parts: [], rows: [] });
  }

  show(rows) {
    this.rows = rows;
    this.parts = rows.map((row, k) => this.part(row, k));
    const empty = make("p", { class: "soft" }, "Nothing is here.");
    const list = !rows.length ? empty : this.start.grid ? this.grid() : this.table();
    find("list").replaceChildren(list);
    rows.forEach((_, k) => this.update(k));
  }

  // Rows that the page has added to its own.
  append(rows) {
    const first = this.parts.length;
    const parts = rows.map((row, k) => this.part(row, first + k));
    this.parts.push(...parts);
    const inner = find("list").querySelector(this.start.grid ? "ol" : "tbody");
    inner.append(...parts.map((part) => (this.start.grid ? make("li", {}, part.card) : part.card)));
    rows.forEach((_, k) => this.update(first + k));
  }

  grid() {
    return make("ol", { class: "grid" }, ...this.parts.map((part) => make("li", {}, part.card)));
  }

  table() {
    const { columns, classes, votes } = this.start;
    const heads = ["", "", ...columns, ...(classes.length ? ["given", "predicted"] : []), "quality", ...(votes.length ? ["votes"] : []), "decision"];
    const names = heads.map((name, k) => make("th", { scope: "col" }, k === 0 ? hidden("selected") : k === 1 ? this.start.what.slice(0, -1) : name));
    return make(
      "div",
      { class: "wide", role: "region", "aria-label": "Rows", tabindex: "0" },
      make("table", {}, make("thead", {}, make("tr", {}, ...names)), make("tbody", {}, ...this.parts.map((part) => part.card))),
    );
  }

  part(row, k) {
    const box = make("input", {
      type: "checkbox", "aria-label": `select ${row.title}`,
      on: { click: (event) => this.select(k, box.checked, event.shiftKey) },
    });
    const mark = make("span", { class: "mark" });
    const { classes, columns, votes } = this.start;
    if (this.start.grid) {
      const labels = row.given === null
        ? make("span", { class: "labels" }, row.title, make("span", { class: "soft" }, row.cells[0]))
        : make("span", { class: "labels" }, ...(row.given === row.predicted ? [classes[row.given]] : [make("s", {}, classes[row.given]), " ", make("b", {}, classes[row.predicted])]));
      const button = make("button", { type: "button", class: "open", on: { click: () => this.open(k) } }, image("small", row.at), labels, mark);
      return { card: make("div", { class: "card" }, button, box), button, box, mark };
    }
    const button = make("button", { type: "button", class: "open", on: { click: () => this.open(k) } }, row.title);
    const cells = columns.map((_, c) => make("td", {}, row.cells[c] ?? ""));
    if (classes.length) cells.push(make("td", {}, classes[row.given]), make("td", {}, classes[row.predicted]));
    cells.push(make("td", { class: "n" }, row.quality.toFixed(3)));
    if (votes.length) cells.push(make("td", { class: "n" }, `${row.votes} of ${row.voters}`));
    const card = make("tr", { class: "card" }, make("td", {}, box), make("td", {}, button), ...cells, make("td", {}, mark));
    card.addEventListener("click", (event) => event.target.closest("button, input") || this.open(k));
    return { card, button, box, mark };
  }

  // What has changed of a row: the decision on it, whether it is the one that is shown, whether it is selected.
  update(k, { now = false, selected = false } = {}) {
    const [part, row] = [this.parts[k], this.rows[k]];
    if (!part) return;
    const words = told(row.mine, this.start.classes);
    part.mark.textContent = words;
    part.card.dataset.action = row.mine?.action ?? "";
    part.card.classList.toggle("now", now);
    part.card.classList.toggle("selected", selected);
    part.box.checked = selected;
    if (now) part.button.setAttribute("aria-current", "true");
    else part.button.removeAttribute("aria-current");
    part.button.setAttribute("aria-label", spoken(row, this.start));
  }

  // Where the queue lies below the label, as on a phone, the page stays where it is.
  reveal(k) {
    if (matchMedia("(max-width: 700px)").matches) return;
    this.parts[k]?.card.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  // How many rows lie beside one another.
  get across() {
    if (!this.start.grid || this.parts.length < 2) return 1;
    const top = this.parts[0].card.getBoundingClientRect().top;
    const next = this.parts.findIndex((part) => part.card.getBoundingClientRect().top > top + 4);
    return next < 1 ? this.parts.length : next;
  }
}

export function spoken(row, { classes }) {
  const labels = row.given === null ? "" : `, given ${classes[row.given]}, predicted ${classes[row.predicted]}`;
  const done = row.mine ? `, ${told(row.mine, classes)}` : "";
  return `${row.title}${labels}, quality ${row.quality.toFixed(3)}${done}`;
}

export function image(size, at, words = "") {
  const shown = make("img", { src: `/api/picture/${size}/${at}`, alt: words, loading: "lazy" });
  shown.addEventListener("load", () => shown.classList.toggle("coarse", shown.naturalWidth < 100));
  shown.addEventListener("error", () => shown.replaceWith(make("span", { class: "none" }, "no picture")));
  return shown;
}

function hidden(words) {
  return make("span", { class: "hidden" }, words);
}

// The fields by which all labels are filtered; `changed` gets a query.
export function fillFilters(start, changed) {
  const choice = (name, words, options) => make("label", {}, words, make("select", { name }, ...options.map(([value, text]) => make("option", { value }, text))));
  const field = (name, words, given) => make("label", {}, words, make("input", { name, autocomplete: "off", ...given }));
  const classes = [["", "any"], ...start.classes.map((name, k) => [String(k), name])];
  const parts = [field("text", "Search", { type: "search", maxlength: "200" })];
  if (start.classes.length) parts.push(choice("given", "Given", classes), choice("predicted", "Predicted", classes));
  parts.push(
    choice("flagged", "Flagged", [["", "all"], ["yes", "flagged"], ["no", "not flagged"]]),
    choice("state", "Decided", [["", "all"], ["no", "not yet"], ["yes", "decided"], ["keep", "kept"], ...(start.classes.length ? [["fix", "fixed"]] : []), ["drop", "dropped"], ["unsure", "unsure"]]),
    field("lowest", "Quality from", { type: "number", min: "0", max: "1", step: "any" }),
    field("highest", "to", { type: "number", min: "0", max: "1", step: "any" }),
  );
  if (start.votes.length) parts.push(field("fewest_votes", "Votes from", { type: "number", min: "0", step: "1" }), field("most_votes", "to", { type: "number", min: "0", step: "1" }));
  parts.push(choice("sort", "Sort by", start.sorts.map((name) => [name, SORTS[name] ?? name])));
  parts.push(make("label", { class: "check" }, make("input", { type: "checkbox", name: "descending" }), "the other way round"));
  parts.push(make("button", { type: "reset" }, "Clear"));
  const form = find("filters");
  form.replaceChildren(...parts);
  let later = 0;
  const soon = (wait) => {
    clearTimeout(later);
    later = setTimeout(() => changed(queryOf(new FormData(form))), wait);
  };
  form.addEventListener("input", (event) => soon(event.target.tagName === "SELECT" ? 0 : 180));
  form.addEventListener("reset", () => soon(0));
  form.addEventListener("submit", (event) => event.preventDefault());
}

function queryOf(data) {
  const query = { text: data.get("text"), sort: data.get("sort"), descending: data.has("descending") };
  for (const name of ["given", "predicted", "lowest", "highest", "fewest_votes", "most_votes"]) {
    const value = data.get(name);
    if (value) query[name] = Number(value);
  }
  if (data.get("flagged")) query.flagged = data.get("flagged") === "yes";
  const state = data.get("state");
  if (state === "yes" || state === "no") query.decided = state === "yes";
  else if (state) query.action = state;
  return query;
}

export function showPager({ offset, total, shown, limit }, go) {
  const more = (words, to, on) => make("button", { type: "button", disabled: !on, on: { click: () => go(to) } }, words);
  const last = offset + shown;
  const words = total ? `${count(offset + 1)} to ${count(last)} of ${count(total)}` : "none";
  find("pager").replaceChildren(
    more("Back", Math.max(0, offset - limit), offset > 0),
    make("span", { role: "status" }, words),
    more("Further", last, last < total),
  );
}
