// A whole selection at once: a sample of it first, then one button.

import { ask, count, find, make, told } from "/page/elements.js";
import { image } from "/page/queue.js";

const VERBS = { keep: "Keep", fix: "Fix", drop: "Drop", unsure: "Leave unsure" };

export async function bulk(start, selection, { action = "keep", label }, decide) {
  const box = find("bulk");
  let found;
  try {
    found = await ask("/api/selection", selection);
  } catch (error) {
    box.replaceChildren(make("h2", { id: "bulk-title" }, "That cannot be decided at once"), make("p", {}, error.message), closing());
    box.showModal();
    return;
  }
  const { classes } = start;
  const what = found.count === 1 ? start.what.slice(0, -1) : start.what;
  const actions = Object.keys(VERBS).filter((name) => name !== "fix" || classes.length);
  const radio = (name) => make("label", {}, make("input", { type: "radio", name: "action", value: name, checked: name === action }), VERBS[name]);
  const usual = label ?? commonest(found.sample.map((row) => row.predicted));
  const select = make("select", { "aria-label": "Fix to this class" }, ...classes.map((name, k) => make("option", { value: String(k), selected: k === usual }, name)));
  const sure = make("button", { type: "submit", class: "sure", disabled: !found.count });
  const form = make("form", { method: "dialog" }, make("div", { class: "radios" }, ...actions.map(radio), classes.length ? select : null), make("div", { class: "ends" }, sure, closing()));
  const chosen = () => new FormData(form).get("action");
  const update = () => {
    select.hidden = chosen() !== "fix";
    const to = chosen() === "fix" ? ` to ${classes[Number(select.value)]}` : "";
    sure.textContent = `${VERBS[chosen()]} ${count(found.count)} ${what}${to}`;
  };
  form.addEventListener("change", update);
  form.addEventListener("submit", () => {
    if (found.count) decide(found.items, chosen(), chosen() === "fix" ? Number(select.value) : undefined);
  });
  const some = found.sample.length < found.count ? `${found.sample.length} of them, drawn at random:` : "All of them:";
  box.replaceChildren(
    make("h2", { id: "bulk-title" }, `${count(found.count)} ${what} at once`),
    make("p", { class: "soft" }, found.count ? some : "Nothing is selected."),
    make("ul", { class: "sample" }, ...found.sample.map((row) => sampled(row, start))),
    form,
  );
  update();
  box.showModal();
  sure.focus();
}

function sampled(row, start) {
  const labels = row.given === null ? row.cells.join(" · ") : `${start.classes[row.given]} → ${start.classes[row.predicted]}`;
  const mine = row.mine ? ` (${told(row.mine, start.classes)})` : "";
  return make("li", {}, start.grid ? image("small", row.at) : null, make("span", {}, row.title), make("span", { class: "soft" }, `${labels}${mine}`));
}

function commonest(numbers) {
  const times = new Map();
  for (const one of numbers) times.set(one, (times.get(one) ?? 0) + 1);
  return [...times].sort((a, b) => b[1] - a[1])[0]?.[0] ?? 0;
}

function closing() {
  return make("button", { type: "button", on: { click: () => find("bulk").close() } }, "Cancel");
}
