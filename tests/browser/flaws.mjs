// A server of the page and of models that can also serve a model badly, each way under an address of its own:
// /flaw/NAME/FILE. The names are those of the kinds that public reports tell of.

import fs from "node:fs";
import http from "node:http";
import zlib from "node:zlib";

import { etagOf, fileAt, pageServer, rangeOf, sendFile } from "../../host-web/serve.mjs";

/** How many requests each flawed address has had. */
class Counts {
  counts = new Map();

  next(name) {
    const count = (this.counts.get(name) ?? 0) + 1;
    this.counts.set(name, count);
    return count;
  }
}

function part(file, { start, end }) {
  const bytes = Buffer.alloc(end - start + 1);
  const handle = fs.openSync(file, "r");
  fs.readSync(handle, bytes, 0, bytes.length, start);
  fs.closeSync(handle);
  return bytes;
}

/** Half of a range, and then the end of the connection. */
function breakOff({ response, file, range, size }) {
  response.writeHead(206, {
    "content-range": `bytes ${range.start}-${range.end}/${size}`,
    "content-length": range.end - range.start + 1,
    etag: etagOf(file),
  });
  response.write(part(file, { start: range.start, end: range.start + ((range.end - range.start) >> 1) }));
  setTimeout(() => response.destroy(), 50);
}

/** The third answer breaks off, and from then on something is wrong. */
function brokenOnce(asked, then) {
  if (asked.count < 3) sendFile(asked.request, asked.response, asked.file);
  else if (asked.count === 3) breakOff(asked);
  else then(asked);
}

/** What is wrong, by name: each answers one request for a range. */
const FLAWS = {
  /** The whole file for every range. */
  whole: ({ response, file }) => {
    response.writeHead(200, { "content-length": fs.statSync(file).size });
    fs.createReadStream(file)
      .on("error", () => response.destroy())
      .pipe(response);
    response.on("close", () => response.destroy());
  },
  /** Another range of the same length, and it says so. */
  shifted: ({ response, file, range, size }) => {
    const by = range.start > 0 ? -1 : 0;
    const moved = { start: range.start + by, end: range.end + by };
    const length = moved.end - moved.start + 1;
    if (length > 1 && by === 0) Object.assign(moved, { start: 1, end: range.end });
    response.writeHead(206, { "content-range": `bytes ${moved.start}-${moved.end}/${size}` });
    response.end(part(file, moved));
  },
  /** Less than was asked for, and it says so. */
  shorter: ({ response, file, range, size }) => {
    const end = Math.max(range.start, range.end - 1);
    response.writeHead(206, { "content-range": `bytes ${range.start}-${end}/${size}` });
    response.end(part(file, { start: range.start, end }));
  },
  /** More than was asked for, although it says otherwise. */
  longer: ({ response, file, range, size }) => {
    response.writeHead(206, { "content-range": `bytes ${range.start}-${range.end}/${size}` });
    response.write(part(file, range));
    if (range.end > range.start) response.write(Buffer.alloc(1 << 16));
    response.end();
  },
  /** Several parts in one body. */
  multipart: ({ response, file, range }) => {
    response.writeHead(206, { "content-type": "multipart/byteranges; boundary=x" });
    response.end(Buffer.concat([Buffer.from("--x\r\n\r\n"), part(file, range), Buffer.from("\r\n--x--")]));
  },
  /** A part of the compressed file. */
  compressed: ({ response, file, range, size }) => {
    const headers = { "content-range": `bytes ${range.start}-${range.end}/${size}` };
    response.writeHead(206, { ...headers, "content-encoding": "gzip" });
    response.end(zlib.gzipSync(part(file, range)));
  },
  /** Another version of the file from the third request on. */
  replaced: ({ response, file, range, size, count }) => {
    const headers = { "content-range": `bytes ${range.start}-${range.end}/${size}` };
    response.writeHead(206, { ...headers, etag: count < 3 ? '"one"' : '"two"' });
    response.end(part(file, range));
  },
  /** No file, but a page that says so with the code of success. */
  disguised: ({ response }) => {
    response.writeHead(200, { "content-type": "text/html" }).end("<h1>Sign in</h1>");
  },
  /** Trouble that passes: too many requests, a closed service, a connection that breaks in mid-body. */
  shaky: ({ request, response, file, range, size, count }) => {
    if (count === 1) response.writeHead(429, { "retry-after": "1" }).end();
    else if (count === 3) response.writeHead(503).end();
    else if (count === 5) breakOff({ response, file, range, size });
    else sendFile(request, response, file);
  },
  /** A connection that breaks in mid-body, and then the whole file in place of the rest. */
  overrun: (asked) => brokenOnce(asked, FLAWS.whole),
  /** The same, and then another part than the rest. */
  astray: (asked) => brokenOnce(asked, FLAWS.shifted),
  /** An address that leads elsewhere and names a hash on the way, as hubs do; the file itself has another. */
  linked: ({ response, name }) => {
    response.writeHead(302, { location: `/models/${name}`, "x-linked-etag": '"of-the-hub"' }).end();
  },
  /** A signed address that the original one leads to, and that is refused after two uses. */
  expiring: ({ response, name, count }) => {
    response.writeHead(302, { location: `/signed/${Math.floor((count - 1) / 3)}/${name}` }).end();
  },
};

/** Put before every worker's script; see there. */
const PRELUDE = fs.readFileSync(new URL("prelude.js", import.meta.url));

function sendWorker(response, file) {
  response.writeHead(200, { "content-type": "text/javascript; charset=utf-8", "cache-control": "no-cache" });
  response.end(Buffer.concat([PRELUDE, fs.readFileSync(file)]));
}

/** The worker's script that an address names, if it names one. */
function workerOf(folders, pathname) {
  const [, mount, name] = /^(\/sdk\/|\/)((?:assets\/)?worker[^/]*\.js)$/.exec(pathname) ?? [];
  return name === undefined ? null : fileAt(folders[mount], name);
}

/**
 * A server of `folders` that sends `headers` with everything; its `requests` collects method, address, range
 * and token of every request for a model. Ranges that begin at its `heldFrom` or behind are not answered.
 */
export async function flawedServer(folders, headers = {}) {
  const page = pageServer(folders);
  const counts = new Counts();
  const requests = [];
  const server = http.createServer((request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    if (/^\/(models|flaw|signed)\//.test(pathname)) {
      const { range, "x-token": token } = request.headers;
      requests.push({ method: request.method, pathname, range, token });
      if (Number(/^bytes=(\d+)/.exec(range)?.[1]) >= server.heldFrom) return;
    }
    const [, kind, flaw, name] = pathname.split("/");
    const file = name === undefined ? null : fileAt(folders["/models/"], name);
    const worker = workerOf(folders, pathname);
    if (kind === "flaw" && file !== null && Object.hasOwn(FLAWS, flaw)) {
      const size = fs.statSync(file).size;
      const range = rangeOf(request.headers.range, size) ?? { start: 0, end: size - 1 };
      FLAWS[flaw]({ request, response, file, name, range, size, count: counts.next(pathname) });
    } else if (kind === "signed" && file !== null) {
      if (counts.next(pathname) > 2) response.writeHead(403).end();
      else sendFile(request, response, file);
    } else if (worker !== null) sendWorker(response, worker);
    else page.emit("request", request, response);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  server.requests = requests;
  server.heldFrom = Number.POSITIVE_INFINITY;
  return server;
}
