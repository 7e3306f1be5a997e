"""Realistic mistakes, written into the file.

Each takes a model and changes one thing that an implementation could get wrong. Where the mistake is about
reading a key, the key is changed; where it is about arithmetic (the other rope pairing, another head
order), tensors are permuted so that a correct implementation of the changed file computes what a wrong
implementation of the original would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .build import TinyModel
from .families import FAMILIES, Hyper

Change = Callable[[TinyModel], None]

NORMS = (
    "attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm",
)  # fmt: skip


def perturbations(family: str, overrides: dict[str, Any] | None = None) -> list[str]:
    """Names of the mistakes that make sense for a family."""
    return list(_catalogue(replace(FAMILIES[family], **(overrides or {}))))


def apply_perturbation(model: TinyModel, name: str) -> TinyModel:
    catalogue = _catalogue(model.hyper)
    if name not in catalogue:
        raise ValueError(f"no perturbation {name!r} for {model.hyper.arch}; there are {', '.join(catalogue)}")
    catalogue[name](model)
    return model


def _catalogue(h: Hyper) -> dict[str, Change]:
    c: dict[str, Change] = {
        "eps_x3": _set(rms_eps=h.rms_eps * 3),
        "rope_base_x2": _set(rope_base=h.rope_base * 2),
        "rope_mode": _rope_mode,
        "head_order": _head_order,
        "q_scale": _q_scale,
        "gate_up": _gate_up,
        "layers_swapped": _layers_swapped,
        "attn_ffn_norm_swapped": _norms_swapped,
        "norm_ones.output_norm": _norm_ones("output_norm.weight"),
    }
    for norm in NORMS:
        if (norm in ("attn_q_norm", "attn_k_norm") and not h.qk_norm) or (
            norm.startswith("post_") and not h.post_norms
        ):
            continue
        for layer in sorted({0, h.n_layer - 1}):
            c[f"norm_ones.{norm}.{layer}"] = _norm_ones(f"blk.{layer}.{norm}.weight")
    if h.n_head % 2 == 0:
        c["head_count"] = _head_count
    if h.n_rot is not None:
        c["n_rot_less"] = _n_rot_less
    if h.rope_base_swa is not None:
        c["rope_base_swa_x2"] = _set(rope_base_swa=h.rope_base_swa * 2)
    if h.rope_factor is not None:
        c["rope_factor_x2"] = _set(rope_factor=h.rope_factor * 2)
        c["rope_no_scaling"] = _set(rope_type="none")
    if h.rope_type == "yarn":
        c["yarn_as_linear"] = _set(rope_type="linear")
        c["yarn_original_context"] = _set(rope_orig_ctx=(h.rope_orig_ctx or 512) // 4)
    if h.rope_attn_factor is not None:
        c["rope_attn_factor"] = _set(rope_attn_factor=1.0)
    if h.rope_freqs:
        c["rope_freqs_ignored"] = _fill("rope_freqs.weight", 1.0)
    if h.rope_long_short:
        c["rope_long_short_swapped"] = _long_short
    if h.window and h.arch != "phi3":  # phi3 files carry a window that is not used
        for name, delta in (("plus", 1), ("minus", -1)):
            c[f"window_{name}_1"] = _set(window=h.window + delta)
        c["window_none"] = _set(window=100000)
        flags = [h.is_windowed(i) for i in range(h.n_layer)]
        c["window_pattern_shifted"] = _set(window_pattern=tuple(flags[1:] + flags[:1]))
        c["window_pattern_period"] = _set(window_pattern=tuple(i % 5 < 4 for i in range(h.n_layer)))
    if h.softcap is not None:
        c["softcap_x1.5"] = _set(softcap=h.softcap * 1.5)
        c["softcap_none"] = _set(softcap=None)
    if h.qkv_bias:
        for part in "qkv":
            c[f"bias_{part}_ignored"] = _bias_ignored(part)
    if h.out_bias:
        c["bias_output_ignored"] = _fill("blk.1.attn_output.bias", 0.0)
    if h.ffn_bias:
        for part in ("gate", "up", "down"):
            c[f"bias_ffn_{part}_ignored"] = _fill(f"blk.1.ffn_{part}.bias", 0.0)
    if h.fused_qkv:
        c["qkv_order"] = _qkv_order
    if h.n_expert:
        c["experts_used_less"] = _set(n_expert_used=h.n_expert_used - 1)
        c["router_order"] = _router_order
        c["expert_down_order"] = _expert_down_order
    if not h.tied:
        c["output_tied"] = _output_tied
    if h.arch == "gemma3":
        c["embedding_scale"] = _embedding_scale
    return c


def _set(**changes: Any) -> Change:
    def change(m: TinyModel) -> None:
        m.hyper = replace(m.hyper, **changes)

    return change


def _fill(name: str, value: float) -> Change:
    def change(m: TinyModel) -> None:
        m.tensors[name][:] = value

    return change


def _norm_ones(name: str) -> Change:
    return _fill(name, 1.0)


def _permute_rows(m: TinyModel, layer: int, part: str, order: np.ndarray[Any, Any]) -> None:
    kinds = ("weight", "bias") if m.hyper.qkv_bias else ("weight",)
    for kind in kinds:
        rows = m.attention_part(layer, part, kind)
        rows[:] = rows[order]


def _rope_mode(m: TinyModel) -> None:
    """Rows of q and k re-ordered within each head, so that the family's pairing acts as the other one
    would."""
    h = m.hyper
    half = h.rot // 2
    # halves[j] is where element j of an interleaved order lies in a half-split order
    halves = np.arange(h.rot).reshape(2, half).T.reshape(-1)
    order = np.arange(h.head_dim)
    order[: h.rot] = np.argsort(halves) if h.rope_neox else halves
    for layer in range(h.n_layer):
        for part, heads in (("q", h.n_head), ("k", h.n_head_kv)):
            _permute_rows(m, layer, part, np.concatenate([order + i * h.head_dim for i in range(heads)]))
            if h.qk_norm:
                norm = m.tensors[f"blk.{layer}.attn_{part}_norm.weight"]
                norm[:] = norm[order]


def _head_order(m: TinyModel) -> None:
    """Query head j on KV head j % n_head_kv instead of j // (n_head / n_head_kv); with one KV head: heads
    reversed in the output projection only."""
    h = m.hyper
    heads = np.arange(h.n_head)
    order = heads[::-1] if h.n_head_kv == 1 else heads.reshape(h.n_head_kv, -1).T.reshape(-1)
    rows = (order[:, None] * h.head_dim + np.arange(h.head_dim)).reshape(-1)
    for layer in range(h.n_layer):
        if h.n_head_kv > 1:
            _permute_rows(m, layer, "q", rows)
        out = m.tensors[f"blk.{layer}.attn_output.weight"]
        out[:] = out[:, rows]


def _head_count(m: TinyModel) -> None:
    """Half as many heads of twice the size: all matrices keep their shapes."""
    h = m.hyper
    kv = max(h.n_head_kv // 2, 1)
    if h.n_head_kv == 1:  # one KV head: keep its size, and let query heads be fewer
        m.hyper = replace(h, n_head=h.n_head // 2)
        q = slice(0, h.n_head // 2 * h.head_dim)
        for layer in range(h.n_layer):
            b = f"blk.{layer}."
            m.tensors[b + "attn_q.weight"] = m.tensors[b + "attn_q.weight"][q]
            m.tensors[b + "attn_output.weight"] = m.tensors[b + "attn_output.weight"][:, q]
        return
    rot = None if h.n_rot is None else h.n_rot * 2
    m.hyper = replace(h, n_head=h.n_head // 2, n_head_kv=kv, head_dim=h.head_dim * 2, n_rot=rot)
    for name, data in m.tensors.items():
        if name.endswith(("attn_q_norm.weight", "attn_k_norm.weight")):
            m.tensors[name] = np.tile(data, 2)
        elif name.startswith("rope_f"):
            m.tensors[name] = np.repeat(data, 2)


def _q_scale(m: TinyModel) -> None:
    """Scores scaled by 1/sqrt(n_embd / n_head + 8) instead of 1/sqrt(head_dim)."""
    h = m.hyper
    factor = np.float32(np.sqrt(h.head_dim / (h.n_embd / h.n_head + 8)))
    for layer in range(h.n_layer):
        if h.qk_norm:
            m.tensors[f"blk.{layer}.attn_q_norm.weight"] *= factor
        else:
            m.attention_part(layer, "q")[:] *= factor


def _gate_up(m: TinyModel) -> None:
    for layer in range(m.hyper.n_layer):
        gate, up = m.gate_up(layer)
        gate[:], up[:] = up.copy(), gate.copy()


def _layers_swapped(m: TinyModel) -> None:
    for name in [n for n in m.tensors if n.startswith("blk.0.")]:
        other = name.replace("blk.0.", "blk.1.", 1)
        m.tensors[name], m.tensors[other] = m.tensors[other], m.tensors[name]


def _norms_swapped(m: TinyModel) -> None:
    a, b = "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"
    m.tensors[a], m.tensors[b] = m.tensors[b], m.tensors[a]


def _n_rot_less(m: TinyModel) -> None:
    rot = m.hyper.rot - 8
    m.hyper = replace(m.hyper, n_rot=rot)
    for name in m.tensors:
        if name.startswith("rope_f"):
            m.tensors[name] = m.tensors[name][: rot // 2]


def _long_short(m: TinyModel) -> None:
    a, b = "rope_factors_long.weight", "rope_factors_short.weight"
    m.tensors[a], m.tensors[b] = m.tensors[b], m.tensors[a]


def _bias_ignored(part: str) -> Change:
    def change(m: TinyModel) -> None:
        m.attention_part(m.hyper.n_layer - 1, part, "bias")[:] = 0

    return change


def _qkv_order(m: TinyModel) -> None:
    for layer in range(m.hyper.n_layer):
        k, v = m.attention_part(layer, "k"), m.attention_part(layer, "v")
        k[:], v[:] = v.copy(), k.copy()


def _router_order(m: TinyModel) -> None:
    router = m.tensors["blk.0.ffn_gate_inp.weight"]
    router[:] = np.roll(router, 1, axis=0)


def _expert_down_order(m: TinyModel) -> None:
    down = m.tensors["blk.0.ffn_down_exps.weight"]
    down[:] = np.roll(down, 1, axis=0)


def _output_tied(m: TinyModel) -> None:
    m.tensors["output.weight"] = m.tensors["token_embd.weight"].copy()


def _embedding_scale(m: TinyModel) -> None:
    """Embedding rows not multiplied by sqrt(n_embd), while the output matrix is as before."""
    m.tensors.setdefault("output.weight", m.tensors["token_embd.weight"].copy())
    m.tensors["token_embd.weight"] = m.tensors["token_embd.weight"] / np.float32(np.sqrt(m.hyper.n_embd))
    m.hyper = replace(m.hyper, tied=False)
