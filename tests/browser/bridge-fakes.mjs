// What the tests of the developer bridge put in the place of an engine, a window and Web Locks.

import { SDK } from "./harness.mjs";

const { FanlightError } = await import(`${SDK}/errors.js`);

/** An engine that says `words`, and that can be held before each of them. */
export class Engine {
  model = { name: "tiny", contextLength: 512, other: "not told" };
  asked = [];
  scopes = [];
  words = ["the", "light", "of"];
  hold = null;

  chat = {
    completions: {
      create: async (request, { signal, scope }) => {
        this.asked.push(request);
        this.scopes.push(scope);
        if (request.fails) throw new FanlightError("busy", "the line is full");
        if (!request.stream) return { words: this.words };
        const self = this;
        const aborted = new Promise((stop) => signal.addEventListener("abort", stop));
        async function* chunks() {
          for (const word of self.words) {
            if (self.hold) await Promise.race([self.hold, aborted]);
            signal.throwIfAborted();
            yield { word };
          }
        }
        return { controller: new AbortController(), [Symbol.asyncIterator]: chunks };
      },
    },
  };
}

/** A window for the door: what it is, and what has been posted to it by origin. */
export function fakeWindow() {
  const posted = [];
  return { posted, postMessage: (event, origin) => posted.push({ event: structuredClone(event), origin }) };
}

/** Web Locks as far as the door uses them: one lock, a line, signals and stealing. */
export class Locks {
  line = [];
  holder = null;

  request(_, { signal, steal }, hold) {
    return new Promise((resolve, reject) => {
      const entry = { hold, resolve, reject };
      signal?.addEventListener("abort", () => {
        if (!this.line.includes(entry)) return;
        this.line = this.line.filter((other) => other !== entry);
        reject(signal.reason);
      });
      if (steal) {
        this.holder?.reject(new DOMException("stolen", "AbortError"));
        this.holder = null;
        this.line.unshift(entry);
      } else this.line.push(entry);
      this.next();
    });
  }

  next() {
    const entry = this.holder ? undefined : this.line.shift();
    if (!entry) return;
    this.holder = entry;
    void Promise.resolve()
      .then(entry.hold)
      .then((value) => {
        entry.resolve(value);
        if (this.holder === entry) this.holder = null;
        this.next();
      });
  }
}

/** Hashes that are being computed, on other threads. */
let hashing = 0;
/** Called when the next one begins. */
let begun = () => {};
for (const name of ["importKey", "sign"]) {
  const work = crypto.subtle[name].bind(crypto.subtle);
  crypto.subtle[name] = (...args) => {
    hashing += 1;
    begun();
    return work(...args).finally(() => (hashing -= 1));
  };
}

/** Resolves when the check of the next proof has begun. */
export function nextHash() {
  return new Promise((resolve) => {
    begun = resolve;
  });
}

/** Lets everything that waits for nothing but promises and hashes happen. */
export async function settle() {
  for (let quiet = 0; quiet < 10; quiet = hashing > 0 ? 0 : quiet + 1) {
    await new Promise((next) => setImmediate(next));
  }
}
