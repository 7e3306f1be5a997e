"""Hyper-parameters of the tiny families and the GGUF keys they are written as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Hyper:
    """What a tiny model looks like. Names follow the GGUF keys; lengths are elements."""

    arch: str
    vocab: Literal["bpe", "spm", "gemma"] = "bpe"
    pre: str = "smollm"
    n_layer: int = 2
    n_embd: int = 128
    n_head: int = 4
    n_head_kv: int = 2
    head_dim: int = 32
    n_ff: int = 192
    n_ctx_train: int = 2048
    rms_eps: float = 1e-2  # large, so that a wrong epsilon shows
    tied: bool = False
    embd_std: float = 1.0
    # rope
    rope_base: float = 10000.0
    rope_base_swa: float | None = None
    n_rot: int | None = None  # None: head_dim
    rope_type: str | None = None  # rope.scaling.type
    rope_factor: float | None = None
    rope_orig_ctx: int | None = None
    rope_attn_factor: float | None = None
    rope_freqs: bool = False  # the llama3 frequency table
    rope_long_short: bool = False  # phi3's two tables
    # attention
    qkv_bias: bool = False
    out_bias: bool = False
    ffn_bias: bool = False
    qk_norm: bool = False
    fused_qkv: bool = False
    window: int | None = None
    window_pattern: tuple[bool, ...] | None = None  # None: the family's default period
    # feed forward
    fused_gate_up: bool = False
    n_expert: int = 0
    n_expert_used: int = 0
    n_ff_expert: int | None = None  # expert_feed_forward_length; None: the key is absent
    post_norms: bool = False  # gemma3
    softcap: float | None = None  # final logits

    @property
    def rot(self) -> int:
        return self.head_dim if self.n_rot is None else self.n_rot

    @property
    def expert_width(self) -> int:
        if self.n_ff_expert is not None:
            return self.n_ff_expert
        return self.n_ff if self.arch == "llama" else self.n_ff // self.n_expert_used

    @property
    def rope_neox(self) -> bool:
        """Pairs (i, i + n_rot/2) instead of (2i, 2i + 1)."""
        return self.arch != "llama"

    def is_windowed(self, layer: int) -> bool:
        if not self.window:
            return False
        if self.window_pattern is not None:
            return self.window_pattern[layer]
        return layer % 6 < 5


_GEMMA3 = Hyper(
    "gemma3",
    vocab="gemma",
    n_layer=7,
    n_head_kv=1,
    n_head=4,
    head_dim=64,
    rope_base=40000.0,
    rope_base_swa=10000.0,
    rope_type="linear",
    rope_factor=2.0,
    qk_norm=True,
    window=24,
    post_norms=True,
    softcap=None,
    tied=True,
    embd_std=0.13,
    pre="",
)

FAMILIES: dict[str, Hyper] = {
    "llama": Hyper("llama"),
    "llama_moe": Hyper("llama", n_ff=96, n_expert=6, n_expert_used=3),
    # Llama 3.2 shape: frequency table, head size unlike n_embd / n_head, tied
    "llama_freqs": Hyper(
        "llama", pre="llama-bpe", head_dim=64, rope_base=500000.0, rope_freqs=True, tied=True, embd_std=0.5
    ),
    # every optional bias, linear rope scaling, SPM vocabulary
    "llama_bias": Hyper(
        "llama",
        vocab="spm",
        pre="default",
        qkv_bias=True,
        out_bias=True,
        ffn_bias=True,
        rope_type="linear",
        rope_factor=4.0,
    ),
    "qwen2": Hyper("qwen2", pre="qwen2", qkv_bias=True, rope_base=1e6),
    "qwen3": Hyper("qwen3", pre="qwen2", qk_norm=True, head_dim=64, rope_base=1e6, tied=True, embd_std=0.5),
    "qwen3_yarn": Hyper(
        "qwen3",
        pre="qwen2",
        qk_norm=True,
        rope_base=1e6,
        rope_type="yarn",
        rope_factor=4.0,
        rope_orig_ctx=512,
    ),
    "qwen3moe": Hyper(
        "qwen3moe",
        pre="qwen2",
        qk_norm=True,
        rope_base=1e6,
        n_ff=224,
        n_ff_expert=64,
        n_expert=8,
        n_expert_used=3,
    ),
    # Phi-4-mini shape: partial rotary, two frequency tables, everything fused
    "phi3": Hyper(
        "phi3",
        vocab="spm",
        pre="default",
        n_rot=24,
        rope_long_short=True,
        rope_orig_ctx=512,
        rope_attn_factor=1.19,
        fused_qkv=True,
        fused_gate_up=True,
        window=16,
    ),
    # window far smaller than the prompts, both layer kinds, two rope bases
    "gemma3": _GEMMA3,
    "gemma3_softcap": Hyper(
        **{**_GEMMA3.__dict__, "softcap": 5.0, "tied": False, "rope_type": None, "rope_factor": None}
    ),
}


def wide(family: str, dtype: str = "q4_k") -> dict[str, Any]:
    """Overrides that make every row length a multiple of 256, as the K-quants need. Types that are slow to write get
    one layer."""
    h = FAMILIES[family]
    sizes: dict[str, Any] = {"n_embd": 256, "head_dim": 64, "n_ff": 256 if h.n_expert else 512}
    if h.n_ff_expert is not None:
        sizes["n_ff_expert"] = 256
    if h.n_rot is not None:
        sizes["n_rot"] = 48
    if is_slow(dtype):
        sizes |= {"n_layer": 1, "n_ff": 256}
    return sizes


def needs_wide(dtype: str) -> bool:
    return dtype not in ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "mxfp4")


def is_slow(dtype: str) -> bool:
    """Types whose quantiser first builds tables for seconds, then searches them."""
    return dtype.startswith(("iq1", "iq2"))


def metadata(h: Hyper) -> list[tuple[str, str, Any]]:
    """The keys of a model as (key, GGUF type, value). The tokenizer's keys are added by `vocabulary`."""
    a = h.arch
    keys: list[tuple[str, str, Any]] = [
        ("general.name", "str", f"tiny random {a}"),
        (f"{a}.context_length", "u32", h.n_ctx_train),
        (f"{a}.embedding_length", "u32", h.n_embd),
        (f"{a}.block_count", "u32", h.n_layer),
        (f"{a}.feed_forward_length", "u32", h.n_ff),
        (f"{a}.attention.head_count", "u32", h.n_head),
        (f"{a}.attention.head_count_kv", "u32", h.n_head_kv),
        (f"{a}.attention.layer_norm_rms_epsilon", "f32", h.rms_eps),
        (f"{a}.rope.freq_base", "f32", h.rope_base),
    ]

    def optional(key: str, kind: str, value: Any) -> None:
        if value is not None:
            keys.append((f"{a}.{key}", kind, value))

    if h.head_dim * h.n_head != h.n_embd:
        optional("attention.key_length", "u32", h.head_dim)
        optional("attention.value_length", "u32", h.head_dim)
    if h.arch in ("llama", "phi3") or h.n_rot is not None:
        optional("rope.dimension_count", "u32", h.rot)
    optional("rope.freq_base_swa", "f32", h.rope_base_swa)
    optional("rope.scaling.type", "str", h.rope_type)
    optional("rope.scaling.factor", "f32", h.rope_factor)
    optional("rope.scaling.original_context_length", "u32", h.rope_orig_ctx)
    optional("rope.scaling.attn_factor", "f32", h.rope_attn_factor)
    optional("attention.sliding_window", "u32", h.window)
    optional("attention.sliding_window_pattern", "bools", h.window_pattern)
    optional("final_logit_softcapping", "f32", h.softcap)
    if h.n_expert:
        optional("expert_count", "u32", h.n_expert)
        optional("expert_used_count", "u32", h.n_expert_used)
        optional("expert_feed_forward_length", "u32", h.n_ff_expert)
    return keys
