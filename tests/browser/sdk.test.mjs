// The SDK on one page with one engine: what it promises of loading, replies, stopping and text.

import assert from "node:assert/strict";
import path from "node:path";
import { after, before, test } from "node:test";

import { bundled, nativeReply, synthetic, temporaryFolder } from "./files.mjs";
import { SdkVisit, stage } from "./harness.mjs";
import { keptTests } from "./kept.mjs";

const folder = temporaryFolder();
const PROMPT = "the light of the house";
let on;
let model;
let url;
let visit;

before(async () => {
  model = synthetic(folder, "tiny-llama", "q8_0");
  url = `/models/${path.basename(model)}`;
  bundled(folder, "openai.js", 'export { default } from "openai";');
  on = await stage(folder);
  visit = await SdkVisit.open(on);
  // Batches as visitors have them.
  visit.how = { contextLength: 512 };
});
after(async () => on?.close());

const inWorker = (work, argument) => visit.page.workers()[0].evaluate(work, argument);

test("a model is looked into before it is loaded", async () => {
  const inspection = await visit.run((from) => engine.inspect(from, { contextLength: 512 }), url);
  assert.equal(inspection.architecture, "llama");
  assert.equal(inspection.plan.contextLength, 512);
  assert.ok(inspection.plan.gpuBytes > inspection.plan.weightBytes + inspection.plan.kvBytes);
  assert.equal(inspection.problem, null);
  const early = await visit.run(() => outcome(engine.generate({ prompt: "x" }).text()));
  assert.equal(early.code, "no-model");
  const { value } = await visit.load(url);
  assert.equal(value.gpuBytes, inspection.plan.gpuBytes, "the plan is what was taken");
  assert.equal(value.name, "tiny llama");
});

test("a reply has the ids of the command line, and its events add up", async () => {
  const { ids, text, last, seqs } = await visit.reply(PROMPT, { maxTokens: 24 });
  const native = nativeReply(model, PROMPT, { tokens: 24, raw: true });
  assert.deepEqual(ids, native.output_ids);
  assert.equal(text, native.text);
  assert.deepEqual(
    seqs,
    seqs.map((_, index) => index),
  );
  assert.equal(last.type, "done");
  assert.equal(last.reason, "length");
  const { stats } = last;
  assert.equal(stats.tokens, 24);
  assert.equal(stats.contextLength, 512);
  assert.ok(
    stats.firstTokenMs > 0 && stats.tokensPerSecond > 0 && stats.prefillMs > 0 && stats.tokensPerStep === 1,
  );
  const plan = await visit.run(() => engine.model.plan);
  assert.deepEqual([stats.kvBytes, stats.peakGpuBytes], [plan.kvBytes, plan.gpuBytes], "as planned");
  assert.equal(stats.prefilledTokens, stats.promptTokens);
  const whole = await visit.run(
    (prompt) => engine.generate({ prompt, parseSpecial: true }, { maxTokens: 24 }).text(),
    PROMPT,
  );
  assert.equal(whole, native.text);
  const narrow = await visit.run(() => outcome(engine.generate({ prompt: "x" }, { width: 3 }).text()));
  assert.match(narrow.message, /width 3 is out of range/);
  const framed = { maxTokens: 8, frameBudgetMs: 8, width: "off", memory: "conversation" };
  assert.deepEqual((await visit.reply(PROMPT, framed)).ids, native.output_ids.slice(0, 8));
  const none = await visit.run(() => outcome(engine.generate({ prompt: "x" }, { frameBudgetMs: 0 }).text()));
  assert.equal(none.code, "request");
});

test("f01, f02: stop texts are cut exactly, and nothing is said twice", async () => {
  const plain = await visit.reply(PROMPT, { maxTokens: 24 });
  const at = Math.floor(plain.text.length / 2);
  const stop = plain.text.slice(at, at + 3);
  const cut = await visit.reply(PROMPT, { maxTokens: 24, stop: [stop, "never said here"] });
  assert.equal(cut.text, plain.text.slice(0, plain.text.indexOf(stop)));
  assert.equal(cut.last.reason, "stop");
  // Of two where one begins the other, the shorter ends it; one that goes on as the reply does not holds
  // nothing back for good.
  const both = await visit.reply(PROMPT, { maxTokens: 24, stop: [stop, stop.slice(0, 2)] });
  assert.equal(both.text, plain.text.slice(0, plain.text.indexOf(stop.slice(0, 2))));
  const missed = await visit.reply(PROMPT, { maxTokens: 24, stop: `${plain.text.slice(0, 2)}\u0000` });
  assert.equal(missed.text, plain.text);
  const refused = await visit.run(() => outcome(engine.generate({ prompt: "x" }, { stop: [""] }).text()));
  assert.equal(refused.code, "request");
});

