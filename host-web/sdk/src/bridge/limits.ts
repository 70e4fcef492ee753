// What the bridge takes at most, and why. Everything that another page can make grow has its limit here.

/** Characters of one request. Twice the engine's longest message: room for its JSON and the other turns. */
export const REQUEST_CHARS_MAX = 2 * 1_048_576;
/** Characters of one door's requests that wait for a look at their proofs: two of the longest. */
export const QUEUED_CHARS_MAX = 2 * REQUEST_CHARS_MAX;
/** A client's name for itself: room for a UUID. */
export const CLIENT_CHARS_MAX = 64;

/** Clients at a time. Tabs and frames of one person's own pages; each costs a few hundred bytes. */
export const PEERS_MAX = 16;
/** Requests of one client that are not over. The engine does one at a time; the others wait in its line. */
export const REQUESTS_IN_FLIGHT_MAX = 4;
/** Requests of one client at once, and per second in the long run: each costs a hash over its text. */
export const REQUESTS_BURST = 30;
export const REQUESTS_PER_SECOND = 10;
/**
 * Greetings and refusals per door at once, and per second in the long run. Whoever asks faster hears nothing,
 * so that a page cannot make this one write as much as it likes.
 */
export const WORDS_BURST = 32;
export const WORDS_PER_SECOND = 8;

/** A client that has taken nothing for so long while chunks wait for it is gone; its reply ends. */
export const TAKE_TIMEOUT_MS = 30_000;

/**
 * A client that has said nothing for so long is gone, and what it asked for ends. It asks every ten seconds
 * whether the bridge is there; in a tab that nobody looks at, browsers may let it do so once per minute.
 */
export const CLIENT_SILENT_MS = 180_000;

/** Origins in the list: one person's own pages. */
export const ORIGINS_MAX = 32;
