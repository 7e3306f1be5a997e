"""Tensor types of GGUF files: rounding float32 arrays to any of them, and back.

gguf-py writes the simple types; the others go through ggml's own quantiser, which the oracle package ships.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

# Lower-case names of gguf.GGMLQuantizationType.
TYPES = (
    *("f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k"),
    *("iq4_nl", "iq4_xs", "iq3_s", "iq3_xxs", "iq2_s", "iq2_xs", "iq2_xxs", "iq1_s", "iq1_m"),
    *("tq1_0", "tq2_0", "mxfp4"),
)

_BY_GGUF = {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "tq1_0", "tq2_0"}


def gguf_type(name: str) -> Any:
    from gguf import GGMLQuantizationType

    return GGMLQuantizationType[name.upper()]


@lru_cache(maxsize=1)
def _ggml() -> ctypes.CDLL:
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or spec.origin is None:
        raise RuntimeError(
            "K-quants and IQ types need llama-cpp-python (see the test extra in pyproject.toml)"
        )
    lib = ctypes.CDLL(str(Path(spec.origin).parent / "lib" / "libggml-base.so"))
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    number, pointer = ctypes.c_int64, ctypes.c_void_p
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, pointer, pointer, number, number, number, pointer]
    return lib


_done: dict[tuple[bytes, str], npt.NDArray[Any]] = {}  # quantising is slow, and every tensor is wanted twice


def quantise(array: npt.NDArray[np.float32], name: str) -> npt.NDArray[Any]:
    """Round to a type. f32 and f16 come back as numbers, the others as bytes with the row's bytes as last
    axis."""
    if name == "f32":
        return array
    if name == "f16":
        return array.astype(np.float16)
    if name == "bf16":  # to nearest even, as (…, 2 * n) bytes
        bits = array.view(np.uint32).astype(np.uint64)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return rounded.astype(np.uint16).view(np.uint8)
    key = (hashlib.sha256(array.tobytes()).digest(), name)
    if key not in _done:
        _done[key] = _quantise_blocks(array, name)
    return _done[key].reshape(*array.shape[:-1], -1)


def _quantise_blocks(array: npt.NDArray[np.float32], name: str) -> npt.NDArray[Any]:
    import gguf

    kind = gguf_type(name)
    if name in _BY_GGUF:
        return gguf.quants.quantize(array, kind)
    block, size = gguf.GGML_QUANT_SIZES[kind]
    width = array.shape[-1]
    if width % block:
        raise ValueError(f"rows of {width} elements do not divide into blocks of {block} ({name})")
    rows = array.size // width
    source = np.ascontiguousarray(array)
    out = np.empty((*array.shape[:-1], width // block * size), np.uint8)
    importance = np.ones(width, np.float32)  # the smallest types demand one
    written = _ggml().ggml_quantize_chunk(
        int(kind), source.ctypes.data, out.ctypes.data, 0, rows, width, importance.ctypes.data
    )
    if written != out.nbytes:
        raise RuntimeError(f"ggml wrote {written} bytes of {out.nbytes} for {name}")
    return out


def round_trip(array: npt.NDArray[np.float32], name: str) -> npt.NDArray[np.float32]:
    """The float32 values that a stored tensor of this type stands for."""
    import gguf

    if name == "f32":
        return array
    data = quantise(array, name)
    if name == "f16":
        return data.astype(np.float32)
    return np.ascontiguousarray(gguf.quants.dequantize(data, gguf_type(name)), dtype=np.float32)
