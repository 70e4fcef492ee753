// The developer bridge without a browser: its core against ports that lie, repeat themselves and never stop,
// and its client over a real channel. The proofs are checked against an independent HMAC.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { afterEach, beforeEach, mock, test } from "node:test";

import { Engine, Locks, fakeWindow, nextHash, settle } from "./bridge-fakes.mjs";
import { SDK } from "./harness.mjs";

const from = (name) => import(`${SDK}/${name}.js`);
const { BridgeError, connectBridge, proofOf } = await from("bridge/client");
const { BridgeCore, Source } = await from("bridge/core");
const { ChannelDoor } = await from("bridge/channel");
const { WindowDoor } = await from("bridge/windows");
const { isSame, newBridgeKey } = await from("bridge/key");
const { parseOrigin, parseOrigins } = await from("bridge/origins");
const limits = await from("bridge/limits");

const CLIENT = "client-1";

let engine;
let key;
let core;
let port;
let nowMs;

/** A source that keeps what is said to it. */
function newPort() {
  const said = [];
  const source = new Source((event) => said.push(structuredClone(event)), () => nowMs);
  return { said, source };
}

beforeEach(() => {
  nowMs = 0;
  engine = new Engine();
  key = newBridgeKey();
  core = new BridgeCore(engine, key, () => {}, () => nowMs);
  port = newPort();
});
afterEach(() => mock.timers.reset());

const send = (message, to = port) =>
  core.receive(to.source, { fanlightBridge: 1, client: CLIENT, ...message });

function hello(to = port, client = CLIENT) {
  send({ type: "hello", client }, to);
  const ready = to.said.findLast(({ type }) => type === "ready");
  assert.ok(ready, JSON.stringify(to.said));
  return ready.session;
}

/** A request as the bridge wants it, with a proof of this test's own. */
function signed(session, seq, request, { client = CLIENT, by = key } = {}) {
  const body = typeof request === "string" ? request : JSON.stringify(request);
  const text = `fanlight-bridge-1\n${client}\n${session}\n${seq}\n${body}`;
  const proof = createHmac("sha256", by).update(text).digest("base64url");
  return { type: "ask", client, session, seq, body, proof };
}

const chat = (more = {}) => {
  return { method: "chat.completions", request: { messages: [], stream: true, ...more } };
};
const errors = ({ said } = port) =>
  said.filter(({ type }) => type === "error").map(({ seq, error }) => [seq, error.code]);
const told = (seq, { said } = port) => said.filter((event) => event.seq === seq).map(({ type }) => type);

test("a key has 256 random bits, and its comparison looks at every character", () => {
  assert.match(key, /^fl_sk_[\w-]{43}$/);
  assert.notEqual(newBridgeKey(), key);
  assert.ok(isSame("abc", "abc"));
  for (const other of ["abd", "xbc", "ab", "abcd", ""]) {
    assert.ok(!isSame("abc", other) && !isSame(other, "abc"), other);
  }
});

test("the proof is the HMAC of what is asked, and the key is never sent", async () => {
  const session = hello();
  const wanted = signed(session, 1, { method: "ping" });
  assert.equal(await proofOf(key, { ...wanted }), wanted.proof);
  send(wanted);
  await settle();
  const { result } = port.said.at(-1);
  assert.deepEqual(result, { version: 1, model: { name: "tiny", contextLength: 512 } });
  assert.ok(!JSON.stringify([wanted, port.said]).includes(key.slice(6)));
});

test("a reply comes in chunks to the client that asked, and then done", async () => {
  send(signed(hello(), 1, chat()));
  await settle();
  assert.deepEqual(told(1), ["chunk", "chunk", "chunk", "done"]);
  assert.deepEqual(
    port.said.filter(({ type }) => type === "chunk").map(({ chunk, client }) => [chunk.word, client]),
    engine.words.map((word) => [word, CLIENT]),
  );
  send(signed(hello(), 2, chat({ stream: false })));
  await settle();
  assert.deepEqual(port.said.at(-1).result, { words: engine.words });
});

