// Runs the browser tests, two files at a time on two cores; the longest first, so that none of them ends
// alone.

import fs from "node:fs";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { fileURLToPath } from "node:url";

const LONGEST = ["verify.test.mjs", "smollm2.test.mjs"];

/** A file that takes longer hangs; the slowest takes some minutes. */
const FILE_MS = 20 * 60_000;

const here = new URL(".", import.meta.url);
const names = fs.readdirSync(here).filter((name) => name.endsWith(".test.mjs"));
const rest = names.filter((name) => !LONGEST.includes(name));
const files = [...LONGEST, ...rest].map((name) => fileURLToPath(new URL(name, here)));

run({ files, concurrency: 2, timeout: FILE_MS })
  .on("test:fail", () => {
    process.exitCode = 1;
  })
  .compose(new spec())
  .pipe(process.stdout);
