// Steps on their way to the journal: one after the other, kept until the server says that they are on the disk.

import { Refused, ask } from "/page/elements.js";

const FIRST_WAIT = 400;
const LONGEST_WAIT = 3000;

function name() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Saving {
  // `heard` gets each answer, `refused` each step that the server does not take, `changed` the state.
  constructor(start, { heard, refused, changed }) {
    Object.assign(this, { heard, refused, changed, server: start.server, after: start.after });
    this.prefix = `accord-review:${start.identity}:${start.reviewer}:`;
    this.key = this.prefix + name();
    this.waiting = this.left();
    this.state = "";
    this.running = false;
    this.free = [];
    this.keep();
    if (this.waiting.length) this.run();
  }

  // What an earlier page could not hand over before it was closed.
  left() {
    const found = [];
    try {
      const keys = Object.keys(localStorage).filter((key) => key.startsWith(this.prefix));
      for (const key of keys.sort()) {
        found.push(...JSON.parse(localStorage.getItem(key)));
        localStorage.removeItem(key);
      }
    } catch {
      // no storage: what is waiting is in this page alone
    }
    return found;
  }

  keep() {
    try {
      if (this.waiting.length) localStorage.setItem(this.key, JSON.stringify(this.waiting));
      else localStorage.removeItem(this.key);
    } catch {
      // the same
    }
  }

  add(path, body) {
    this.waiting.push({ path, body: { ...body, step: name() } });
    this.keep();
    this.changed(this.state);
    this.run();
  }

  // Whether a label has a decision that is not saved yet.
  holds(at) {
    return this.waiting.some((one) => one.body.items?.includes(at));
  }

  idle() {
    return this.waiting.length ? new Promise((resolve) => this.free.push(resolve)) : Promise.resolve();
  }

  async run() {
    if (this.running) return;
    this.running = true;
    let wait = FIRST_WAIT;
    while (this.waiting.length) {
      const one = this.waiting[0];
      if (one.body.server === undefined) {
        Object.assign(one.body, { server: this.server, after: this.after });
        this.keep();
      }
      try {
        const answer = await ask(one.path, one.body);
        [this.server, this.after, wait] = [answer.server, answer.after, FIRST_WAIT];
        this.done("");
        this.heard(one.body, answer);
      } catch (error) {
        const status = error instanceof Refused ? error.status : 0;
        if (status >= 400 && status < 500 && status !== 401 && status !== 421) {
          this.done("");
          this.refused(one.body, error.message);
          continue;
        }
        this.state = status === 401 ? "token" : status === 507 ? error.message : "away";
        this.changed(this.state);
        await new Promise((resolve) => setTimeout(resolve, wait));
        wait = Math.min(LONGEST_WAIT, 2 * wait);
      }
    }
    this.running = false;
    for (const resolve of this.free.splice(0)) resolve();
  }

  done(state) {
    this.waiting.shift();
    this.keep();
    this.state = state;
    this.changed(state);
  }
}
