// OpenAI's client.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import OpenAI from "openai";

import { model, serve } from "./server.mjs";

const messages = [{ role: "user", content: "the sea" }];
const asked = { model: "gpt-4o-mini", messages, max_completion_tokens: 12, temperature: 0 };
let server, client;

before(async () => {
  server = await serve(model());
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
});
after(() => server.close());

test("a chat is answered whole and as a stream, with the same words", async () => {
  const whole = await client.chat.completions.create(asked);
  const [choice] = whole.choices;
  assert.equal(whole.model, "tiny");
  assert.ok(choice.message.content.length > 0);
  assert.ok(["stop", "length"].includes(choice.finish_reason));
  assert.ok(whole.usage.completion_tokens > 0 && whole.usage.completion_tokens <= 12);
  let content = "";
  let usage, reason;
  const options = { stream: true, stream_options: { include_usage: true } };
  for await (const chunk of await client.chat.completions.create({ ...asked, ...options })) {
    content += chunk.choices[0]?.delta.content ?? "";
    reason = chunk.choices[0]?.finish_reason ?? reason;
    usage = chunk.usage ?? usage;
  }
  assert.equal(content, choice.message.content);
  assert.equal(reason, choice.finish_reason);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
  assert.ok(usage.prompt_tokens_details.cached_tokens > 0, "the second reply finds its prompt in the cache");
});

test("several replies come, drawn by seeds that repeat", async () => {
  const drawn = { ...asked, temperature: 1, seed: 5, n: 2 };
  const [first, second] = [
    await client.chat.completions.create(drawn),
    await client.chat.completions.create(drawn),
  ];
  const texts = (completion) => completion.choices.map((choice) => choice.message.content);
  assert.equal(first.choices.length, 2);
  assert.deepEqual(texts(first), texts(second));
  assert.notEqual(...texts(first));
});

test("a text goes on, and models are listed", async () => {
  const echoed = { model: "x", prompt: "the sea", max_tokens: 4, echo: true };
  const completion = await client.completions.create(echoed);
  assert.ok(completion.choices[0].text.startsWith("the sea"));
  const listed = [];
  for await (const entry of client.models.list()) listed.push(entry.id);
  assert.deepEqual(listed, ["tiny"]);
  assert.equal((await client.models.retrieve("tiny")).context_length, 512);
});

test("a prompt that is too long has the code that clients look for", async () => {
  const long = [{ role: "user", content: "sea ".repeat(2000) }];
  const error = await client.chat.completions.create({ ...asked, messages: long }).catch((error) => error);
  assert.equal(error.status, 400);
  assert.equal(error.code, "context_length_exceeded");
});

test("a client that leaves in mid-stream does not hold up the next", async () => {
  const stream = await client.chat.completions.create({ ...asked, max_completion_tokens: 400, stream: true });
  for await (const chunk of stream) if (chunk.choices[0].delta.content) break;
  const started = performance.now();
  await client.chat.completions.create({ ...asked, max_completion_tokens: 1 });
  assert.ok(performance.now() - started < 20_000);
});
