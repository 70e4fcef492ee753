// E24: an internal error of the GPU, which the module's GPU library does not know, arrives as one that it
// knows.

import assert from "node:assert/strict";
import { test } from "node:test";

import { SDK } from "./harness.mjs";

const { translateInternalErrors } = await import(`${SDK}/gpu-errors.js`);

class GPUValidationError {
  constructor(message) {
    this.message = message;
  }
}
class GPUInternalError extends GPUValidationError {}
Object.setPrototypeOf(GPUInternalError.prototype, Object.prototype);

function realm(error) {
  class GPUDevice {
    async popErrorScope() {
      return error;
    }
  }
  class GPUUncapturedErrorEvent {
    get error() {
      return error;
    }
  }
  return { GPUDevice, GPUUncapturedErrorEvent, GPUInternalError, GPUValidationError };
}

test("e24 an internal error becomes one of validation, in scopes and outside", async () => {
  const made = realm(new GPUInternalError("the driver gave up"));
  translateInternalErrors(made);
  const heard = [await new made.GPUDevice().popErrorScope(), new made.GPUUncapturedErrorEvent().error];
  for (const error of heard) {
    assert(error instanceof GPUValidationError && !(error instanceof GPUInternalError));
    assert.match(error.message, /the driver gave up/);
  }
});

test("e24 other errors and realms without WebGPU are left alone", async () => {
  for (const error of [null, new GPUValidationError("a rule")]) {
    const made = realm(error);
    translateInternalErrors(made);
    assert.equal(await new made.GPUDevice().popErrorScope(), error);
  }
  translateInternalErrors({});
});
