// The page: which list is shown, where one is in it, and what the keys do.

import { bulk } from "/page/bulk.js";
import { Detail } from "/page/detail.js";
import { ask, count, find, make, told } from "/page/elements.js";
import { showPanel } from "/page/panel.js";
import { Queue, fillFilters, showPager, spoken } from "/page/queue.js";
import { Saving } from "/page/saving.js";

const LIMIT = { suggested: 24, checks: 24, worst: 48, all: 48 };
const state = { mode: "suggested", rows: [], now: 0, offset: 0, total: 0, selected: new Set(), anchor: null, query: {}, busy: false };
const AHEAD = 8; // labels left from which more are fetched
const MOST = 240; // rows after which a drawn list begins anew
let start, queue, detail, saving, coming, loading = 0;

// -- lists ------------------------------------------------------------------------------------------------

async function load(mode, { offset = 0, first_open = false } = {}) {
  const mine = ++loading;
  state.mode = mode;
  for (const one of find("modes").children) one.setAttribute("aria-pressed", String(one.dataset.mode === mode));
  find("filters").hidden = mode !== "all";
  const drawn = isDrawn(mode);
  let found;
  state.busy = true;
  try {
    if (drawn) await saving.idle(); // what is decided does not come up again
    const query = mode === "all" ? state.query : { sort: "worst" };
    found = await (drawn ? ask("/api/next", { mode, limit: LIMIT[mode] }) : ask("/api/rows", { query, offset, limit: LIMIT[mode], first_open }));
  } catch (error) {
    if (mine === loading) unreachable(error, () => load(mode, { offset, first_open }));
    return;
  }
  if (mine !== loading) return;
  Object.assign(state, { busy: false, rows: found.rows, offset: found.offset, total: found.total, anchor: null });
  state.selected.clear();
  queue.show(state.rows);
  if (drawn) find("pager").replaceChildren();
  else showPager({ offset: state.offset, total: state.total, shown: state.rows.length, limit: LIMIT[mode] }, (to) => load(mode, { offset: to }));
  const open = state.rows.findIndex((row) => !row.mine);
  showBar();
  go(open < 0 ? 0 : open, false);
}

const isDrawn = (mode) => mode === "suggested" || mode === "checks";

// More of a drawn list, after those that are shown: drawn when all that was decided is saved.
async function more() {
  const mine = loading;
  await saving.idle();
  const open = new Set(state.rows.filter((row) => !row.mine).map((row) => row.at));
  const found = await ask("/api/next", { mode: state.mode, limit: LIMIT[state.mode] + open.size });
  const rows = found.rows.filter((row) => !open.has(row.at) && !saving.holds(row.at));
  if (mine !== loading || !rows.length) return false;
  state.rows.push(...rows);
  queue.append(rows);
  return true;
}

function ahead() {
  const left = state.rows.filter((row) => !row.mine).length;
  if (!isDrawn(state.mode) || left > AHEAD || state.rows.length > MOST) return;
  coming ??= more().catch(() => false).finally(() => (coming = undefined));
}

function unreachable(error, again) {
  if (error.status >= 400 && error.status < 500 && error.status !== 401) {
    banner(error.message);
    return;
  }
  banner(error.status === 401 ? newToken() : away());
  setTimeout(again, 1500);
}

// The page after this one. Where decided labels leave the list, those that follow have moved up.
function further() {
  if (isDrawn(state.mode)) return furtherDrawn();
  const leaving = state.query.decided === false && state.mode === "all";
  const gone = leaving ? state.rows.filter((row) => row.mine).length : 0;
  const offset = state.offset + state.rows.length - gone;
  if (offset < state.total - gone) return saving.idle().then(() => load(state.mode, { offset }));
  return go(state.now, false);
}

async function furtherDrawn() {
  const mine = loading;
  state.busy = true;
  ahead();
  const came = await coming;
  if (mine !== loading) return;
  const next = state.rows.findIndex((row, k) => k > state.now && !row.mine);
  if (came && next >= 0) {
    state.busy = false;
    go(next);
  } else load(state.mode);
}

// -- where one is -----------------------------------------------------------------------------------------

