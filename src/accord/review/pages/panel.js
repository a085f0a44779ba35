// What the decisions so far say of all labels.

import { DONE, count, drawn, find, make, percent } from "/page/elements.js";

const between = ({ low, high }, word) => `${word(low)} to ${word(high)}`;
const number = (value) => count(Math.round(value));

export function showPanel({ estimate, mine, counted, others }, start) {
  const parts = [make("h2", {}, "What the decisions say"), decided(mine, counted, start)];
  parts.push(...people(others), ...precision(estimate, start), ...wrong(estimate, start), slips(estimate), stop(estimate, start));
  find("panel").replaceChildren(...parts.filter(Boolean));
}

function decided(mine, counted, start) {
  const each = Object.entries(counted).filter(([, times]) => times);
  const words = each.map(([action, times]) => `${count(times)} ${DONE[action]}`).join(", ");
  const what = `${count(mine)} of ${count(start.count)} ${start.what} decided`;
  return make("p", { id: "decided" }, words ? `${what}: ${words}.` : `${what}.`);
}

function people(others) {
  return others.map(({ name, decided, both, differ }) => {
    const words = both ? `, ${count(both)} of them as well as you; ${count(differ)} differently` : "";
    return make("p", { class: "soft" }, `${name} decided ${count(decided)}${words}.`);
  });
}

function precision({ precision: share, words, level, checks }, start) {
  const flagged = `of the ${count(start.flagged)} flagged`;
  if (!share) {
    const needed = "Decide more random checks, and the page says how far the list can be trusted.";
    return [make("h3", {}, "Wrong among the flagged"), make("p", { id: "precision" }, `${count(checks)} checks so far. ${needed}`)];
  }
  return [
    make("h3", {}, "Wrong among the flagged"),
    make("p", { id: "precision" }, make("b", { class: "large" }, percent(share.value)), ` ${flagged}`),
    interval(share),
    make("p", { class: "soft" }, `${between(share, percent)} with a chance of ${percent(level)}; ${meaning(words)}.`),
  ];
}

// Without answers that were asked again, nobody knows how often a person errs.
function meaning(words) {
  return words.startsWith("truly") ? "truly wrong, as your slips are counted off" : `this is ${words}`;
}

function interval({ value, low, high }) {
  const x = (share) => 4 + 212 * share;
  const words = `${percent(value)}, between ${percent(low)} and ${percent(high)}`;
  const axis = [0, 0.5, 1].flatMap((share) => [
    drawn("line", { x1: x(share), x2: x(share), y1: 18, y2: 24, class: "axis" }),
    drawn("text", { x: x(share), y: 36, class: "tick", "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle" }, percent(share)),
  ]);
  return drawn(
    "svg",
    { viewBox: "0 0 220 40", class: "interval", role: "img", "aria-label": words },
    drawn("line", { x1: x(0), x2: x(1), y1: 21, y2: 21, class: "axis" }),
    ...axis,
    drawn("line", { x1: x(low), x2: x(high), y1: 10, y2: 10, class: "range" }),
    drawn("circle", { cx: x(value), cy: 10, r: 5, class: "point" }),
  );
}

function wrong({ below, every }, start) {
  if (!below) return [];
  return [
    make("h3", {}, "Wrong, but not flagged"),
    make("p", { id: "below" }, make("b", {}, `about ${number(below.value)}`), ` (${between(below, number)})`),
    every ? make("p", { class: "soft" }, `All in all about ${number(every.value)} of ${count(start.count)} (${between(every, number)}).`) : null,
  ];
}

function slips({ error, asked_again: again }) {
  const words = error
    ? `You answer otherwise by a slip in about ${percent(error.value)} of cases (${between(error, percent)}), by ${count(again)} answers that were asked again.`
    : `How often you err is not known yet. Some labels are asked again to find out; ${count(again)} so far.`;
  return make("div", { id: "slips" }, make("h3", {}, "Your own slips"), make("p", { class: "soft" }, words));
}

function stop({ stop: where, left }, start) {
  if (where === null || where === undefined) return null;
  const never = "Not yet: as far as is known, at least one in ten is wrong down to the last one.";
  const words = where >= start.count ? never : `Look at the ${count(where)} worst. Of those after them fewer than one in ten is wrong, about ${number(left)} in all.`;
  return make("div", { id: "stop" }, make("h3", {}, "Where to stop"), make("p", {}, words));
}
