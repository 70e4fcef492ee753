// The server of the page, as strangers and typing errors meet it. No browser is needed.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";

import { temporaryFolder } from "./files.mjs";
import { pageServer } from "../../host-web/serve.mjs";

const PROGRAM = fileURLToPath(new URL("../../host-web/serve.mjs", import.meta.url));
const folder = temporaryFolder();
let server;
let port;

before(async () => {
  fs.writeFileSync(path.join(folder, "index.html"), "page");
  fs.writeFileSync(path.join(folder, "tiny.gguf"), "GGUF");
  fs.writeFileSync(path.join(folder, ".env"), "secret");
  fs.writeFileSync(path.join(folder, "notes.txt"), "secret");
  server = pageServer({ "/": folder, "/models/": folder });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  ({ port } = server.address());
});
after(() => server.close());

/** The status that a request gets, written as it is. */
function ask(target, host = `127.0.0.1:${port}`) {
  return new Promise((answered, failed) => {
    const socket = net.connect(port, "127.0.0.1", () => {
      socket.write(`GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    });
    let text = "";
    socket.on("data", (bytes) => {
      text += bytes;
    });
    socket.on("end", () => answered(Number(/^HTTP\/1.1 (\d+)/.exec(text)?.[1])));
    socket.on("error", failed);
  });
}

test("W09: a target that is no path is refused, and the server goes on", async () => {
  for (const target of ["//", "//evil.example/x", "http://[", "*"])
    assert.equal(await ask(target), 400, target);
  assert.equal(await ask("/%zz"), 404);
  assert.equal(await ask("/index.html"), 200);
});

test("W09, B7: only this computer's names are answered, and only models of the models' folder", async () => {
  assert.equal(await ask("/index.html", "rebind.evil"), 403);
  assert.equal(await ask("/index.html", "localhost"), 200);
  assert.equal(await ask("/models/tiny.gguf"), 200);
  for (const name of [".env", "notes.txt", "..%2findex.html", "x/.hidden.gguf"])
    assert.equal(await ask(`/models/${name}`), 404, name);
});

test("W09: what cannot work is said in one sentence", () => {
  const run = (...given) => {
    const { status, stderr } = spawnSync(process.execPath, [PROGRAM, ...given], { encoding: "utf8" });
    return [status, stderr.trim()];
  };
  const taken = `port ${port} is in use: give another with --port`;
  assert.deepEqual(run("--check", "--port", String(port)), [1, taken]);
  const [status, text] = run("--check", "--models", folder, "--default", "absent.gguf");
  assert.deepEqual([status, text.split("\n").length], [1, 1], text);
  assert.match(text, /no such GGUF file/);
  assert.match(run("--prot", "8080")[1], /--prot[^]*usage:/);
  assert.deepEqual(run("--check", "--port", "0"), [0, ""]);
});
