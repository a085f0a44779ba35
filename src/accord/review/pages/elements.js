// Elements of the page. Text of data is only ever set as text, so nothing in it is taken for HTML.

export function make(tag, given = {}, ...children) {
  const one = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name === "on") for (const [event, act] of Object.entries(value)) one.addEventListener(event, act);
    else if (name in one && typeof value !== "string") one[name] = value;
    else if (value !== null && value !== undefined) one.setAttribute(name, value);
  }
  one.append(...children.filter((child) => child !== null && child !== undefined));
  return one;
}

export function drawn(tag, given = {}, ...children) {
  const one = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given)) one.setAttribute(name, value);
  one.append(...children);
  return one;
}

export const find = (id) => document.getElementById(id);
export const count = (number) => number.toLocaleString("en");
export const percent = (share) => `${Math.round(100 * share)} %`;
export const DONE = { keep: "kept", fix: "fixed", drop: "dropped", unsure: "unsure" };

export function told(mine, classes) {
  if (!mine) return "";
  return mine.action === "fix" ? `fixed: ${classes[mine.label]}` : DONE[mine.action];
}

export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

export async function ask(path, body) {
  const given = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  if (body !== undefined) given.headers = { "content-type": "application/json" };
  const answer = await fetch(path, { ...given, credentials: "same-origin", cache: "no-store" });
  if (answer.ok) return answer.json();
  const words = await answer.text();
  let sentence = words;
  try {
    sentence = JSON.parse(words).error ?? words;
  } catch {
    // a sentence as it is
  }
  throw new Refused(answer.status, sentence.slice(0, 500));
}
