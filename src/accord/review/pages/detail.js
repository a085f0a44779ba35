// One label, large: its picture, text or fields, what is said of it, and what can be decided.

import { ask, count, find, make, percent, told } from "/page/elements.js";
import { image } from "/page/queue.js";

const FEW = 12;

export class Detail {
  // `decide(action, label)`, `undo()` and `move(by)` are done by the page.
  constructor(start, { decide, undo, move }) {
    Object.assign(this, { start, decide, undo, move, at: null });
    const button = (key, words, act, given = {}) => make("button", { type: "button", on: { click: act }, ...given }, make("kbd", {}, key), " ", words);
    this.fix = start.classes.length ? button("f", "Fix", () => this.takePrediction(), { class: "fix" }) : null;
    this.buttons = make(
      "div",
      { class: "buttons" },
      button("k", "Keep", () => decide("keep"), { class: "keep" }),
      this.fix,
      button("d", "Drop", () => decide("drop"), { class: "drop" }),
      button("u", "Unsure", () => decide("unsure"), { class: "unsure" }),
    );
    this.moves = make("div", { class: "moves" }, button("z", "Undo", undo), button("p", "Back", () => move(-1)), button("j", "Next", () => move(1)));
    this.head = make("div", { class: "head" });
    this.more = make("div", { class: "more" });
    this.chooser = this.choices();
    find("detail").replaceChildren(this.head, this.buttons, this.chooser ?? "", this.moves, this.more);
  }

