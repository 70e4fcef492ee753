// The GPU's name in the page: browsers hide the description that native programs get, but tell vendor and
// family.

import type { Adapter } from "./protocol.js";

/** The part of WebGPU's adapter that is read here; the library of types does not have it. */
interface GpuAdapter {
  info?: {
    vendor?: string;
    architecture?: string;
    device?: string;
    description?: string;
    isFallbackAdapter?: boolean;
  };
  isFallbackAdapter?: boolean;
}

interface Gpu {
  requestAdapter(options: { powerPreference: "high-performance" }): Promise<GpuAdapter | null>;
}

/** Drivers that compute on a processor, by what their names hold. */
const SOFTWARE = /swiftshader|llvmpipe|basic render/i;

/** What the engine knows of its adapter, with what the browser tells of the same one. */
export async function describe(adapter: Adapter): Promise<Adapter> {
  const { gpu } = navigator as { gpu?: Gpu };
  const found = await gpu?.requestAdapter({ powerPreference: "high-performance" });
  const info = found?.info;
  if (!found || !info) return adapter;
  const family = [info.vendor, info.architecture].filter(Boolean).join(" ");
  const name = info.description || info.device || family || adapter.name;
  const isFallback = found.isFallbackAdapter === true || info.isFallbackAdapter === true;
  const isSoftware = adapter.isSoftware || isFallback || SOFTWARE.test(`${family} ${name}`);
  return { ...adapter, name, isSoftware };
}
