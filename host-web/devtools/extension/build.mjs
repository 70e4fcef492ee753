// Writes the extension as a folder of plain files, to be loaded unpacked or zipped:
// `node devtools/extension/build.mjs [FOLDER]`; dist/devtools-extension when none is named.

import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

import esbuild from "esbuild";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const out = path.resolve(process.argv[2] ?? path.join(HERE, "../../dist/devtools-extension"));

fs.rmSync(out, { recursive: true, force: true });
fs.mkdirSync(out, { recursive: true });
for (const file of ["manifest.json", "devtools.html", "panel.html", "panel.css"]) {
  fs.copyFileSync(path.join(HERE, file), path.join(out, file));
}
esbuild.buildSync({
  entryPoints: ["devtools.ts", "panel.ts"].map((file) => path.join(HERE, file)),
  outdir: out,
  bundle: true,
  format: "esm",
  target: "es2022",
  logLevel: "warning",
});
