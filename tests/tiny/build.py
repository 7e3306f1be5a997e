"""Random tensors of a tiny model, in memory and in float32, before any rounding."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .families import FAMILIES, Hyper
from .vocabulary import Vocabulary, make_vocabulary

Array = npt.NDArray[np.float32]

GAIN = 1.5  # of every matrix, over sqrt(fan-in)


@dataclass
class TinyModel:
    """A model in memory. Tensor arrays have NumPy shape, the reverse of ggml's: a {K, N} weight is an (N,
    K) array."""

    hyper: Hyper
    tensors: dict[str, Array]
    vocab: Vocabulary

    def attention_part(self, layer: int, part: str, kind: str = "weight") -> Array:
        """View of the rows of "q", "k" or "v", whether the file keeps them apart or fused."""
        h = self.hyper
        if not h.fused_qkv:
            return self.tensors[f"blk.{layer}.attn_{part}.{kind}"]
        q, k = h.n_head * h.head_dim, h.n_head_kv * h.head_dim
        start, stop = {"q": (0, q), "k": (q, q + k), "v": (q + k, q + 2 * k)}[part]
        return self.tensors[f"blk.{layer}.attn_qkv.{kind}"][start:stop]

    def gate_up(self, layer: int) -> tuple[Array, Array]:
        """Views of the gate and up matrices: (F, E), or (experts, F, E)."""
        b, h = f"blk.{layer}.", self.hyper
        if h.n_expert:
            return self.tensors[b + "ffn_gate_exps.weight"], self.tensors[b + "ffn_up_exps.weight"]
        if h.fused_gate_up:
            both = self.tensors[b + "ffn_up.weight"]
            return both[: h.n_ff], both[h.n_ff :]
        return self.tensors[b + "ffn_gate.weight"], self.tensors[b + "ffn_up.weight"]


def build_model(family: str, *, overrides: dict[str, Any] | None = None, seed: int = 0) -> TinyModel:
    """Random model of a family. Each tensor has its own random stream (seed and name), so that changing one
    hyper-parameter leaves the other tensors as they were."""
    h = replace(FAMILIES[family], **(overrides or {}))
    vocab = make_vocabulary(h)
    n_vocab = len(vocab.texts)
    tensors: dict[str, Array] = {}

    def stream(name: str) -> np.random.Generator:
        return np.random.default_rng([seed, zlib.crc32(name.encode())])

    def matrix(name: str, *shape: int) -> Array:
        values: Array = (stream(name).standard_normal(shape) * (GAIN / np.sqrt(shape[-1]))).astype(np.float32)
        return values

    def norm(name: str, n: int) -> None:
        tensors[name] = stream(name).uniform(0.5, 1.5, n).astype(np.float32)

    def bias(name: str, n: int) -> Array:
        return (stream(name).standard_normal(n) * 0.7).astype(np.float32)

    tensors["token_embd.weight"] = (
        stream("token_embd.weight").standard_normal((n_vocab, h.n_embd)) * h.embd_std
    ).astype(np.float32)
    norm("output_norm.weight", h.n_embd)
    if not h.tied:
        tensors["output.weight"] = matrix("output.weight", n_vocab, h.n_embd)
    if h.rope_freqs:
        tensors["rope_freqs.weight"] = np.linspace(1.0, 8.0, h.rot // 2, dtype=np.float32)
    if h.rope_long_short:
        tensors["rope_factors_long.weight"] = np.linspace(1.0, 6.0, h.rot // 2, dtype=np.float32)
        tensors["rope_factors_short.weight"] = np.linspace(1.0, 1.5, h.rot // 2, dtype=np.float32)

    widths = {"q": h.n_head * h.head_dim, "k": h.n_head_kv * h.head_dim, "v": h.n_head_kv * h.head_dim}
    for layer in range(h.n_layer):
        b = f"blk.{layer}."
        norm(b + "attn_norm.weight", h.n_embd)
        weights = {p: matrix(b + f"attn_{p}.weight", n, h.n_embd) for p, n in widths.items()}
        biases = {p: bias(b + f"attn_{p}.bias", n) for p, n in widths.items()} if h.qkv_bias else {}
        if h.fused_qkv:
            tensors[b + "attn_qkv.weight"] = np.concatenate(list(weights.values()))
            if biases:
                tensors[b + "attn_qkv.bias"] = np.concatenate(list(biases.values()))
        else:
            tensors.update({b + f"attn_{p}.weight": w for p, w in weights.items()})
            tensors.update({b + f"attn_{p}.bias": w for p, w in biases.items()})
        if h.qk_norm:
            norm(b + "attn_q_norm.weight", h.head_dim)
            norm(b + "attn_k_norm.weight", h.head_dim)
        tensors[b + "attn_output.weight"] = matrix(b + "attn_output.weight", h.n_embd, widths["q"])
        if h.out_bias:
            tensors[b + "attn_output.bias"] = bias(b + "attn_output.bias", h.n_embd)
        if h.post_norms:
            norm(b + "post_attention_norm.weight", h.n_embd)

        norm(b + "ffn_norm.weight", h.n_embd)
        if h.n_expert:
            width = h.expert_width
            tensors[b + "ffn_gate_inp.weight"] = matrix(b + "ffn_gate_inp.weight", h.n_expert, h.n_embd)
            for part in ("gate", "up"):
                name = b + f"ffn_{part}_exps.weight"
                tensors[name] = matrix(name, h.n_expert, width, h.n_embd)
            name = b + "ffn_down_exps.weight"
            tensors[name] = matrix(name, h.n_expert, h.n_embd, width) * np.float32(1.5)
        else:
            parts = {p: matrix(b + f"ffn_{p}.weight", h.n_ff, h.n_embd) for p in ("gate", "up")}
            if h.fused_gate_up:
                tensors[b + "ffn_up.weight"] = np.concatenate([parts["gate"], parts["up"]])
            else:
                tensors.update({b + f"ffn_{p}.weight": w for p, w in parts.items()})
            tensors[b + "ffn_down.weight"] = matrix(b + "ffn_down.weight", h.n_embd, h.n_ff)
            if h.ffn_bias:
                for part, n in (("gate", h.n_ff), ("up", h.n_ff), ("down", h.n_embd)):
                    tensors[b + f"ffn_{part}.bias"] = bias(b + f"ffn_{part}.bias", n)
        if h.post_norms:
            norm(b + "post_ffw_norm.weight", h.n_embd)
    return TinyModel(h, tensors, vocab)
