// Measures what brings weights to a GPU in a page, without the engine: reads of a picked file and of an
// address, one after the other and several at once, and the two ways to write a buffer.
//
//   node tests/browser/bench/transport.mjs --model FILE [--mib N] [--json] [--chromium PATH] [--flags "…"]
//
// Every figure is the median of five rounds. Without --flags (or FANLIGHT_BROWSER_FLAGS) the processor
// computes.

import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { pageServer } from "../../../host-web/serve.mjs";
import { launchLasting, PATIENCE_MS } from "../harness.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const ROUNDS = 5;

const { values: options } = parseArgs({
  options: {
    model: { type: "string" },
    mib: { type: "string", default: "256" },
    json: { type: "boolean", default: false },
    chromium: { type: "string" },
    flags: { type: "string" },
  },
});

/** Runs in the page: MiB per second of each way. */
async function measure([url, mib, rounds]) {
  const bytes = mib << 20;
  const median = async (once) => {
    const rates = [];
    for (let round = 0; round < rounds; round += 1) {
      const startMs = performance.now();
      await once();
      rates.push((1000 * mib) / (performance.now() - startMs));
    }
    return rates.sort((a, b) => a - b)[rounds >> 1];
  };
  /** Reads everything in pieces, so many at once. */
  const readAll = async (read, piece, lanes) => {
    let next = 0;
    const lane = async () => {
      while (next < bytes) {
        const at = next;
        next += piece;
        const { byteLength } = await read(at, Math.min(at + piece, bytes));
        if (byteLength !== Math.min(piece, bytes - at)) throw new Error(`${byteLength} bytes at ${at}`);
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
  };
  const [file] = document.querySelector("input").files;
  const fromFile = (start, end) => file.slice(start, end).arrayBuffer();
  const fromAddress = async (start, end) => {
    const headers = { Range: `bytes=${start}-${end - 1}` };
    return (await fetch(url, { headers, cache: "no-store" })).arrayBuffer();
  };
  const found = {};
  for (const [name, read] of [["file", fromFile], ["address", fromAddress]]) {
    for (const piece of [4 << 20, 16 << 20]) {
      for (const lanes of [1, 4]) {
        const key = `${name}, ${piece >> 20} MiB, ${lanes} at once`;
        found[key] = await median(() => readAll(read, piece, lanes));
      }
    }
  }
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
  const device = await adapter.requestDevice();
  const piece = 16 << 20;
  const source = new Uint8Array(piece).fill(7);
  const target = device.createBuffer({ size: piece, usage: GPUBufferUsage.COPY_DST });
  const pieces = bytes / piece;
  found["writeBuffer, 16 MiB"] = await median(async () => {
    for (let at = 0; at < pieces; at += 1) {
      device.queue.writeBuffer(target, 0, source);
      device.queue.submit([]);
      // As many on their way as the engine allows.
      if (at % 4 === 3) await device.queue.onSubmittedWorkDone();
    }
    await device.queue.onSubmittedWorkDone();
  });
  const usage = GPUBufferUsage.MAP_WRITE | GPUBufferUsage.COPY_SRC;
  const staging = Array.from({ length: 4 }, () =>
    device.createBuffer({ size: piece, usage, mappedAtCreation: true }));
  found["mapped staging, 16 MiB"] = await median(async () => {
    for (let at = 0; at < pieces; at += 1) {
      const buffer = staging[at % 4];
      if (buffer.mapState !== "mapped") await buffer.mapAsync(GPUMapMode.WRITE);
      new Uint8Array(buffer.getMappedRange()).set(source);
      buffer.unmap();
      const encoder = device.createCommandEncoder();
      encoder.copyBufferToBuffer(buffer, 0, target, 0, piece);
      device.queue.submit([encoder.finish()]);
    }
    await device.queue.onSubmittedWorkDone();
  });
  return found;
}

if (!options.model) throw new Error("--model FILE is missing");
const mib = Math.min(Number(options.mib), fs.statSync(options.model).size >> 20) & ~15;
if (!(mib > 0)) throw new Error("a file of at least 16 MiB, and --mib 16 or more, are needed");
const profile = fs.mkdtempSync(path.join(os.tmpdir(), "fanlight-bench-"));
const server = pageServer({ "/": HERE, "/models/": path.dirname(options.model) });
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const context = await launchLasting(profile, options);
try {
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.goto(`http://127.0.0.1:${server.address().port}/transport.html`);
  await page.locator("input").setInputFiles(options.model);
  const url = `/models/${encodeURIComponent(path.basename(options.model))}`;
  const found = await page.evaluate(measure, [url, mib, ROUNDS]);
  const line = ([way, rate]) => `${rate.toFixed(0).padStart(7)} MiB/s  ${way}`;
  console.log(options.json ? JSON.stringify(found) : Object.entries(found).map(line).join("\n"));
} finally {
  await context.close();
  server.close();
  server.closeAllConnections();
  fs.rmSync(profile, { recursive: true, force: true });
}
