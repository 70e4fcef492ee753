// Serves the built page, and a folder of models, to this computer only. Any static server with ranges and the
// right media types does as well.

import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

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

/** Names of this computer. A page of another site may have its own name lead here: it is not answered. */
const LOCAL = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/i;

/** Only models are given out of the folder of models, which may be anybody's downloads. */
const MODEL = /(?:^|\/)[^./][^/]*\.gguf$/i;

/** The path that a request asks for, or null when its target names none. */
function pathOf(request) {
  // A target that begins with two slashes would name a host.
  const { url } = request;
  if (!url.startsWith("/") || url.startsWith("//") || !URL.canParse(url, "http://localhost")) return null;
  return new URL(url, "http://localhost").pathname;
}

/**
 * Serves folders by the first part of the address; "/" is the page. With `config`, that is its `config.json`.
 */
export function pageServer(folders, config = null) {
  return http.createServer((request, response) => {
    response.setHeader("x-content-type-options", "nosniff");
    const refuse = (status, text) => response.writeHead(status).end(`${text}\n`);
    const pathname = pathOf(request);
    if (!LOCAL.test(request.headers.host ?? "")) return refuse(403, "this server answers localhost only");
    if (pathname === null) return refuse(400, "the target of the request is not a path");
    if (!["GET", "HEAD"].includes(request.method)) return refuse(405, "only GET and HEAD are served");
    if (config !== null && pathname === "/config.json") {
      response.writeHead(200, { "content-type": TYPES[".json"], "cache-control": "no-cache" }).end(config);
      return undefined;
    }
    const mount = Object.keys(folders)
      .filter((name) => pathname.startsWith(name))
      .sort((a, b) => b.length - a.length)[0];
    const rest = mount === undefined ? "" : pathname.slice(mount.length) || "index.html";
    const isServed = mount !== undefined && (mount !== "/models/" || MODEL.test(rest));
    const file = isServed ? fileAt(folders[mount], rest) : null;
    if (file === null) return refuse(404, "not found");
    sendFile(request, response, file);
    return undefined;
  });
}

const USAGE = `usage: node serve.mjs [--port N] [--models FOLDER] [--default FILE] [--check]
  --port N         the port, 8080 unless given
  --models FOLDER  serve the GGUF files of a folder under /models/
  --default FILE   the file of that folder that the page offers
  --check          only see whether this would work`;

/** Says what is wrong and ends. */
function stop(text, status = 1) {
  console.error(text);
  process.exit(status);
}

function options() {
  const known = { port: "string", models: "string", default: "string", check: "boolean", help: "boolean" };
  const named = Object.fromEntries(Object.entries(known).map(([name, type]) => [name, { type }]));
  try {
    return parseArgs({ options: named }).values;
  } catch (error) {
    return stop(`${error.message}\n${USAGE}`, 2);
  }
}

function main() {
  const { port: asked = "8080", models, default: offered, check, help } = options();
  if (help) return console.log(USAGE);
  const port = Number(asked);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) stop(`--port ${asked}: give 0 to 65535`, 2);
  const folders = { "/": path.join(path.dirname(fileURLToPath(import.meta.url)), "dist") };
  if (models) folders["/models/"] = models;
  if (offered && !models) stop("--default names a file of --models: give that folder too", 2);
  let config = null;
  if (offered) {
    const isThere = MODEL.test(offered) && fileAt(models, offered) !== null;
    if (!isThere) stop(`--default ${offered}: there is no such GGUF file in ${models}`);
    config = configOf(models, offered);
  }
  if (!check && !fs.existsSync(path.join(folders["/"], "index.html")))
    stop("the page is not built: run `make web` first");
  const server = pageServer(folders, config);
  server.on("error", (error) => {
    const isTaken = error.code === "EADDRINUSE";
    stop(isTaken ? `port ${port} is in use: give another with --port` : `port ${port}: ${error.message}`);
  });
  server.listen(port, "127.0.0.1", () => {
    if (check) server.close();
    else console.log(`http://localhost:${server.address().port}/`);
  });
  return undefined;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main();