test("wrong and old keys are refused, and nothing reaches the engine", async () => {
  const session = hello();
  send(signed(session, 1, chat(), { by: newBridgeKey() }));
  // The right key for other words, another number, another client's name.
  send({ ...signed(session, 2, chat()), body: JSON.stringify(chat({ seed: 1 })) });
  send({ ...signed(session, 3, chat()), seq: 4 });
  send(signed(session, 5, chat(), { client: "client-2" }));
  await settle();
  assert.deepEqual(errors(), [
    [5, "no-session"],
    [1, "wrong-key"],
    [2, "wrong-key"],
    [4, "wrong-key"],
  ]);
  assert.equal(engine.asked.length, 0);
});

test("a rotated key stops the old one at once: what runs, what waits and what comes", async () => {
  const session = hello();
  let release;
  engine.hold = new Promise((go) => (release = go));
  send(signed(session, 1, chat()));
  await settle();
  assert.equal(core.status.running, 1);
  send(signed(session, 2, chat()));
  const old = key;
  key = newBridgeKey();
  core.setKey(key);
  assert.deepEqual(errors(), [[1, "key-rotated"]], "before the engine has done anything");
  release();
  await settle();
  send(signed(session, 3, { method: "ping" }, { by: old }));
  const again = hello();
  send(signed(again, 4, { method: "ping" }, { by: old }));
  send(signed(again, 5, { method: "ping" }));
  await settle();
  assert.deepEqual(errors(), [
    [1, "key-rotated"],
    [2, "key-rotated"],
    [3, "no-session"],
    [4, "wrong-key"],
  ]);
  assert.deepEqual([told(1), told(2), told(5)], [["error"], ["error"], ["done"]]);
  assert.equal(engine.asked.length, 1);
});

test("a key that is rotated while a proof of the old one is checked lets nothing through", async () => {
  const session = hello();
  const isChecking = nextHash();
  send(signed(session, 1, chat()));
  await isChecking;
  core.setKey(newBridgeKey());
  await settle();
  assert.deepEqual(errors(), [[1, "key-rotated"]]);
  assert.equal(engine.asked.length, 0);
});

test("a message that is sent again is refused, also in a later session", async () => {
  const session = hello();
  const message = signed(session, 3, chat());
  send(message);
  send(message);
  await settle();
  send(signed(session, 2, chat()));
  const other = newPort();
  send(message, other);
  await settle();
  assert.deepEqual(errors(), [
    [null, "replayed"],
    [null, "replayed"],
  ]);
  assert.deepEqual(told(3), ["chunk", "chunk", "chunk", "done"], "the first one is answered all the same");
  assert.deepEqual(errors(other), [[3, "no-session"]], "a session belongs to its source");
  core.sendAway(() => true, new BridgeError("moved", "x"));
  send(message);
  await settle();
  assert.deepEqual(errors().at(-1), [3, "no-session"]);
  assert.equal(engine.asked.length, 1);
});

test("what is malformed or too large is told, and what is no message of the bridge is ignored", async () => {
  const session = hello();
  const before = port.said.length;
  for (const data of [null, 5, "x", [], {}, { fanlightBridge: 1 }, { fanlightBridge: 1, client: "a b" }])
    core.receive(port.source, data);
  send({ type: "chunk", seq: 1 });
  assert.equal(port.said.length, before);
  const good = signed(session, 1, { method: "ping" });
  const bad = [
    { type: "shout" },
    { type: {} },
    { type: "hello", fanlightBridge: 2 },
    { ...good, session: "x" },
    { ...good, seq: 0 },
    { ...good, seq: 1.5 },
    { ...good, seq: "1" },
    { ...good, proof: undefined },
    { ...good, body: {} },
    { type: "take", session, seq: 1, count: -1 },
  ];
  for (const message of bad) send(message);
  assert.equal(errors().length, bad.length);
  assert.ok(errors().every(([, code]) => code === "malformed"));
  const bodies = ["{", "null", "[]", '"x"', '{"method":"run"}', '{"method":"cancel"}', "[".repeat(100_000)];
  bodies.push('{"method":"chat.completions","request":[]}');
  bodies.forEach((body, index) => send(signed(session, 10 + index, body)));
  await settle();
  assert.deepEqual(
    errors().slice(bad.length),
    bodies.map((_, index) => [10 + index, "malformed"]),
  );
  send({ ...good, seq: 99, body: "x".repeat(limits.REQUEST_CHARS_MAX + 1) });
  assert.deepEqual(errors().at(-1), [99, "too-large"]);
  assert.equal(engine.asked.length, 0);
});