test("text and ids go both ways, and half characters are never shown", async () => {
  const text = "the light — ж 😀";
  const found = await visit.run(async (said) => {
    const ids = await engine.tokenize(said);
    const pieces = await events(engine.generate({ prompt: said }, { maxTokens: 24 }));
    return {
      ids: [...ids],
      again: await engine.detokenize(ids),
      count: await engine.countTokens(said),
      broken: pieces.filter((event) => event.type === "text" && !event.delta.isWellFormed()).length,
    };
  }, text);
  assert.equal(found.again, text);
  assert.equal(found.count, found.ids.length);
  assert.equal(found.broken, 0);
  const chat = await visit.run(() => engine.countTokens([{ role: "user", content: "hi" }]));
  assert.ok(chat > 1, "the template counts");
});

test("e08: leaving the loop, stopping and aborting each end a reply, and the next one works", async () => {
  const found = await visit.run(async () => {
    const long = { maxTokens: 400 };
    const turns = [{ role: "user", content: "the light ".repeat(30) }];
    const seen = {};
    await engine.stop();
    for await (const event of engine.generate(turns, long)) if (event.type === "token") break;
    // Before anything of it was evaluated, then while it is.
    const early = engine.generate(turns, long);
    await early.stop();
    seen.early = (await events(early)).at(-1).reason;
    await engine.reset();
    const prefill = new AbortController();
    const reading = engine.generate(turns, { ...long, signal: prefill.signal });
    prefill.abort();
    seen.prefill = await outcome(reading.text());
    const decode = new AbortController();
    const all = [];
    seen.decode = await outcome(
      (async () => {
        for await (const event of engine.generate(turns, { ...long, signal: decode.signal })) {
          all.push(event.type);
          if (event.type === "token") decode.abort();
        }
      })(),
    );
    seen.last = all.at(-1);
    const stopped = engine.generate(turns, long);
    const reader = stopped.getReader();
    for (;;) if ((await reader.read()).value.type === "token") break;
    await Promise.all([stopped.stop(), engine.stop()]);
    reader.releaseLock();
    seen.stopped = (await events(stopped)).at(-1).reason;
    const started = performance.now();
    seen.next = (await engine.generate([{ role: "user", content: "hi" }], { maxTokens: 2 }).text()).length;
    seen.ms = performance.now() - started;
    return seen;
  });
  assert.equal(found.early, "cancelled");
  assert.equal(found.prefill.code, "AbortError");
  assert.equal(found.decode.code, "AbortError");
  assert.equal(found.last, "error", "the failure is told before it is thrown");
  assert.equal(found.stopped, "cancelled");
  assert.ok(found.next > 0);
});

test("e09: replies asked for at once wait for each other and do not mix", async () => {
  const found = await visit.run(async (from) => {
    const ask = (content) => engine.generate([{ role: "user", content }], { maxTokens: 12 }).text();
    const apart = [await ask("one"), await ask("two"), await ask("three")];
    const together = await Promise.all([ask("one"), ask("two"), ask("three")]);
    // A load in between takes its turn, too.
    const loading = engine.load(from, { contextLength: 256 });
    const between = [await ask("one")];
    await loading;
    between.push(await ask("three"));
    await engine.load(from, { contextLength: 512 });
    return { apart, together, between };
  }, url);
  assert.deepEqual(found.between, [found.apart[0], found.apart[2]]);
  assert.deepEqual(found.together, found.apart);
});

test("e11: a reader that pauses holds the engine up, and nothing piles up", async () => {
  const { next } = await visit.run(() => engine.snapshot());
  await visit.hold("the light", { maxTokens: 300 });
  const ahead = await visit.run(async (after) => {
    const decoded = async () => {
      const { samples } = await engine.snapshot(after);
      return samples.reduce((sum, { what, tokens }) => sum + (what === "window" ? tokens : 0), 0);
    };
    // It goes on until there is no room for more; then nothing changes, however long one waits.
    let [before, now] = [-1, await decoded()];
    while (now !== before) {
      await new Promise((done) => setTimeout(done, 500));
      [before, now] = [now, await decoded()];
    }
    return now;
  }, next);
  assert.ok(ahead > 0 && ahead < 120, `${ahead} tokens had piled up`);
  assert.equal((await visit.readOn()).ids.length, 300, "and goes on where it was");
});