  choices() {
    const { classes } = this.start;
    if (!classes.length) return null;
    this.keys = keysOf(classes);
    if (classes.length <= FEW) {
      const each = classes.map((name, k) => make(
        "button",
        { type: "button", "data-class": String(k), title: `Fix: ${name}`, on: { click: () => this.decide("fix", k) } },
        ...(this.keys[k] && this.keys[k] !== name ? [make("kbd", {}, this.keys[k]), " "] : []), name,
      ));
      return make("div", { class: "classes", role: "group", "aria-label": "Fix: another class" }, ...each);
    }
    this.input = make("input", { type: "text", list: "class-names", autocomplete: "off", placeholder: "another class", "aria-label": "Fix: another class" });
    const names = make("datalist", { id: "class-names" }, ...classes.map((name) => make("option", { value: name })));
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.takeTyped();
      if (event.key === "Escape") this.input.blur();
    });
    return make("div", { class: "classes" }, this.input, names, make("button", { type: "button", on: { click: () => this.takeTyped() } }, "Fix to this"));
  }

  // The class that is typed: a whole name, or the only one that begins so.
  takeTyped() {
    const typed = this.input.value.trim().toLowerCase();
    const small = this.start.classes.map((name) => name.toLowerCase());
    const begun = small.flatMap((name, k) => (typed && name.startsWith(typed) ? [k] : []));
    const found = small.includes(typed) ? small.indexOf(typed) : begun.length === 1 ? begun[0] : -1;
    this.input.setAttribute("aria-invalid", String(found < 0));
    if (found < 0) return;
    this.input.value = "";
    this.input.blur();
    this.decide("fix", found);
  }

  takePrediction() {
    if (this.row && this.row.predicted !== null) this.decide("fix", this.row.predicted);
  }

  // A digit: a class by its key, or the beginning of a number that is typed.
  typed(key) {
    const at = this.keys?.indexOf(key) ?? -1;
    if (at >= 0 && this.start.classes.length <= FEW) this.decide("fix", at);
    else if (this.input) this.choose(key);
  }

  choose(begun = "") {
    if (this.input) {
      this.input.value = begun;
      this.input.focus();
    } else this.chooser?.querySelector("button")?.focus();
  }

  async show(row) {
    this.row = row;
    for (const one of find("detail").querySelectorAll("button")) one.disabled = !row;
    if (!row) {
      this.at = null;
      this.head.replaceChildren(make("p", { class: "soft" }, "Nothing is left here. Choose another list above."));
      this.more.replaceChildren();
      return;
    }
    this.update();
    if (this.at === row.at) return;
    this.at = row.at;
    this.more.replaceChildren();
    try {
      const details = await ask(`/api/item/${row.at}`);
      if (this.at === row.at) this.more.replaceChildren(...this.told(details));
    } catch (error) {
      if (this.at === row.at) this.more.replaceChildren(make("p", { class: "soft" }, `More is not known: ${error.message}`));
    }
  }

  // What is known at once, and changes with a decision.
  update() {
    const { row, start } = this;
    const { classes } = start;
    const title = make("h2", {}, row.title);
    const facts = [`quality ${row.quality.toFixed(3)}`, row.flagged ? "flagged" : "not flagged"];
    if ("votes" in row) facts.push(`${row.votes} of ${row.voters} members believe it, agreement ${percent(row.agreement)}`);
    if (row.why === "again") facts.push("asked again: decide without thinking of the last time");
    if (row.why === "check") facts.push("a random check");
    const labels = row.given === null ? null : make(
      "p", { class: "given" }, "given ", make("b", { class: row.given === row.predicted ? "" : "doubt" }, classes[row.given]), ", predicted ", make("b", {}, classes[row.predicted]),
    );
    const mine = row.mine ? make("p", { class: "mine" }, `You: ${told(row.mine, classes)}`) : null;
    if (this.picture?.dataset.at !== String(row.at)) {
      this.picture = start.pictures ? image("large", row.at, row.title) : null;
      if (this.picture) this.picture.dataset.at = row.at;
    }
    const parts = [this.picture?.isConnected || start.pictures ? this.frame() : null, title, labels, make("p", { class: "soft" }, facts.join(" · ")), mine];
    this.head.replaceChildren(...parts.filter(Boolean));
    if (this.fix) this.fix.lastChild.textContent = ` Fix: ${classes[row.predicted]}`;
    for (const one of this.chooser?.querySelectorAll("[data-class]") ?? []) one.classList.toggle("predicted", Number(one.dataset.class) === row.predicted);
  }

  frame() {
    if (this.framed?.at !== this.row.at) this.framed = { at: this.row.at, box: make("div", { class: "picture" }, this.picture) };
    return this.framed.box;
  }

  told({ fields, text, history, clicks }) {
    const parts = [];
    if (text !== undefined) parts.push(make("p", { class: "text" }, text));
    if (fields?.length) parts.push(make("dl", {}, ...fields.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)))));
    if (history) parts.push(make("h3", {}, `The user's ${count(clicks)} other clicks`), this.history(history, clicks));
    return parts;
  }

  history(rows, all) {
    if (!rows.length) return make("p", { class: "soft" }, "There are none.");
    const timed = rows.some((row) => row.time);
    const line = (row) => make(
      "tr", { class: row.flagged ? "flagged" : "" },
      make("td", {}, row.title), timed ? make("td", {}, row.time) : null,
      make("td", { class: "n" }, row.quality.toFixed(3)), make("td", {}, told(row.mine, []) || (row.flagged ? "flagged" : "")),
    );
    const heads = ["item", ...(timed ? ["time"] : []), "quality", "state"].map((name) => make("th", { scope: "col" }, name));
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows.map(line)));
    const words = rows.length < all ? make("p", { class: "soft" }, timed ? `The ${rows.length} nearest in time.` : `The ${rows.length} of least quality.`) : null;
    return make("div", { class: "wide history", role: "region", "aria-label": "Other clicks", tabindex: "0" }, words, table);
  }
}

// A key for each class: its own name, if that is a digit; else 1 to 9 and 0 for the first ten.
export function keysOf(classes) {
  if (classes.every((name) => /^[0-9]$/.test(name))) return classes;
  return classes.length <= 10 ? classes.map((_, k) => String((k + 1) % 10)) : classes.map(() => "");
}
