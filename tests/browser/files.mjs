// The files that the tests hand to the page: synthetic models, damaged ones, real ones, and what the
// command line makes of the same prompt.

import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";

import { ROOT } from "./harness.mjs";

/** Runs a program of the workspace and returns what it prints. */
function runTool(packageName, binary, args) {
  // A folder of programs that are built already spares the question to cargo.
  const built = process.env.FANLIGHT_BINARIES;
  const [program, first] = built
    ? [path.join(built, binary), []]
    : ["cargo", ["run", "--quiet", "--locked", "--package", packageName, "--bin", binary, "--"]];
  const options = { cwd: ROOT, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"], maxBuffer: 1 << 26 };
  return execFileSync(program, [...first, ...args], options);
}

/** A folder that is removed when the process ends. */
export function temporaryFolder() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "fanlight-browser-"));
  process.on("exit", () => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/**
 * Writes a synthetic model and returns its path. Of one layer unless said otherwise: a processor takes a
 * millisecond and a half for every kernel of a step, however little it does.
 */
export function synthetic(folder, shape, type, layers = 1) {
  const file = path.join(folder, `${shape}-${type}.gguf`);
  const args = ["--shape", shape, "--type", type, "--layers", String(layers), "--out", file];
  runTool("fanlight-tests", "synth-gguf", args);
  return file;
}

/** What the command line answers, on the machine's own adapter: the last line of its report. */
export function nativeReply(model, prompt, { tokens, raw = false }) {
  const options = ["--prompt", prompt, "--max-tokens", String(tokens), "--json", "--device", "gpu"];
  const args = ["run", model, ...options];
  const lines = runTool("fanlight-native", "fanlight", raw ? [...args, "--raw"] : args)
    .trim()
    .split("\n");
  return JSON.parse(lines.at(-1));
}

/** Bundles a script that imports packages of host-web into one file, and returns its path. */
export function bundled(folder, name, script) {
  const esbuild = createRequire(path.join(ROOT, "host-web/package.json"))("esbuild");
  const outfile = path.join(folder, name);
  const stdin = { contents: script, resolveDir: path.join(ROOT, "host-web") };
  esbuild.buildSync({ stdin, outfile, bundle: true, format: "esm", platform: "browser", logLevel: "error" });
  return outfile;
}

/** A real model that `make fetch` brings. */
export function fetched(name) {
  const file = path.resolve(ROOT, process.env.FANLIGHT_MODELS ?? "models-cache", name);
  if (!fs.existsSync(file)) throw new Error(`${file} is not there: run make fetch`);
  return file;
}

/** A golden file of the other tests. */
export function golden(name) {
  return JSON.parse(fs.readFileSync(path.join(ROOT, "tests/goldens", name), "utf8"));
}

/** Writes a changed copy of a file. */
export function changed(folder, name, file, change) {
  const target = path.join(folder, name);
  fs.writeFileSync(target, change(fs.readFileSync(file)));
  return target;
}

/** The same header with the version in the other byte order. */
export function bigEndian(bytes) {
  const copy = Buffer.from(bytes);
  copy.writeUInt32BE(copy.readUInt32LE(4), 4);
  return copy;
}

/** The same file with the type id of one tensor replaced. */
export function withType(bytes, tensor, typeId) {
  const copy = Buffer.from(bytes);
  const name = Buffer.from(tensor);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(name.length));
  // A directory entry: length of the name, the name, count of dimensions, dimensions, type, offset.
  const entry = copy.indexOf(Buffer.concat([length, name]));
  if (entry < 0) throw new Error(`there is no tensor ${tensor}`);
  const dims = entry + 8 + name.length;
  copy.writeUInt32LE(typeId, dims + 4 + 8 * copy.readUInt32LE(dims));
  return copy;
}
