#!/usr/bin/env python3
"""Makes tests/data/dequant: encoded blocks of every type that decant decodes, and their fp32 values.

The values are those of the reference decoder in the PyPI package gguf (gguf.quants.dequantize):
  python3 -m venv /tmp/gguf && /tmp/gguf/bin/pip install gguf==0.19.0
  /tmp/gguf/bin/python tests/tools/make_dequant_golden.py
For each type T there are T.blocks (the bytes of a GGUF tensor) and T.f32 (its elements, little-endian).
Quants and sub-block scales are random bytes; the fp16 scales go through signs, zeros, subnormals and
large numbers, but stay finite.
"""

import argparse
import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize

# Where the fp16 numbers of a block are, in bytes from its start.
HALF_OFFSETS = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
}
SCALES = np.array(
    [0.01234, -0.03217, 1.0, 0.0, -0.0, 5.9604645e-08, -3.1e-05, 6.1035156e-05, 60000.0, -700.5, 0.3333, 2.7182], np.float16
)
SMALL_BLOCKS = 24
LARGE_BLOCKS = 12


def random_blocks(name: str, rng: np.random.Generator) -> np.ndarray:
    block_elements, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    count = LARGE_BLOCKS if block_elements == 256 else SMALL_BLOCKS
    blocks = rng.integers(0, 256, (count, block_bytes), np.uint8)
    for number, offset in enumerate(HALF_OFFSETS[name]):
        scales = np.resize(np.roll(SCALES, number * 5), count)
        blocks[:, offset : offset + 2] = scales.view(np.uint8).reshape(count, 2)
    return blocks


def plain_values(name: str, rng: np.random.Generator) -> np.ndarray:
    values = rng.standard_normal(256).astype(np.float32) * np.float32(3)
    values[:8] = [0.0, -0.0, 1e-7, -6e-8, 65504, -65504, np.inf, -np.inf]
    if name == "F32":
        return values.view(np.uint8)
    if name == "F16":
        return values.astype(np.float16).view(np.uint8)
    return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).resolve().parent.parent / "data" / "dequant"
    parser.add_argument("--out", type=pathlib.Path, default=default, help="folder to write (default: %(default)s)")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(["F32", "F16", "BF16", *HALF_OFFSETS]):
        rng = np.random.default_rng(seed)
        encoded = random_blocks(name, rng) if name in HALF_OFFSETS else plain_values(name, rng)
        encoded = encoded.reshape(1, -1)
        values = dequantize(encoded, GGMLQuantizationType[name]).astype(np.float32).ravel()
        (out / f"{name}.blocks").write_bytes(encoded.tobytes())
        (out / f"{name}.f32").write_bytes(values.astype("<f4").tobytes())
        print(f"{name}: {encoded.size} bytes, {values.size} values")


if __name__ == "__main__":
    main()