test("a flood of requests is refused, and a flood of anything is answered with silence", async () => {
  const session = hello();
  const flood = limits.REQUESTS_BURST + 200;
  for (let seq = 1; seq <= flood; seq += 1) send(signed(session, seq, { method: "ping" }));
  await settle();
  const done = port.said.filter(({ type }) => type === "done").length;
  assert.equal(done, limits.REQUESTS_BURST);
  assert.ok(errors().every(([, code]) => code === "too-many-requests"));
  assert.equal(errors().length, limits.WORDS_BURST - 1, "one word was the greeting");
  assert.ok(port.said.at(-1).error?.retryAfterMs > 0 || port.said.at(-1).type === "done");
  for (let round = 0; round < 1000; round += 1) send({ type: "hello", client: `flood-${round}` });
  assert.equal(port.said.filter(({ type }) => type === "ready").length, 1);
  assert.ok(core.status.clients <= limits.PEERS_MAX);
  nowMs += 1000;
  send(signed(session, flood + 1, { method: "ping" }));
  await settle();
  assert.deepEqual(told(flood + 1), ["done"], "later it is heard again");
});

test("large requests that come faster than they are checked are refused", async () => {
  const session = hello();
  const long = JSON.stringify({ method: "ping", more: "x".repeat(limits.REQUEST_CHARS_MAX - 100) });
  for (let seq = 1; seq <= 4; seq += 1) send(signed(session, seq, long));
  while (port.said.length < 5) await settle();
  assert.deepEqual(errors(), [
    [3, "too-many-requests"],
    [4, "too-many-requests"],
  ]);
});

test("requests in flight and clients at a time are limited; idle clients make room", async () => {
  let release;
  engine.hold = new Promise((go) => (release = go));
  const max = limits.REQUESTS_IN_FLIGHT_MAX;
  const first = hello(port, "a");
  for (let seq = 1; seq <= max + 1; seq += 1) send(signed(first, seq, chat(), { client: "a" }));
  await settle();
  assert.deepEqual(errors(), [[max + 1, "too-many-requests"]]);
  for (let count = 1; count < limits.PEERS_MAX; count += 1) {
    nowMs += 1000;
    send(signed(hello(port, `b${count}`), 1, chat(), { client: `b${count}` }));
  }
  await settle();
  assert.equal(core.status.clients, limits.PEERS_MAX);
  nowMs += 1000;
  send({ type: "hello", client: "late" });
  assert.deepEqual(errors().at(-1), [null, "too-many-peers"]);
  release();
  await settle();
  hello(port, "late");
  assert.equal(core.status.clients, limits.PEERS_MAX - 1);
});

test("cancel ends a reply with its error, and a client that takes nothing is given up", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  engine.words = Array.from({ length: 100 }, (_, index) => `w${index}`);
  const session = hello();
  send(signed(session, 1, chat()));
  await settle();
  const sent = () => told(1).length;
  assert.equal(sent(), 16, "it waits until chunks are taken");
  send({ type: "take", session, seq: 1, count: 10 });
  send({ type: "take", session, seq: 1, count: 999 });
  send({ type: "take", session, seq: 1, count: 2 });
  await settle();
  assert.equal(sent(), 26);
  send(signed(session, 2, { method: "cancel", target: 1 }));
  await settle();
  assert.deepEqual(errors(), [[1, "cancelled"]]);
  assert.deepEqual(port.said.at(-1).result, { cancelled: true });
  send(signed(session, 3, { method: "cancel", target: 1 }));
  send(signed(session, 4, chat()));
  await settle();
  assert.deepEqual(port.said.find(({ seq }) => seq === 3).result, { cancelled: false });
  mock.timers.tick(limits.TAKE_TIMEOUT_MS);
  await settle();
  assert.deepEqual(errors().at(-1), [4, "client-gone"]);
  assert.equal(core.status.running, 0);
});

test("B5: what a client asked for ends when it says good-bye, or is silent for too long", async () => {
  mock.timers.enable({ apis: ["setInterval"] });
  engine.hold = new Promise(() => {});
  const session = hello();
  send(signed(session, 1, chat()));
  await settle();
  for (const [gone, left] of [["A".repeat(22), 1], [session, 0]]) {
    send({ type: "bye", session: gone });
    await settle();
    assert.equal(core.status.running, left, "of its own session only");
  }
  const again = hello(port, "client-2");
  send(signed(again, 1, chat(), { client: "client-2" }));
  const pass = (ms) => mock.timers.tick(ms, (nowMs += ms));
  for (const seq of [2, 3]) {
    await settle();
    pass(limits.CLIENT_SILENT_MS - 1);
    assert.equal(core.status.running, 1, "it asks whether the bridge is there");
    send(signed(again, seq, { method: "ping" }, { client: "client-2" }));
  }
  await settle();
  pass(2 * limits.CLIENT_SILENT_MS);
  assert.equal(errors().at(-1)[1], "client-gone");
});

