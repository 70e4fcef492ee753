// search-box.js: suggestions below a search field, fetched while the visitor types.

const DELAY_MS = 180;
const QUERY_LEN_MIN = 2;
const CACHE_ENTRIES_MAX = 50;

/**
 * Calls `fn` once the returned function has not been called for `delay` milliseconds.
 * `cancel()` on the returned function forgets a pending call.
 */
export function debounce(fn, delay) {
  let timer;
  const debounced = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => fn(...args), delay);
  };
  debounced.cancel = () => clearTimeout(timer);
  return debounced;
}

/** Escapes text for use inside HTML. */
export function escapeHtml(text) {
  const map = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (c) => map[c]);
}

/** Lower case, without accents, single spaces: what queries are compared and cached by. */
export function normalise(query) {
  return query
    .normalize("NFD")
    .replace(/\p{Diacritic}/gu, "")
    .toLowerCase()
    .trim()
    .replace(/\s+/g, " ");
}

export class SearchBox {
  #cache = new Map();
  #abort = null;
  #active = -1;
  #suggestions = [];

  constructor(input, list, endpoint) {
    this.input = input;
    this.list = list;
    this.endpoint = endpoint;
    this.lookup = debounce(() => this.#load(), DELAY_MS);
    input.addEventListener("input", () => this.lookup());
    input.addEventListener("keydown", (event) => this.#key(event));
    input.addEventListener("blur", () => this.close());
  }

  async #load() {
    const query = normalise(this.input.value);
    if (query.length < QUERY_LEN_MIN) return this.close();
    const cached = this.#cache.get(query);
    if (cached) return this.#show(cached, query);
    this.#abort?.abort();
    this.#abort = new AbortController();
    try {
      const url = `${this.endpoint}?q=${encodeURIComponent(query)}`;
      const response = await fetch(url, { signal: this.#abort.signal });
      if (!response.ok) throw new Error(`status ${response.status}`);
      const { suggestions } = await response.json();
      this.#remember(query, suggestions);
      this.#show(suggestions, query);
    } catch (error) {
      if (error.name !== "AbortError") this.close();
    }
  }

  #remember(query, suggestions) {
    this.#cache.set(query, suggestions);
    if (this.#cache.size > CACHE_ENTRIES_MAX) {
      this.#cache.delete(this.#cache.keys().next().value);
    }
  }

  #show(suggestions, query) {
    this.#suggestions = suggestions;
    this.#active = -1;
    this.list.innerHTML = suggestions
      .map((text, i) => `<li id="s${i}" role="option">${highlight(text, query)}</li>`)
      .join("");
    this.list.hidden = suggestions.length === 0;
  }

  close() {
    this.lookup.cancel();
    this.#abort?.abort();
    this.list.hidden = true;
  }

  #key(event) {
    if (this.list.hidden) return;
    const last = this.#suggestions.length - 1;
    if (event.key === "ArrowDown") this.#active = this.#active === last ? 0 : this.#active + 1;
    else if (event.key === "ArrowUp") this.#active = this.#active <= 0 ? last : this.#active - 1;
    else if (event.key === "Escape") return this.close();
    else return;
    event.preventDefault();
    this.input.value = this.#suggestions[this.#active];
  }
}

/**
 * Returns `text` as HTML with the first place where `query` occurs in <mark>, without regard to case.
 * Everything is escaped. If the query does not occur, returns the escaped text.
 */
export function highlight(text, query) {