test("f07: limits are told with both numbers, also for the longest message", async () => {
  const found = await visit.run(async () => {
    const ask = (content) => outcome(engine.generate([{ role: "user", content }], { maxTokens: 1 }).text());
    return [
      await ask("a".repeat(1_048_576)),
      await ask("a".repeat(1_048_577)),
      await ask("light ".repeat(600)),
      await outcome(engine.generate({ prompt: "x" }, { maxTokens: 0 }).text()),
      await outcome(engine.generate({ prompt: "x" }, { maxTokens: 1.5 }).text()),
      await outcome(engine.generate([]).text()),
    ];
  });
  assert.equal(found[0].code, "prompt-too-long");
  assert.match(found[1].message, /1048577 characters, at most 1048576/);
  assert.match(found[2].message, /has \d+ tokens, the context holds 512/);
  assert.match(found[3].message, /limit of 0 tokens/);
  assert.equal(found[4].code, "request");
  assert.equal(found[5].code, "request");
});

test("f07: a full context ends a reply with length", async () => {
  await visit.load(url, { contextLength: 256 });
  const { last } = await visit.reply("light ".repeat(60), { maxTokens: 250 });
  assert.equal(last.reason, "length");
  assert.ok(last.stats.tokens < 250, `${last.stats.tokens} tokens`);
  assert.ok(last.stats.promptTokens + last.stats.tokens >= 256);
  await visit.load(url);
});

test("f05: the same prompt gives the same reply, cold, warm and after others", async () => {
  const one = await visit.reply(PROMPT, { maxTokens: 10 });
  await visit.reply(`${PROMPT} and more`, { maxTokens: 10 });
  const two = await visit.reply(PROMPT, { maxTokens: 10 });
  await visit.run(() => engine.reset());
  const cold = await visit.reply(PROMPT, { maxTokens: 10 });
  assert.ok(two.last.stats.reusedTokens > 0 && cold.last.stats.reusedTokens === 0);
  assert.deepEqual(two.ids, one.ids);
  assert.deepEqual(cold.ids, one.ids);
  // Measured when the first reply with such options was over.
  assert.equal(typeof two.last.stats.samplingUs, "number");
  await visit.run(() => engine.reset());
  await visit.run((prompt) => engine.prewarm({ prompt, parseSpecial: true }), PROMPT);
  const warm = await visit.reply(PROMPT, { maxTokens: 10 });
  assert.ok(warm.last.stats.reusedTokens > 0, "evaluated ahead");
  assert.deepEqual(warm.ids, one.ids);
});

test("f06, f08: an equal seed gives an equal reply, and impossible values are refused", async () => {
  const found = await visit.run(async () => {
    const ask = (options) => engine.generate({ prompt: "the light" }, { maxTokens: 12, ...options }).text();
    const drawn = { temperature: 2, seed: 42 };
    await engine.reset();
    const same = [await ask(drawn), await ask(drawn)];
    await engine.reset();
    same.push(await ask(drawn));
    const others = [
      await ask({ temperature: 2 }),
      await ask({ temperature: 2 }),
      await ask({ ...drawn, seed: 0 }),
    ];
    const greedy = [await ask({}), await ask({ temperature: 0, topK: 0, topP: 1, seed: 3 })];
    const first = async (options) => {
      const all = await events(engine.generate({ prompt: "the light" }, { maxTokens: 1, ...options }));
      return all.find(({ type }) => type === "token").ids[0];
    };
    const likely = await first({});
    const banned = [likely, await first({ logitBias: { [likely]: -10_000 } })];
    const wrong = [
      { temperature: -1 },
      { temperature: Number.NaN },
      { topP: 1.5 },
      { topK: -1 },
      { minP: 2 },
      { repeatPenalty: 0 },
      { seed: -1 },
      { seed: 2 ** 53 },
      { logitBias: { x: 1 } },
    ];
    const refused = [];
    for (const options of wrong) refused.push((await outcome(ask(options))).code);
    return { same, others, greedy, banned, refused };
  });
  assert.equal(new Set(found.same).size, 1);
  assert.equal(new Set([...found.others, found.same[0]]).size, 4);
  assert.equal(found.greedy[0], found.greedy[1]);
  assert.notEqual(found.banned[0], found.banned[1]);
  assert.ok(
    found.refused.every((code) => code === "request"),
    found.refused.join(" "),
  );
});

keptTests(() => ({ visit, url, inWorker }));

test("what a model may take is planned, and refused where it cannot be met", async () => {
  const found = await visit.run(async (from) => {
    const look = (options) => outcome(engine.inspect(from, { contextLength: 512, ...options }));
    const [lite, small, both] = [
      await look({ preset: "lite" }),
      await look({ budgetMiB: 1 }),
      await look({ preset: "lite", budgetMiB: 100 }),
    ];
    return { lite: lite.value.plan, small: small.value.problem?.code, both: both.code };
  }, url);
  assert.equal(found.lite.batchSize, 8);
  assert.equal(found.lite.isStreamed, false);
  assert.equal(found.small, "gpu-memory");
  assert.equal(found.both, "request");
});

