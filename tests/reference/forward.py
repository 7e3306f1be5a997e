"""Forward pass of the tiny models in NumPy: all tokens at once, no cache, float64 unless asked otherwise.

Returns everything a test may want to compare: logits, the residual stream entering each layer, the stream
after the output norm, and how close each routing decision was. `Knobs` turns on one deliberate mistake, for
tests that must be able to fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.tiny import Hyper, TinyModel

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Knobs:
    """Deliberate mistakes that no file can express."""

    causal_shift: int = (
        0  # +1: a query sees the next token too; -1: not even itself (the first token keeps itself)
    )
    window_shift: int = 0  # keys seen by windowed layers, beside what the file says
    other_rope: bool = False  # the other pairing
    rope_half_head: bool = False  # partial rotary pairs (i, i + head_dim/2) instead of (i, i + n_rot/2)
    norm_after_rope: bool = False  # QK norm after the rotation
    renormalise_experts: bool = True
    other_activation: bool = False  # silu <-> gelu
    post_norm_after_add: bool = False  # gemma3: norm of the sum instead of the branch
    embedding_unscaled: bool = False
    swa_base_everywhere: bool = False
    scale_on_swa_too: bool = False  # linear factor on windowed layers


@dataclass
class Trace:
    logits: Array  # (T, n_vocab)
    layers: list[
        Array
    ]  # n_layer + 1 of (T, n_embd): the stream entering layer i; the last is after all layers
    final: Array  # (T, n_embd) after the output norm
    router_margins: list[Array] = field(
        default_factory=list
    )  # per layer (T,): last chosen minus first not chosen logit


def forward(
    model: TinyModel,
    tokens: Sequence[int],
    *,
    n_ctx: int = 1024,
    visible: Array | None = None,
    positions: Sequence[int] | None = None,
    knobs: Knobs | None = None,
    dtype: Any = np.float64,
) -> Trace:
    """Compute all tokens of one sequence.

    n_ctx      configured context: decides between phi3's two frequency tables
    visible    (T, T) bool, further restricts which key (column) a query (row) sees, as after a removal
    positions  default 0, 1, 2, …
    """
    k = knobs or Knobs()
    h = model.hyper
    w = {name: data.astype(dtype) for name, data in model.tensors.items()}
    p = np.arange(len(tokens)) if positions is None else np.asarray(positions)
    distance = p[:, None] - p[None, :]
    causal = distance >= -k.causal_shift
    if k.causal_shift < 0:
        causal[0, 0] = True
    if visible is not None:
        causal = causal & visible

    x = w["token_embd.weight"][np.asarray(tokens)]
    if h.arch == "gemma3" and not k.embedding_unscaled:
        x = x * dtype(np.sqrt(np.float32(h.n_embd)))
    trace = Trace(np.empty(0), [], np.empty(0))
    for layer in range(h.n_layer):
        trace.layers.append(x)
        windowed = h.arch != "phi3" and h.is_windowed(layer)
        mask = causal & (distance < (h.window or 0) + k.window_shift) if windowed else causal
        x = _layer(h, w, layer, x, p, mask, windowed, n_ctx, k, trace)
    trace.layers.append(x)
    trace.final = _rms(x, w["output_norm.weight"], h)
    logits = trace.final @ w["token_embd.weight" if h.tied else "output.weight"].T
    trace.logits = h.softcap * np.tanh(logits / h.softcap) if h.softcap else logits
    return trace


def _layer(
    h: Hyper,
    w: dict[str, Array],
    layer: int,
    x: Array,
    p: Array,
    mask: Array,
    windowed: bool,
    n_ctx: int,
    k: Knobs,
    trace: Trace,
) -> Array:
    b = f"blk.{layer}."
    y = _attention(h, w, layer, _rms(x, w[b + "attn_norm.weight"], h), p, mask, windowed, n_ctx, k)
    x = _add(h, w, b + "post_attention_norm.weight", x, y, k)
    u = _rms(x, w[b + "ffn_norm.weight"], h)
    y = _experts(h, w, b, u, k, trace) if h.n_expert else _dense(h, w, b, u, k)
    return _add(h, w, b + "post_ffw_norm.weight", x, y, k)


def _add(h: Hyper, w: dict[str, Array], norm: str, x: Array, y: Array, k: Knobs) -> Array:
    if not h.post_norms:
        return x + y
    return _rms(x + y, w[norm], h) if k.post_norm_after_add else x + _rms(y, w[norm], h)


def _rms(x: Array, weight: Array, h: Hyper) -> Array:
    eps = x.dtype.type(np.float32(h.rms_eps))
    normed: Array = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight
    return normed


def _attention(
    h: Hyper,
    w: dict[str, Array],
    layer: int,
    u: Array,
    p: Array,
    mask: Array,
    windowed: bool,
    n_ctx: int,
    k: Knobs,
) -> Array:
    b = f"blk.{layer}."
    if h.fused_qkv:
        qkv = u @ w[b + "attn_qkv.weight"].T + w.get(b + "attn_qkv.bias", 0)
        q, key, v = np.split(qkv, [h.n_head * h.head_dim, (h.n_head + h.n_head_kv) * h.head_dim], axis=1)
    else:
        q, key, v = (u @ w[b + f"attn_{c}.weight"].T + w.get(b + f"attn_{c}.bias", 0) for c in "qkv")
    n = len(u)
    q, key, v = (a.reshape(n, -1, h.head_dim) for a in (q, key, v))

    def normed(a: Array, name: str) -> Array:
        return _rms(a, w[b + name], h) if h.qk_norm else a

    def rotated(a: Array) -> Array:
        return _rope(h, w, a, p, windowed, n_ctx, k)

    if k.norm_after_rope:
        q, key = normed(rotated(q), "attn_q_norm.weight"), normed(rotated(key), "attn_k_norm.weight")
    else:
        q, key = rotated(normed(q, "attn_q_norm.weight")), rotated(normed(key, "attn_k_norm.weight"))
    group = h.n_head // h.n_head_kv
    q, key, v = (np.ascontiguousarray(a.transpose(1, 0, 2)) for a in (q, key, v))  # (heads, T, head_dim)
    key, v = np.repeat(key, group, axis=0), np.repeat(v, group, axis=0)
    scores = np.where(mask, q @ key.transpose(0, 2, 1) / np.sqrt(h.head_dim), -np.inf)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    scores /= scores.sum(axis=-1, keepdims=True)
    out = (scores @ v).transpose(1, 0, 2).reshape(n, -1)
    result: Array = out @ w[b + "attn_output.weight"].T + w.get(b + "attn_output.bias", 0)
    return result


def _rope(h: Hyper, w: dict[str, Array], a: Array, p: Array, windowed: bool, n_ctx: int, k: Knobs) -> Array:
    n_rot, half = h.rot, h.rot // 2
    swa = windowed and h.arch == "gemma3"
    base = (h.rope_base_swa or 10000.0) if swa or k.swa_base_everywhere else h.rope_base
    factors: Array = np.ones(half)
    if "rope_freqs.weight" in w:
        factors = w["rope_freqs.weight"]
    if h.rope_long_short:
        factors = w[
            "rope_factors_long.weight" if n_ctx > (h.rope_orig_ctx or 0) else "rope_factors_short.weight"
        ]
    extrapolated = p[:, None] * base ** (-2.0 * np.arange(half) / n_rot) / factors
    scaled = h.rope_factor is not None and h.rope_type != "none" and (not swa or k.scale_on_swa_too)
    scale = 1.0 / (h.rope_factor or 1.0) if scaled else 1.0
    theta, magnitude = extrapolated * scale, h.rope_attn_factor or 1.0
    if h.rope_type == "yarn" and scaled:

        def correction(beta: float) -> float:
            return float(
                n_rot * np.log((h.rope_orig_ctx or h.n_ctx_train) / (beta * 2 * np.pi)) / (2 * np.log(base))
            )

        low, high = max(0.0, np.floor(correction(32.0))), min(n_rot - 1.0, np.ceil(correction(1.0)))
        ramp = 1 - np.clip((np.arange(half) - low) / max(0.001, high - low), 0, 1)
        theta = theta * (1 - ramp) + extrapolated * ramp
        magnitude *= 1 + 0.1 * np.log(1 / scale)
    cos, sin = (np.cos(theta) * magnitude)[:, None, :], (np.sin(theta) * magnitude)[:, None, :]
    if h.rope_neox != k.other_rope:
        second = h.head_dim // 2 if k.rope_half_head else half
        i0, i1 = np.arange(half), np.arange(half) + second
    else:
        i0, i1 = np.arange(0, n_rot, 2), np.arange(1, n_rot, 2)
    out: Array = a.copy()
    out[:, :, i0] = a[:, :, i0] * cos - a[:, :, i1] * sin
    out[:, :, i1] = a[:, :, i0] * sin + a[:, :, i1] * cos
    return out


def _activation(h: Hyper, x: Array, k: Knobs) -> Array:
    if (h.arch == "gemma3") == k.other_activation:
        silu: Array = x / (1 + np.exp(-x))
        return silu
    # ggml's CPU backend looks the tanh form up in a table of halves
    z = np.clip(x, -10, 10).astype(np.float16).astype(np.float32)
    table = (0.5 * z * (1 + np.tanh(np.float32(0.79788456) * z * (1 + np.float32(0.044715) * z * z)))).astype(
        np.float16
    )
    return np.where(x >= 10, x, np.where(x <= -10, 0, table.astype(x.dtype)))


def _dense(h: Hyper, w: dict[str, Array], b: str, u: Array, k: Knobs) -> Array:
    if h.fused_gate_up:
        gate, up = np.split(u @ w[b + "ffn_up.weight"].T, 2, axis=1)
    else:
        gate = u @ w[b + "ffn_gate.weight"].T + w.get(b + "ffn_gate.bias", 0)
        up = u @ w[b + "ffn_up.weight"].T + w.get(b + "ffn_up.bias", 0)
    result: Array = (_activation(h, gate, k) * up) @ w[b + "ffn_down.weight"].T + w.get(
        b + "ffn_down.bias", 0
    )
    return result


def _experts(h: Hyper, w: dict[str, Array], b: str, u: Array, k: Knobs, trace: Trace) -> Array:
    logits = u @ w[b + "ffn_gate_inp.weight"].T
    order = np.argsort(-logits, axis=1, kind="stable")
    chosen = order[:, : h.n_expert_used]
    ranked = np.take_along_axis(logits, order, axis=1)
    if h.n_expert_used < h.n_expert:
        trace.router_margins.append(ranked[:, h.n_expert_used - 1] - ranked[:, h.n_expert_used])
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    weight = np.take_along_axis(p, chosen, axis=1)
    if k.renormalise_experts:
        weight = weight / np.maximum(weight.sum(axis=1, keepdims=True), 6.103515625e-5)
    # every expert for every token, then the chosen ones: wasteful and short
    gate = u @ w[b + "ffn_gate_exps.weight"].transpose(0, 2, 1)
    up = u @ w[b + "ffn_up_exps.weight"].transpose(0, 2, 1)
    outputs = (_activation(h, gate, k) * up) @ w[b + "ffn_down_exps.weight"].transpose(
        0, 2, 1
    )  # (experts, T, n_embd)
    out = np.zeros_like(u)
    for rank in range(h.n_expert_used):
        out += weight[:, rank, None] * outputs[chosen[:, rank], np.arange(len(u))]
    return out
