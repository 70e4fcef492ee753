// The page of the bench: an engine, and a scene that draws beside it. `frames.mjs` calls what stands in
// `globalThis.bench`.

import { Fanlight } from "/sdk/index.js";

/** Sixty frames a second. */
const FRAME_MS = 1000 / 60;
const SIDE = 512;

const SCENE = `
  @vertex fn corner(@builtin(vertex_index) i: u32) -> @builtin(position) vec4f {
    return vec4f(f32(i % 2u) * 2.0 - 1.0, f32(i / 2u) * 2.0 - 1.0, 0.0, 1.0);
  }
  @fragment fn colour(@builtin(position) at: vec4f) -> @location(0) vec4f {
    return vec4f(sin(at.x), cos(at.y), 0.5, 1.0);
  }`;

/** A small pass on a device of the page's own, as a game or a map would submit one for every frame. */
class Scene {
  static async open() {
    const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
    const scene = new Scene();
    scene.device = await adapter.requestDevice();
    const module = scene.device.createShaderModule({ code: SCENE });
    const usage = GPUTextureUsage.RENDER_ATTACHMENT;
    const texture = scene.device.createTexture({ size: [SIDE, SIDE], format: "rgba8unorm", usage });
    scene.view = texture.createView();
    scene.pipeline = await scene.device.createRenderPipelineAsync({
      layout: "auto",
      vertex: { module },
      fragment: { module, targets: [{ format: "rgba8unorm" }] },
    });
    return scene;
  }

  /** Draws once; resolves when the GPU has. */
  draw() {
    const encoder = this.device.createCommandEncoder();
    const attachment = { view: this.view, loadOp: "clear", storeOp: "store" };
    const pass = encoder.beginRenderPass({ colorAttachments: [attachment] });
    pass.setPipeline(this.pipeline);
    pass.draw(3);
    pass.end();
    this.device.queue.submit([encoder.finish()]);
    return this.device.queue.onSubmittedWorkDone();
  }

  /**
   * Draws a frame every 16.7 ms until `over` resolves; milliseconds from when each was due until it was
   * drawn. Frames that are due while another is drawn are missed, as in a page.
   */
  async run(over) {
    const latencies = [];
    let missed = 0;
    let isOver = false;
    void over.finally(() => {
      isOver = true;
    });
    let due = performance.now();
    while (!isOver) {
      const early = due - performance.now();
      if (early > 0) await new Promise((passed) => setTimeout(passed, early));
      await this.draw();
      const latency = performance.now() - due;
      latencies.push(latency);
      const gone = Math.max(1, Math.ceil(latency / FRAME_MS));
      missed += gone - 1;
      due += gone * FRAME_MS;
    }
    return { latencies, missed };
  }
}

/** The value that `part` of all are not above. */
function quantile(values, part) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? null;
}

async function untilFirstToken(generation) {
  for await (const { type } of generation) if (type === "token") return performance.now();
  throw new Error("the reply had no token");
}

let engine;
let scene;

/** Seconds of each phase of a load, and its bytes. */
async function load(source, options) {
  const started = performance.now();
  const phases = {};
  let last = started;
  let before = "open";
  const onProgress = ({ phase }) => {
    const now = performance.now();
    phases[before] = (phases[before] ?? 0) + (now - last) / 1000;
    [last, before] = [now, phase];
  };
  const info = await engine.load(source, { ...options, onProgress });
  const now = performance.now();
  phases[before] = (phases[before] ?? 0) + (now - last) / 1000;
  return { seconds: (now - started) / 1000, phases, info };
}

/** What a reply took by the engine's own account. */
async function reply(prompt, options) {
  let last;
  for await (const event of engine.generate({ prompt }, options)) last = event;
  return last.stats;
}

/** Frames beside a reply that goes on for so long, or beside none. */
async function frames(options, prompt, seconds) {
  const pause = (milliseconds) => new Promise((passed) => setTimeout(passed, milliseconds));
  let tokens = 0;
  let over = pause(1000 * seconds);
  let elapsed = 0;
  if (options) {
    const generation = engine.generate({ prompt }, options);
    const reader = generation.getReader();
    // Prompt and pipelines are another matter.
    while ((await reader.read()).value?.type !== "token");
    const started = performance.now();
    const reading = (async () => {
      for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
        if (value.type === "token") tokens += value.ids.length;
      }
      elapsed = (performance.now() - started) / 1000;
    })();
    // A reply that ends by itself ends the measurement.
    over = Promise.race([reading, over]).then(() => generation.stop());
    over = Promise.all([over, reading]);
  }
  const { latencies, missed } = await scene.run(over);
  const [p50Ms, p99Ms, maxMs] = [0.5, 0.99, 1].map((part) => quantile(latencies, part));
  const tokensPerSecond = options ? tokens / elapsed : null;
  return { frames: latencies.length, missed, p50Ms, p99Ms, maxMs, tokensPerSecond };
}

let panel = null;

globalThis.bench = {
  /** Opens engine and scene. */
  async open() {
    engine = await Fanlight.create({ shared: false });
    scene = await Scene.open();
    return { ...engine.adapter, userAgent: navigator.userAgent, cores: navigator.hardwareConcurrency };
  },
  load: (source, options) => load(source ?? document.querySelector("input").files[0], options),
  reply,
  frames,
  /** Shows the telemetry panel of the engine, or takes it away. */
  async panel(isShown) {
    await import("/devtools/index.js");
    panel?.remove();
    panel = null;
    if (!isShown) return;
    panel = document.createElement("fanlight-telemetry");
    panel.source = engine;
    document.body.append(panel);
  },
  countTokens: (text) => engine.countTokens(text),
  /** From the page's beginning to the first token of a model that the browser keeps. */
  async warmStart(url, prompt, options) {
    engine = await Fanlight.create({ shared: false });
    const createdMs = performance.now();
    await engine.load(url, options);
    const loadedMs = performance.now();
    const tokenMs = await untilFirstToken(engine.generate({ prompt }, { maxTokens: 2 }));
    const [loadMs, firstTokenMs] = [loadedMs - createdMs, tokenMs - loadedMs];
    return { createMs: createdMs, loadMs, firstTokenMs, tokenMs };
  },
};