function draw(k) {
  queue.update(k, { now: k === state.now, selected: state.selected.has(k) });
}

function go(k, speak = true) {
  const before = state.now;
  state.now = Math.max(0, Math.min(k, state.rows.length - 1));
  draw(before);
  draw(state.now);
  const row = state.rows[state.now];
  detail.show(row ?? null);
  queue.reveal(state.now);
  if (speak && row) say(spoken(row, start));
}

function move(by) {
  if (by > 0 && state.now + by >= state.rows.length) further();
  else go(state.now + by);
}

function toNextOpen() {
  const after = state.rows.findIndex((row, k) => k > state.now && !row.mine);
  if (after >= 0) go(after);
  else further();
}

// -- deciding ---------------------------------------------------------------------------------------------

function whyOf(row) {
  return row.why ?? (state.mode === "worst" ? "worst" : "chosen");
}

function decide(action, label) {
  if (state.selected.size) return decideSelected(action, label);
  const row = state.rows[state.now];
  if (!row || state.busy) return undefined; // the next ones are on their way
  row.mine = { action, ...(action === "fix" ? { label } : {}) };
  saving.add("/api/decide", { items: [row.at], action, ...(action === "fix" ? { label } : {}), why: whyOf(row) });
  say(`${row.title} ${told(row.mine, start.classes)}.`);
  draw(state.now);
  ahead();
  return toNextOpen();
}

function undo() {
  saving.add("/api/undo", {});
}

function decideSelected(action, label) {
  const items = [...state.selected].sort((a, b) => a - b).map((k) => state.rows[k].at);
  return bulk(start, { items }, { action, label }, decideAll);
}

async function decideFound() {
  await saving.idle();
  return bulk(start, { query: state.query }, {}, decideAll);
}

function decideAll(items, action, label) {
  saving.add("/api/decide", { items, action, ...(action === "fix" ? { label } : {}), why: "bulk" });
  const own = new Set(items);
  state.rows.forEach((row, k) => {
    if (own.has(row.at)) row.mine = { action, ...(action === "fix" ? { label } : {}) };
    state.selected.delete(k);
    draw(k);
  });
  showBar();
  say(`${count(items.length)} decided.`);
  toNextOpen();
}

// The journal has it. What stands is taken from the answer: another page may have decided too.
function heard(body, answer) {
  const words = new Map(answer.items);
  let back = -1;
  state.rows.forEach((row, k) => {
    if (!words.has(row.at) || saving.holds(row.at)) return;
    row.mine = words.get(row.at);
    if (body.items === undefined) back = k;
    draw(k);
  });
  if (body.items === undefined) undone(answer.items, back);
  else if (detail.row && words.has(detail.row.at)) detail.update();
  soonProgress();
}

function undone(items, back) {
  if (!items.length) say("There is nothing to undo.");
  else say(`Taken back: ${count(items.length)} ${items.length === 1 ? "decision" : "decisions"}.`);
  if (back >= 0) go(back, false);
}

function refused(body, sentence) {
  banner(sentence);
  for (const [k, row] of state.rows.entries()) {
    if (!body.items?.includes(row.at)) continue;
    row.mine = null;
    draw(k);
  }
}

// -- selecting --------------------------------------------------------------------------------------------

function select(k, on, range) {
  if (!state.rows[k]) return;
  const from = range && state.anchor !== null ? state.anchor : k;
  for (let one = Math.min(from, k); one <= Math.max(from, k); one += 1) {
    if (on) state.selected.add(one);
    else state.selected.delete(one);
    draw(one);
  }
  state.anchor = k;
  showBar();
}

function selectAll(on) {
  state.rows.forEach((_, k) => {
    if (on) state.selected.add(k);
    else state.selected.delete(k);
    draw(k);
  });
  showBar();
}

function showBar() {
  const button = (words, act) => make("button", { type: "button", on: { click: act } }, words);
  const chosen = state.selected.size;
  const parts = chosen
    ? [make("b", {}, `${count(chosen)} selected`), button("Decide these …", () => decideSelected("keep")), button("Select none", () => selectAll(false))]
    : [button("Select all shown", () => selectAll(true))];
  if (!chosen && state.mode === "all" && state.total) parts.push(button(`Decide all ${count(state.total)} found …`, decideFound));
  find("bar").replaceChildren(...parts);
}

