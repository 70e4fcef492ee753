// Whether a page can have a GPU at all.

import { FanlightError, type MissingGpu } from "./errors.js";

function refuse(missing: MissingGpu, message: string): never {
  throw new FanlightError("no-gpu", message, missing);
}

/** Throws a FanlightError that says what is missing. */
export function checkPage(): void {
  if (globalThis.navigator === undefined || globalThis.isSecureContext === undefined)
    refuse("webgpu", "this is not a web page: call create() in a browser, once the page is there");
  if (!isSecureContext) {
    const why = "this page was not opened over https or from this computer";
    refuse("secure-context", `${why}, and browsers give the GPU to no other: open it over https`);
  }
  if (!("gpu" in navigator)) {
    const what = "use a current Chrome, Edge, Safari or Firefox, or switch WebGPU on";
    refuse("webgpu", `this browser has no WebGPU: ${what}`);
  }
}
