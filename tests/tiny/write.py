"""Writing a tiny model as GGUF: types, split files, perturbations."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np

from .build import TinyModel, build_model
from .families import is_slow, metadata
from .perturb import apply_perturbation
from .quantise import TYPES, gguf_type, quantise, round_trip

DTYPES = TYPES


def stored_type(name: str, ndim: int, dtype: str) -> str:
    """Type of one tensor in a file of `dtype`. As in real files, vectors and routers stay f32, and embedding and
    output keep more bits where the rest has three or fewer."""
    if ndim < 2 or "ffn_gate_inp" in name:
        return "f32"
    if is_slow(dtype) and name in ("token_embd.weight", "output.weight"):
        return "q6_k"
    return dtype


def make_model(
    family: str,
    path: str | Path,
    *,
    dtype: str = "f32",
    overrides: dict[str, Any] | None = None,
    perturb: str | None = None,
    dequantised: bool = False,
    split: int = 0,
    seed: int = 0,
) -> Path:
    """Write a tiny model and return its path (of the first part when split).

    dtype        type of the matrices, token embedding and output included (see DTYPES)
    overrides    changes of Hyper fields, e.g. {"n_layer": 3}
    perturb      name of a realistic mistake, see perturb.py
    dequantised  store the values that `dtype` stands for, but as f32
    split        tensors per file; 0 writes one file
    """
    model = build_model(family, overrides=overrides, seed=seed)
    if perturb is not None:
        model = apply_perturbation(model, perturb)
    if dequantised:
        for name, data in model.tensors.items():
            model.tensors[name] = round_trip(data, stored_type(name, data.ndim, dtype))
        dtype = "f32"
    return write_model(model, path, dtype=dtype, split=split)


def write_model(
    model: TinyModel,
    path: str | Path,
    *,
    dtype: str = "f32",
    types: dict[str, str] | None = None,
    split: int = 0,
    extra: list[tuple[str, str, Any]] | None = None,
) -> Path:
    """Write a model held in memory. `types` sets single tensors' types, `extra` adds or replaces keys."""
    import gguf

    logging.getLogger("gguf.gguf_writer").setLevel(logging.ERROR)
    path = Path(path)
    writer = gguf.GGUFWriter(path, model.hyper.arch, split_max_tensors=split)
    keys = {
        key: (kind, value)
        for key, kind, value in [*metadata(model.hyper), *_tokenizer(model), *(extra or [])]
    }
    for key, (kind, value) in keys.items():
        _add(writer, key, kind, value)
    for name, data in model.tensors.items():
        kind = (types or {}).get(name, stored_type(name, data.ndim, dtype))
        stored = np.ascontiguousarray(quantise(np.ascontiguousarray(data), kind))
        writer.add_tensor(name, stored, raw_dtype=None if kind in ("f32", "f16") else gguf_type(kind))
    writer.write_header_to_file(path)
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if split:
        return next(p for p in sorted(path.parent.glob(f"{path.stem}-00001-of-*.gguf")))
    return path


def _tokenizer(model: TinyModel) -> list[tuple[str, str, Any]]:
    v = model.vocab
    keys: list[tuple[str, str, Any]] = [("tokenizer.ggml.model", "str", v.model)]
    if v.pre:
        keys.append(("tokenizer.ggml.pre", "str", v.pre))
    keys += [("tokenizer.ggml.tokens", "array", v.texts), ("tokenizer.ggml.token_type", "array", v.types)]
    if v.scores is not None:
        keys.append(("tokenizer.ggml.scores", "array", v.scores))
    if v.merges is not None:
        keys.append(("tokenizer.ggml.merges", "array", v.merges))
    keys += [(f"tokenizer.ggml.{key}", kind, value) for key, kind, value in v.scalars]
    if v.template is not None:
        keys.append(("tokenizer.chat_template", "str", v.template))
    return keys


def _add(writer: Any, key: str, kind: str, value: Any) -> None:
    add = {
        "u32": writer.add_uint32,
        "i32": writer.add_int32,
        "u16": writer.add_uint16,
        "u64": writer.add_uint64,
        "f32": writer.add_float32,
        "bool": writer.add_bool,
        "str": writer.add_string,
        "array": writer.add_array,
    }
    if kind == "bools":
        writer.add_array(key, [bool(v) for v in value])
    else:
        add[kind](key, value)
