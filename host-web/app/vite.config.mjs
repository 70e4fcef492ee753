// Builds the chat page into host-web/dist: files that any static host can serve, and a service worker that
// keeps them for use without a network.

import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const HERE = path.dirname(fileURLToPath(import.meta.url));

/**
 * Where models may be fetched from, beside the page's own origin. A host narrows it when it builds the page:
 * FANLIGHT_CONNECT="https://huggingface.co https://*.hf.co", or empty for none.
 */
const CONNECT = process.env.FANLIGHT_CONNECT ?? "https: http://localhost:* http://127.0.0.1:*";

/** The page's policy; docs/embedding.md explains it. */
function policy() {
  return [
    "default-src 'self'",
    "script-src 'self' 'wasm-unsafe-eval'",
    `connect-src 'self' ${CONNECT}`.trim(),
    "img-src 'self' data:",
    "frame-src 'none'",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
}

/** Writes the policy into the page. */
const withPolicy = {
  name: "fanlight-policy",
  transformIndexHtml: (html) => html.replace("%POLICY%", policy()),
};

/** The file that other pages use the developer bridge with, under a name that stays. */
const bridgeClient = {
  name: "fanlight-bridge-client",
  apply: "build",
  generateBundle() {
    const source = fs.readFileSync(path.join(HERE, "../sdk/dist/bridge/client.js"), "utf8");
    this.emitFile({ type: "asset", fileName: "bridge-client.js", source });
  },
};

/** Writes the service worker with the names of all files, and a version that changes with any of them. */
const offline = {
  name: "fanlight-offline",
  apply: "build",
  closeBundle() {
    const dist = path.join(HERE, "../dist");
    const all = fs.readdirSync(dist, { recursive: true, withFileTypes: true });
    const files = all
      .filter((entry) => entry.isFile() && entry.name !== "sw.js" && entry.name !== "config.json")
      .map((entry) =>
        path.relative(dist, path.join(entry.parentPath ?? entry.path, entry.name)).replaceAll("\\", "/"),
      );
    const script = fs.readFileSync(path.join(HERE, "sw.js"), "utf8");
    // Names of assets hold a hash of their content; those of these files do not, so their texts count.
    const read = (name) => fs.readFileSync(path.join(dist, name), "utf8");
    const version = [...files, read("index.html"), read("bridge-client.js")]
      .join("\n")
      .split("")
      .reduce((hash, character) => (Math.imul(hash, 31) + character.charCodeAt(0)) >>> 0, 7)
      .toString(16);
    const filled = script
      .replace('"%VERSION%"', JSON.stringify(version))
      .replace("[/* FILES */]", JSON.stringify(["./", ...files.filter((file) => file !== "index.html")]));
    fs.writeFileSync(path.join(dist, "sw.js"), filled);
  },
};

export default defineConfig({
  root: HERE,
  base: "./",
  plugins: [withPolicy, bridgeClient, offline],
  build: {
    outDir: "../dist",
    emptyOutDir: true,
    target: "es2022",
    // Data addresses of scripts and modules are forbidden by the policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  worker: { format: "es" },
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
});
