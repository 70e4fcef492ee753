// The GPU library of the module knows two kinds of GPU errors and panics at the third: an internal error,
// which a driver reports when it cannot compile a pipeline that breaks no rule. It becomes one that is known.

interface GpuError {
  readonly message: string;
}

/** The part of WebGPU that is changed here; the library of types does not have it. */
interface GpuRealm {
  GPUDevice?: { prototype: { popErrorScope: () => Promise<GpuError | null> } };
  GPUUncapturedErrorEvent?: { prototype: object };
  GPUInternalError?: new (message: string) => GpuError;
  GPUValidationError?: new (message: string) => GpuError;
}

/** Has internal errors of every device of a realm arrive as errors of validation. */
export function translateInternalErrors(realm: GpuRealm): void {
  const { GPUDevice, GPUUncapturedErrorEvent, GPUInternalError, GPUValidationError } = realm;
  // A realm without WebGPU has no errors of it, and some implementations have no internal ones.
  if (!GPUDevice || !GPUUncapturedErrorEvent || !GPUInternalError || !GPUValidationError) return;
  const known = (error: GpuError | null): GpuError | null =>
    error instanceof GPUInternalError
      ? new GPUValidationError(`internal error: ${error.message}`)
      : error;
  const { popErrorScope } = GPUDevice.prototype;
  GPUDevice.prototype.popErrorScope = async function (this: object) {
    return known(await popErrorScope.call(this));
  };
  const event = GPUUncapturedErrorEvent.prototype;
  const read = Object.getOwnPropertyDescriptor(event, "error")?.get;
  if (!read) return;
  Object.defineProperty(event, "error", {
    configurable: true,
    get(this: object) {
      return known(read.call(this) as GpuError);
    },
  });
}
