#!/usr/bin/env python3
"""Writes blocks.json: random GGUF blocks of every type with the floats that gguf-py decodes them to.

Run once with gguf-py (`pip install gguf`); the result is committed, so the tests need neither.
"""

import importlib.metadata
import json
import pathlib

import gguf
import numpy as np
from gguf.constants import GGMLQuantizationType as Type
from gguf.quants import dequantize

TYPES = "F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL".split()
# Byte offsets of the f16 scales in a block.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0]}
BLOCKS_PER_TYPE = 3


def main():
    rng = np.random.default_rng(20261129)
    out = {"reference": f"gguf-py {importlib.metadata.version('gguf')} gguf.quants.dequantize", "types": {}}
    for name in TYPES:
        block_len, block_bytes = gguf.GGML_QUANT_SIZES[Type[name]]
        raw = rng.integers(0, 256, (BLOCKS_PER_TYPE, block_bytes if block_len > 1 else 32), dtype=np.uint8)
        for offset in SCALES.get(name, []):
            scale = rng.uniform(-0.05, 0.05, BLOCKS_PER_TYPE).astype(np.float16)
            scale[0] = np.float16(3e-6)  # a subnormal half
            raw[:, offset:offset + 2] = scale.view(np.uint8).reshape(-1, 2)
        if block_len == 1:
            raw[:, 1::2] &= 0xBF  # no infinities and NaNs: JSON has none
        values = dequantize(raw, Type[name]).astype("<f4")
        assert np.isfinite(values).all()
        out["types"][name] = [{"hex": r.tobytes().hex(), "f32le_hex": v.tobytes().hex()}
                              for r, v in zip(raw, values)]
    path = pathlib.Path(__file__).with_name("blocks.json")
    path.write_text(json.dumps(out, indent=0) + "\n")


if __name__ == "__main__":
    main()