test("the client of OpenAI's own package is served without a network", async () => {
  const found = await visit.run(async () => {
    const { default: OpenAI } = await import("/files/openai.js");
    const client = new OpenAI({
      apiKey: "none",
      baseURL: "https://engine.invalid/v1",
      dangerouslyAllowBrowser: true,
      maxRetries: 0,
      fetch: engine.fetch,
    });
    const request = {
      model: "tiny llama",
      max_tokens: 10,
      seed: 7,
      messages: [
        { role: "developer", content: "Be brief." },
        { role: "user", content: [{ type: "text", text: "the light" }] },
      ],
    };
    const whole = await client.chat.completions.create(request);
    let streamed = "";
    let usage = null;
    const roles = [];
    for await (const chunk of await client.chat.completions.create({
      ...request,
      stream: true,
      stream_options: { include_usage: true },
    })) {
      streamed += chunk.choices[0]?.delta.content ?? "";
      if (chunk.choices[0]?.delta.role) roles.push(chunk.choices[0].delta.role);
      usage = chunk.usage ?? usage;
    }
    const refused = await client.chat.completions
      .create({ ...request, tools: [{ type: "function", function: { name: "f" } }] })
      .catch((error) => ({ status: error.status, message: error.message }));
    const long = await client.chat.completions
      .create({ ...request, messages: [{ role: "user", content: "light ".repeat(600) }] })
      .catch((error) => ({ status: error.status, code: error.code }));
    const names = [];
    for await (const { id } of client.models.list()) names.push(id);
    return { whole, streamed, usage, roles, refused, long, names };
  });
  const [choice] = found.whole.choices;
  assert.equal(choice.message.content, found.streamed);
  assert.equal(choice.finish_reason, "length");
  assert.deepEqual([found.whole.usage.completion_tokens, found.usage.completion_tokens], [10, 10]);
  assert.deepEqual(found.roles, ["assistant"]);
  assert.equal(found.refused.status, 400);
  assert.match(found.refused.message, /tools/);
  assert.deepEqual([found.long.status, found.long.code], [400, "prompt-too-long"]);
  assert.deepEqual(found.names, ["tiny llama"]);
});

test("e12: 20 loads and unloads leave memory as it was, and reports of them are heard", async () => {
  const gpuBytes = () => inWorker(() => globalThis.gpuSeen.bytes);
  await visit.load(url);
  const before = await gpuBytes();
  const found = await visit.run(async (from) => {
    const heard = [];
    const leave = engine.subscribe((event) =>
      heard.push(event.type === "model" ? (event.model?.name ?? null) : event.type),
    );
    const bytes = [];
    for (let round = 0; round < 20; round += 1) {
      await engine.unload();
      await engine.load(from, { contextLength: 512 });
      bytes.push((await engine.stats()).wasmBytes);
    }
    leave();
    return { heard, bytes };
  }, url);
  assert.equal(found.bytes.at(-1), found.bytes[1], `${found.bytes}`);
  assert.deepEqual(found.heard.slice(-2), [null, "tiny llama"]);
  assert.equal(found.heard.length, 40);
  assert.equal(await gpuBytes(), before, "bytes of buffers");
  assert.ok((await visit.reply(PROMPT, { maxTokens: 4 })).ids.length > 0);
});

test("e10: 500 replies leave memory as it was", async () => {
  const seen = async () => {
    const { wasmBytes } = await visit.run(() => engine.stats());
    return [wasmBytes, await inWorker(() => [globalThis.gpuSeen.bytes, globalThis.gpuSeen.buffers])].flat();
  };
  const replies = (count) =>
    visit.run(async (times) => {
      for (let n = 0; n < times; n += 1) await engine.generate({ prompt: "the" }, { maxTokens: 2 }).text();
    }, count);
  await replies(20);
  const before = await seen();
  await replies(480);
  assert.deepEqual(await seen(), before, "bytes of memory, bytes of buffers, buffers");
});

test("nothing has left the page, and a disposed engine says so", async () => {
  assert.deepEqual(visit.foreign, []);
  assert.deepEqual(visit.errors, []);
  const found = await visit.run(async () => {
    const running = outcome(engine.generate({ prompt: "the light" }, { maxTokens: 400 }).text());
    engine.dispose();
    return [await running, await outcome(engine.inspect("/models/x.gguf"))];
  });
  assert.deepEqual(
    found.map(({ code }) => code),
    ["disposed", "disposed"],
  );
});
