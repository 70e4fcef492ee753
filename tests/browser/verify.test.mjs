// The proof on the visitor's device: every pair of pipelines agrees in every bit, also through the
// browser's compiler.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { temporaryFolder } from "./files.mjs";
import { stage, Visit } from "./harness.mjs";

/** Several hundred pipelines, each compiled for a processor: minutes, and more beside other work. */
const PATIENCE_MS = 900_000;
let on;

before(async () => { on = await stage(temporaryFolder()); });
after(async () => on?.close());

test("all pipeline pairs are bit-equal on the page's adapter", async () => {
  const visit = await Visit.open(on, "?verify");
  const verdict = visit.page.locator("#verdict");
  await visit.page.locator("#verdict[data-differences], #alert:visible").first()
    .waitFor({ timeout: PATIENCE_MS });
  assert.equal(await visit.page.locator("#alert").isVisible(), false, "the check ran to its end");
  const text = await verdict.innerText();
  const compared = Number(/All (\d+) comparisons agree/.exec(text)?.[1]);
  assert.ok(compared > 250, text);
  assert.deepEqual(visit.errors, []);
});
