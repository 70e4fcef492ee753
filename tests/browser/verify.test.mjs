// The proof on the visitor's device: pipelines agree in every bit also through the browser's compiler. A
// processor compiles for seconds here, so this is the cover: every kernel, format and token count occurs. The
// whole product is gpu/tests/selftest.rs's.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { temporaryFolder } from "./files.mjs";
import { ChatVisit, stage } from "./harness.mjs";

/** A hundred pipelines, each compiled for a processor: minutes, and more beside other work. */
const PATIENCE_MS = 900_000;
/** Thirteen formats in each of three kernels, and four forms of attention at each of four places. */
const COMPARED_MIN = 13 * 3 + 4 * 4;
let on;

before(async () => {
  on = await stage(temporaryFolder());
});
after(async () => on?.close());

test("the covering pipeline pairs are bit-equal on the page's adapter", async () => {
  const visit = await ChatVisit.open(on, "#check");
  await visit.page.locator("#check-cover:enabled").click();
  await visit.page.locator("#verdict, .notice.error").first().waitFor({ timeout: PATIENCE_MS });
  const text = await visit.page.locator("#verdict, .notice.error").first().innerText();
  const compared = Number(/All (\d+) comparisons agree/.exec(text)?.[1]);
  assert.ok(compared >= COMPARED_MIN, text);
  assert.deepEqual(visit.errors, []);
});