test("K03, B3: every client's replies are in a scope of their own", async () => {
  const clients = [CLIENT, "client-2"];
  const scopes = clients.map((client) => hello(port, client));
  scopes.forEach((session, at) => send(signed(session, 1, chat(), { client: clients[at] })));
  await settle();
  assert.deepEqual(engine.scopes, scopes);
});

test("off, without a model, and failing engines are told by their codes", async () => {
  const session = hello();
  engine.model = null;
  send(signed(session, 1, chat()));
  await settle();
  engine.model = { name: "x", contextLength: 1 };
  send(signed(session, 2, chat({ fails: true })));
  engine.hold = new Promise(() => {});
  send(signed(session, 3, chat()));
  await settle();
  core.setKey(null);
  send({ type: "hello" });
  assert.deepEqual(errors(), [
    [1, "no-model"],
    [2, "busy"],
    [3, "not-enabled"],
    [null, "not-enabled"],
  ]);
});

test("hostile origins are refused by what the browser says, and answers go to exact origins", async () => {
  const [parent, opener, stranger] = [fakeWindow(), fakeWindow(), fakeWindow()];
  let listen;
  const listening = { addEventListener: (_, to) => (listen = to), removeEventListener: () => {} };
  const host = { ...fakeWindow(), ...listening, parent, opener };
  const door = new WindowDoor(core, new Set(["https://good.example"]), host);
  const hear = (source, origin, message) =>
    listen({ source, origin, data: { fanlightBridge: 1, client: CLIENT, ...message } });
  hear(stranger, "https://good.example", { type: "hello" });
  hear(host, "https://good.example", { type: "hello" });
  hear(parent, "null", { type: "hello" });
  assert.equal(stranger.posted.length + parent.posted.length, 0);
  hear(parent, "https://good.example", { type: "hello" });
  const { session } = parent.posted[0].event;
  // Another origin that has overheard the session gets nothing by it, nor by a claim.
  const message = signed(session, 1, { method: "ping" });
  for (const origin of ["https://evil.example", "http://good.example", "https://good.example.evil.example"])
    hear(opener, origin, { ...message, origin: "https://good.example" });
  await settle();
  assert.deepEqual(
    opener.posted.map(({ event, origin }) => [event.error?.code, origin]),
    [
      ["origin-not-allowed", "https://evil.example"],
      ["origin-not-allowed", "http://good.example"],
      ["origin-not-allowed", "https://good.example.evil.example"],
    ],
  );
  // A page that nobody frames is its own parent.
  host.parent = host;
  hear(host, "https://good.example", { type: "hello" });
  host.parent = parent;
  for (let round = 0; round < 500; round += 1) hear(opener, "https://evil.example", { type: "hello" });
  assert.ok(opener.posted.length <= 3 + limits.WORDS_BURST + limits.WORDS_PER_SECOND);
  hear(opener, "https://good.example", message);
  hear(parent, "https://good.example", message);
  await settle();
  assert.equal(opener.posted.at(-1).event.error.code, "no-session");
  const { event, origin: to } = parent.posted.at(-1);
  assert.deepEqual([event.type, to], ["done", "https://good.example"]);
  engine.hold = new Promise(() => {});
  hear(parent, "https://good.example", signed(session, 2, chat()));
  await settle();
  door.setOrigins(new Set());
  assert.equal(parent.posted.at(-1).event.error.code, "origin-not-allowed");
  assert.equal(host.posted.length, 0);
  assert.ok([...parent.posted, ...opener.posted].every(({ origin }) => origin !== "*"));
});

