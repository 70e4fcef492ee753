// Ollama's client.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Ollama } from "ollama";

import { model, serve } from "./server.mjs";

const options = { temperature: 0, num_predict: 8 };
const asked = { model: "tiny", messages: [{ role: "user", content: "the sea", images: [] }], options };
let server, client;

before(async () => {
  server = await serve(model(), "--strict-model");
  client = new Ollama({ host: server.url });
});
after(() => server.close());

test("a chat and a prompt are answered whole and in lines", async () => {
  const whole = await client.chat({ ...asked, tools: [], think: false });
  assert.ok(whole.message.content.length > 0 && whole.done);
  assert.ok(whole.eval_count > 0 && whole.eval_duration > 0 && whole.prompt_eval_count > 0);
  let content = "";
  let last;
  for await (const line of await client.chat({ ...asked, stream: true })) {
    content += line.message.content;
    last = line;
  }
  assert.equal(content, whole.message.content);
  assert.deepEqual([last.done, last.done_reason], [true, whole.done_reason]);
  const generated = await client.generate({ model: "tiny", prompt: "the sea", options });
  assert.equal(generated.response, whole.message.content);
  const loaded = await client.generate({ model: "tiny", prompt: "" });
  assert.equal(loaded.done_reason, "load");
});

test("the model is told of as clients expect", async () => {
  const [entry] = (await client.list()).models;
  assert.equal(entry.name, "tiny");
  assert.ok(entry.size > 0 && entry.digest.length === 64);
  const shown = await client.show({ model: "tiny" });
  assert.equal(shown.model_info[`${shown.details.family}.context_length`], 512);
  assert.ok(shown.capabilities.includes("completion"));
  assert.equal((await client.ps()).models[0].context_length, 512);
});

test("what is not there is told in Ollama's words", async () => {
  const missing = await client.chat({ ...asked, model: "other" }).catch((error) => error);
  assert.equal(missing.status_code, 404);
  assert.match(missing.error, /model "other" not found, try pulling it first/u);
  const wide = { ...asked, options: { num_ctx: 100_000 } };
  const refused = await client.chat(wide).catch((error) => error);
  assert.match(refused.error, /100000.*512/u);
});
