// Lays a model file out anew: in parts as published ones are cut, where the first holds the metadata and
// every part some tensors, or with a hole that is larger than 32 bits can say.

import fs from "node:fs";
import path from "node:path";

/** Bytes of a metadata value by type id; strings (8) and arrays (9) say their own. */
const WIDTHS = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };
const ALIGNMENT = 32;

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  u32() {
    this.at += 4;
    return this.bytes.readUInt32LE(this.at - 4);
  }

  u64() {
    this.at += 8;
    return Number(this.bytes.readBigUInt64LE(this.at - 8));
  }

  string() {
    const length = this.u64();
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at).toString();
  }

  skipValue(type) {
    if (type === 8) this.string();
    else if (type === 9) {
      const element = this.u32();
      for (let count = this.u64(); count > 0; count -= 1) this.skipValue(element);
    } else this.at += WIDTHS[type];
  }
}

/** Metadata as raw bytes, and tensors in file order: name, entry without offset, data. */
function read(bytes) {
  const reader = new Reader(bytes);
  reader.at = 8;
  const [tensorCount, keyCount] = [reader.u64(), reader.u64()];
  const start = reader.at;
  for (let i = 0; i < keyCount; i += 1) {
    reader.string();
    reader.skipValue(reader.u32());
  }
  const keys = bytes.subarray(start, reader.at);
  const tensors = [];
  for (let i = 0; i < tensorCount; i += 1) {
    const entryAt = reader.at;
    reader.string();
    const dimensions = reader.u32();
    reader.at += 8 * dimensions + 4;
    tensors.push({ entry: bytes.subarray(entryAt, reader.at), offset: reader.u64() });
  }
  const dataAt = align(reader.at);
  const ends = [...tensors.map(({ offset }) => offset).sort((a, b) => a - b), bytes.length - dataAt];
  for (const tensor of tensors) {
    const end = ends.find((next) => next > tensor.offset);
    tensor.data = bytes.subarray(dataAt + tensor.offset, dataAt + end);
  }
  return { keyCount, keys, tensors };
}

const align = (at) => Math.ceil(at / ALIGNMENT) * ALIGNMENT;

function u32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function u64(value) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function u16Key(name, value) {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return Buffer.concat([u64(name.length), Buffer.from(name), u32(2), bytes]);
}

function i32Key(name, value) {
  return Buffer.concat([u64(name.length), Buffer.from(name), u32(5), u32(value)]);
}

/** Writes a file; the last tensor lies at `far` behind the others' beginning, where that is given. */
function write(target, keyCount, keys, tensors, far) {
  const entries = [];
  const places = [];
  let offset = 0;
  for (const { entry, data } of tensors) {
    if (far !== undefined && data === tensors.at(-1).data) offset = far;
    entries.push(entry, u64(offset));
    places.push({ offset, data });
    offset += align(data.length);
  }
  const head = Buffer.concat([
    Buffer.from("GGUF"),
    u32(3),
    u64(tensors.length),
    u64(keyCount),
    keys,
    ...entries,
  ]);
  const file = fs.openSync(target, "w");
  fs.writeSync(file, head, 0, head.length, 0);
  for (const place of places) {
    fs.writeSync(file, place.data, 0, place.data.length, align(head.length) + place.offset);
  }
  // Every tensor is followed by what fills it up.
  fs.ftruncateSync(file, align(head.length) + offset);
  fs.closeSync(file);
}

/** Writes the same model with its last weight beyond 4 GiB; the hole before it takes no room on the disk. */
export function stretched(file, target) {
  const { keyCount, keys, tensors } = read(fs.readFileSync(file));
  write(target, keyCount, keys, tensors, 2 ** 32 + 2 * ALIGNMENT);
  return target;
}

/** Writes the parts beside each other and returns their paths. */
export function split(file, folder, stem, count) {
  const { keyCount, keys, tensors } = read(fs.readFileSync(file));
  const size = Math.ceil(tensors.length / count);
  return Array.from({ length: count }, (_, no) => {
    const own = [
      u16Key("split.no", no),
      u16Key("split.count", count),
      i32Key("split.tensors.count", tensors.length),
    ];
    const part = tensors.slice(no * size, (no + 1) * size);
    const number = (n) => String(n).padStart(5, "0");
    const target = path.join(folder, `${stem}-${number(no + 1)}-of-${number(count)}.gguf`);
    if (no === 0) write(target, keyCount + own.length, Buffer.concat([keys, ...own]), part);
    else write(target, own.length, Buffer.concat(own), part);
    return target;
  });
}
