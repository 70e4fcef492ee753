// Put before the worker's script by the test server. Pipelines are kept, so that a device compiles each only
// once: the software adapter needs a quarter of a minute for those of a model. Buffers are counted, devices
// remembered.
{
  const kept = [];
  const seen = { bytes: 0, buffers: 0, devices: [] };
  self.gpuSeen = seen;
  const device = GPUDevice.prototype;
  for (const name of ["createComputePipeline", "createComputePipelineAsync"]) {
    const create = device[name];
    device[name] = function keeping(descriptor) {
      const made = create.call(this, descriptor);
      kept.push(made);
      return made;
    };
  }
  const createBuffer = device.createBuffer;
  device.createBuffer = function counting(descriptor) {
    seen.bytes += descriptor.size;
    seen.buffers += 1;
    const buffer = createBuffer.call(this, descriptor);
    const { destroy } = buffer;
    let isGone = false;
    buffer.destroy = () => {
      if (!isGone) {
        seen.bytes -= descriptor.size;
        seen.buffers -= 1;
      }
      isGone = true;
      destroy.call(buffer);
    };
    return buffer;
  };
  const requestDevice = GPUAdapter.prototype.requestDevice;
  GPUAdapter.prototype.requestDevice = async function remembering(descriptor) {
    const opened = await requestDevice.call(this, descriptor);
    seen.devices.push(opened);
    return opened;
  };
}
