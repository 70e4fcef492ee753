// A synthetic model behind `fanlight serve`, for published clients.

import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** A program of the workspace: built already, or by cargo. */
function program(packageName, binary) {
  const built = process.env.FANLIGHT_BINARIES;
  if (built) return [path.join(built, binary), []];
  return ["cargo", ["run", "--quiet", "--locked", "--package", packageName, "--bin", binary, "--"]];
}

/** Writes a model of one layer into a folder that ends with the process. */
export function model() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "fanlight-clients-"));
  process.on("exit", () => fs.rmSync(folder, { recursive: true, force: true }));
  const file = path.join(folder, "tiny.gguf");
  const [command, first] = program("fanlight-tests", "synth-gguf");
  const args = ["--shape", "tiny-llama", "--type", "q8_0", "--layers", "1", "--out", file];
  execFileSync(command, [...first, ...args], { cwd: ROOT, stdio: ["ignore", "ignore", "inherit"] });
  return file;
}

/** Starts a server; resolves with its address when the model is loaded. `close` ends it. */
export async function serve(file, ...options) {
  const [command, first] = program("fanlight-native", "fanlight");
  const args = ["serve", file, "--port", "0", "--context", "512", ...options];
  const child = spawn(command, [...first, ...args], { cwd: ROOT, stdio: ["ignore", "pipe", "inherit"] });
  process.on("exit", () => child.kill("SIGKILL"));
  const ended = new Promise((resolve) => child.on("exit", resolve));
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.startsWith("http://127.0.0.1:")) continue;
    const close = () => {
      child.kill("SIGINT");
      return ended;
    };
    return { url: line, close };
  }
  throw new Error(`the server ended with ${await ended} before it was ready`);
}