test("origins are exact, and what is none is refused with a reason", () => {
  const good = {
    "https://App.Example": "https://app.example",
    " https://app.example:443/ ": "https://app.example",
    "http://localhost:3000": "http://localhost:3000",
    "http://[::1]:8080": "http://[::1]:8080",
  };
  for (const [typed, origin] of Object.entries(good)) assert.equal(parseOrigin(typed), origin);
  const bad = {
    "*": /exact/,
    "https://*.example": /exact/,
    "": /give an origin/,
    "app.example": /give an origin/,
    "https://a.example/page": /give https:\/\/a\.example/,
    "https://a.example?x": /ends after host/,
    "https://me:pass@a.example": /no name and password/,
    "http://a.example": /only https/,
    "http://localhost.evil.example": /only https/,
    "file:///x": /ends after|only https/,
    "javascript://a": /only https|ends after/,
    null: /give an origin/,
  };
  for (const [typed, why] of Object.entries(bad)) {
    const isTold = ({ code, message }) => code === "request" && why.test(message);
    assert.throws(() => parseOrigin(typed), isTold, typed);
  }
  const many = Array.from({ length: limits.ORIGINS_MAX + 1 }, (_, index) => `https://a${index}.example`);
  assert.throws(() => parseOrigins(many), /at most 32/);
  assert.equal(parseOrigins(["https://a.example", "https://A.example/"]).size, 1);
});

test("of two tabs one answers: the one that loaded last, then the next in the line", async () => {
  const locks = new Locks();
  const tabs = ["one", "two"].map((name) => {
    const own = new Engine();
    own.model.name = name;
    const tab = new BridgeCore(own, key);
    return { own, door: new ChannelDoor(tab, locks, () => {}) };
  });
  await settle();
  const client = await connectBridge({ key });
  assert.equal((await client.ping()).model.name, "one");
  const open = () => tabs.map(({ door }) => door.isOpen);
  assert.deepEqual(open(), [true, false]);
  // What runs is told, and the next request finds the other tab by itself.
  tabs[0].own.hold = new Promise(() => {});
  const lost = client.chat.completions.create({ messages: [], stream: true }).catch(({ code }) => code);
  while (tabs[0].own.asked.length === 0) await settle();
  tabs[1].door.take();
  assert.equal(await lost, "moved");
  assert.deepEqual(open(), [false, true]);
  assert.equal((await client.ping()).model.name, "two");
  tabs[1].door.close();
  assert.equal((await client.ping()).model.name, "one");
  client.close();
  tabs[0].door.close();
});

test("a page that may have no locks does not stand in the line for ever", async () => {
  let asked = 0;
  const request = () => {
    asked += 1;
    return Promise.reject(new DOMException("a sandbox", "SecurityError"));
  };
  const door = new ChannelDoor(core, { request }, () => {});
  await settle();
  assert.deepEqual([asked, door.isOpen], [1, false]);
});

test("the client reads as it likes, leaves, aborts and is told what went wrong", async () => {
  engine.words = Array.from({ length: 60 }, (_, index) => `w${index}`);
  const door = new ChannelDoor(core, new Locks(), () => {});
  await settle();
  const client = await connectBridge({ key });
  const create = (more, how) => client.chat.completions.create({ messages: [], ...more }, how);
  assert.deepEqual(await create({}), { words: engine.words });
  const words = [];
  for await (const { word } of await create({ stream: true })) words.push(word);
  assert.deepEqual(words, engine.words);
  for await (const { word } of await create({ stream: true })) if (word === "w3") break;
  const aborting = new AbortController();
  engine.hold = new Promise(() => {});
  const aborted = create({ stream: true }, { signal: aborting.signal });
  while (core.status.running === 0) await settle();
  aborting.abort(new Error("enough"));
  await assert.rejects(aborted, /enough/);
  while (core.status.running > 0) await settle();
  const both = await Promise.allSettled([create({ fails: true }), client.ready()]);
  assert.deepEqual([both[0].reason?.code, both[1].value?.model.name], ["busy", "tiny"]);
  const left = create({ stream: true });
  while (core.status.running === 0) await settle();
  client.close();
  await assert.rejects(left, { code: "closed" });
  while (core.status.running > 0) await settle();
  await assert.rejects(client.ping(), { code: "closed" });
  await assert.rejects(connectBridge({ key: newBridgeKey() }), { code: "wrong-key" });
  core.setKey(null);
  await assert.rejects(connectBridge({ key }), { code: "not-enabled" });
  door.close();
  await assert.rejects(connectBridge({ key, timeoutMs: 60 }), { code: "no-answer" });
  await assert.rejects(connectBridge({ key, window: fakeWindow(), origin: "*" }), { code: "malformed" });
});
