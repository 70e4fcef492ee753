// A real model in the page: SmolLM2 through the file input, against the reference's own tokens.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { fetched, golden, temporaryFolder } from "./files.mjs";
import { stage, Visit } from "./harness.mjs";

const NAME = "smollm2-135m-instruct-q4_1.gguf";
/** Few: a processor computes. */
const TOKENS = 6;
/** Where the reference's first two candidates are closer, another order of sums may choose the other. */
const MARGIN_MIN = 0.5;
let on;

before(async () => { on = await stage(temporaryFolder()); });
after(async () => on?.close());

test("smollm2 continues the capital of France as the reference does", async () => {
  const { prompts } = golden(`generate.${NAME.replace(".gguf", "")}.json`);
  const { prompt, f32 } = prompts.find(({ name }) => name === "capital");
  const unsure = f32.steps.findIndex(({ margin }) => margin < MARGIN_MIN);
  const sure = Math.min(unsure < 0 ? TOKENS : unsure, TOKENS);
  assert.ok(sure >= 3, "the reference is sure of a few tokens");
  const visit = await Visit.open(on, "?context=512");
  const { card, alert } = await visit.pick(fetched(NAME));
  assert.match(card ?? alert, /134\.5 M/);
  assert.match(card, /Q4_1/);
  await visit.setting("tokens", TOKENS);
  await visit.setting("plain", true);
  const answer = await visit.ask(prompt);
  assert.equal(answer.ids.length, TOKENS);
  assert.deepEqual(answer.ids.slice(0, sure), f32.output_ids.slice(0, sure));
  assert.match(answer.text, /^ Paris/);
  assert.deepEqual(visit.errors, []);
});
