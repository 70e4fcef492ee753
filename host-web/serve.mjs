// Serves the built page on this computer only:
// `node serve.mjs [--port N] [--models FOLDER] [--default FILE]`, the last a file of that folder that the
// page offers. Any static server with ranges and the right media types does as well.

import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { fileURLToPath } from "node:url";

const TYPES = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
};

/** The file that a path of the address names within a folder, or null when there is none. */
export function fileAt(folder, pathname) {
  let relative;
  try {
    relative = decodeURIComponent(pathname);
  } catch {
    return null;
  }
  const root = path.resolve(folder);
  const file = path.resolve(root, `.${path.posix.normalize(`/${relative}`)}`);
  const isInside = file === root || file.startsWith(root + path.sep);
  if (!isInside || relative.includes("\0")) return null;
  try {
    return fs.statSync(file).isFile() ? file : null;
  } catch {
    return null;
  }
}

/** The one range that a request asks for: null for none, undefined for one that cannot be served. */
export function rangeOf(header, size) {
  if (header === undefined) return null;
  const match = /^bytes=(\d+)-(\d*)$/.exec(header);
  if (!match) return null;
  const start = Number(match[1]);
  const end = match[2] === "" ? size - 1 : Math.min(Number(match[2]), size - 1);
  return start <= end ? { start, end } : undefined;
}

/** The version of a file. */
export function etagOf(file) {
  const { size, mtimeMs } = fs.statSync(file);
  return `"${size}-${mtimeMs}"`;
}

/** Answers with a file, or with the range of it that was asked for. */
export function sendFile(request, response, file) {
  const { size } = fs.statSync(file);
  const range = rangeOf(request.headers.range, size);
  response.setHeader("content-type", TYPES[path.extname(file)] ?? "application/octet-stream");
  response.setHeader("accept-ranges", "bytes");
  response.setHeader("cache-control", "no-cache");
  response.setHeader("etag", etagOf(file));
  if (range === undefined) {
    response.writeHead(416, { "content-range": `bytes */${size}` }).end();
    return;
  }
  const { start, end } = range ?? { start: 0, end: size - 1 };
  response.setHeader("content-length", end - start + 1);
  if (range) response.writeHead(206, { "content-range": `bytes ${start}-${end}/${size}` });
  if (request.method === "HEAD" || size === 0) {
    response.end();
    return;
  }
  fs.createReadStream(file, { start, end, highWaterMark: 1 << 20 })
    .on("error", () => response.destroy())
    .pipe(response);
}

/** What the page offers to load: the text of its `config.json`. */
export function configOf(folder, name) {
  const { size } = fs.statSync(path.join(folder, name));
  const note = "Small, and loaded from this computer";
  return JSON.stringify({
    defaultModel: { name, url: `models/${encodeURIComponent(name)}`, bytes: size, note },
  });
}

/**
 * Serves folders by the first part of the address; "/" is the page. With `config`, that is its `config.json`.
 */
export function pageServer(folders, config = null) {
  return http.createServer((request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    if (config !== null && pathname === "/config.json") {
      response.writeHead(200, { "content-type": TYPES[".json"], "cache-control": "no-cache" }).end(config);
      return;
    }
    const mount = Object.keys(folders)
      .filter((name) => pathname.startsWith(name))
      .sort((a, b) => b.length - a.length)[0];
    const rest = mount === undefined ? "" : pathname.slice(mount.length) || "index.html";
    const file = mount === undefined ? null : fileAt(folders[mount], rest);
    if (!["GET", "HEAD"].includes(request.method)) response.writeHead(405).end();
    else if (file === null) response.writeHead(404).end("not found\n");
    else sendFile(request, response, file);
  });
}

function option(name, fallback) {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? fallback : process.argv[at + 1];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folders = { "/": path.join(path.dirname(fileURLToPath(import.meta.url)), "dist") };
  const models = option("models");
  if (models) folders["/models/"] = models;
  const offered = option("default");
  const server = pageServer(folders, models && offered ? configOf(models, offered) : null);
  server.listen(Number(option("port", 8080)), "127.0.0.1", () => {
    console.log(`http://localhost:${server.address().port}/`);
  });
}