// -- keys -------------------------------------------------------------------------------------------------

const KEYS = {
  k: () => decide("keep"),
  f: () => (state.selected.size ? decideSelected("fix") : detail.takePrediction()),
  d: () => decide("drop"),
  u: () => decide("unsure"),
  z: undo,
  j: () => move(1),
  p: () => move(-1),
  ArrowRight: () => move(1),
  ArrowLeft: () => move(-1),
  ArrowDown: () => move(queue.across),
  ArrowUp: () => move(-queue.across),
  x: () => select(state.now, !state.selected.has(state.now), false),
  X: () => select(state.now, true, true),
  a: () => selectAll(true),
  Escape: () => selectAll(false),
  c: () => detail.choose(),
  "?": () => find("help").showModal(),
  "/": search,
};

function search() {
  if (state.mode !== "all") load("all");
  find("filters").elements.namedItem("text").focus(); // at once, so that what is typed decides nothing
}

function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
  const field = event.target.closest("input:not([type=checkbox]), select, textarea");
  if (field) {
    if (event.key === "Escape") field.blur();
    return;
  }
  if (event.repeat && !event.key.startsWith("Arrow")) return;
  if (event.target.closest(".wide") && /^Arrow/.test(event.key) && event.target.matches(".history")) return;
  const act = KEYS[event.key] ?? (/^[0-9]$/.test(event.key) && start.classes.length ? () => detail.typed(event.key) : null);
  if (!act || (event.key === "f" && !start.classes.length)) return;
  event.preventDefault();
  act();
}

// -- what is said -----------------------------------------------------------------------------------------

function say(words) {
  find("said").textContent = words;
}

function banner(words) {
  find("banner").hidden = !words;
  find("banner").textContent = words;
}

const newToken = () => "The server was started anew. Open the address that it printed; this page then goes on by itself.";

function away() {
  const left = saving?.waiting.length ?? 0;
  const kept = left ? `${count(left)} ${left === 1 ? "step waits" : "steps wait"} here and will be saved. ` : "";
  return `The server does not answer. ${kept}Start it again with --port ${location.port}; this page then goes on by itself.`;
}

function showSaved(problem) {
  const left = saving?.waiting.length ?? 0;
  find("saved").textContent = left ? `${count(left)} being saved …` : "all saved";
  find("saved").classList.toggle("waiting", left > 0);
  banner(problem === "" ? "" : problem === "token" ? newToken() : problem === "away" ? away() : problem);
}

let progressLater = 0;
function soonProgress() {
  clearTimeout(progressLater);
  progressLater = setTimeout(progress, 250);
}

async function progress() {
  try {
    showPanel(await ask("/api/progress"), start);
    if (!saving.waiting.length) banner("");
  } catch {
    setTimeout(soonProgress, 2000);
  }
}

async function begin() {
  try {
    start = await ask("/api/start");
  } catch (error) {
    banner(error.status === 401 ? error.message : "The server does not answer.");
    return;
  }
  find("what").textContent = `${count(start.count)} ${start.what}, ${count(start.flagged)} flagged · decided by ${start.reviewer}`;
  find("notices").replaceChildren(...start.notices.map((words) => make("p", { class: "notice" }, words)));
  find("notices").hidden = !start.notices.length;
  if (!start.classes.length) for (const one of document.querySelectorAll('[data-for="labels"]')) one.remove();
  document.body.classList.toggle("pictures", start.grid);
  queue = new Queue(start, { open: (k) => go(k), select });
  detail = new Detail(start, { decide, undo, move });
  saving = new Saving(start, { heard, refused, changed: (problem) => saving && showSaved(problem) });
  fillFilters(start, (query) => {
    state.query = query;
    load("all");
  });
  for (const one of find("modes").children) {
    one.addEventListener("click", () => load(one.dataset.mode, { first_open: one.dataset.mode === "worst" }));
  }
  find("help-button").addEventListener("click", () => find("help").showModal());
  document.addEventListener("keydown", pressed);
  showSaved("");
  progress();
  await load("suggested");
}

begin();
