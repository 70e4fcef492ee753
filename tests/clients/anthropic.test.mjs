// Anthropic's client.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import Anthropic from "@anthropic-ai/sdk";

import { model, serve } from "./server.mjs";

const asked = {
  model: "claude-x",
  max_tokens: 12,
  system: [
    { type: "text", text: "x-anthropic-billing-header: cc_version=1.2.3.4;" },
    { type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } },
  ],
  messages: [{ role: "user", content: "the sea" }],
};
let server, client;

before(async () => {
  server = await serve(model());
  client = new Anthropic({ baseURL: server.url, authToken: "none", apiKey: null, maxRetries: 0 });
});
after(() => server.close());

test("g05 a message is answered with counts that add up, and streamed", async () => {
  const { input_tokens: counted } = await client.messages.countTokens({ ...asked, max_tokens: undefined });
  const whole = await client.messages.create({ ...asked, temperature: 0 });
  const read = (usage) => usage.input_tokens + usage.cache_read_input_tokens;
  assert.equal(read(whole.usage), counted);
  assert.equal(whole.content[0].type, "text");
  assert.ok(["end_turn", "max_tokens"].includes(whole.stop_reason));
  const stream = client.messages.stream({ ...asked, temperature: 0 });
  let started;
  stream.on("streamEvent", (event) => (started = event.type === "message_start" ? event.message : started));
  const final = await stream.finalMessage();
  assert.equal(final.content[0].text, whole.content[0].text);
  assert.equal(final.stop_reason, whole.stop_reason);
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
  for (const usage of [started.usage, final.usage]) {
    assert.equal(read(usage), counted);
    assert.ok(usage.cache_read_input_tokens > 0);
  }
});

test("a stop sequence is named", async () => {
  const { content } = await client.messages.create({ ...asked, temperature: 0 });
  const [stop] = content[0].text.slice(3).match(/\S/u);
  const stopping = { ...asked, temperature: 0, stop_sequences: ["\u0000", stop] };
  const stopped = await client.messages.create(stopping);
  assert.deepEqual([stopped.stop_reason, stopped.stop_sequence], ["stop_sequence", stop]);
  assert.ok(!stopped.content[0].text.includes(stop));
});

test("errors have the shape and the words that clients look for", async () => {
  const long = { ...asked, messages: [{ role: "user", content: "sea ".repeat(2000) }] };
  const error = await client.messages.create(long).catch((error) => error);
  assert.ok(error instanceof Anthropic.BadRequestError, error);
  assert.match(error.error.error.message, /^prompt is too long: \d+ tokens > 512 maximum$/u);
  const page = await client.models.list();
  assert.deepEqual(page.data.map(({ id, type }) => [id, type]), [["tiny", "model"]]);
});
