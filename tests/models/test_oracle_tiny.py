"""Logits of every family against llama.cpp and against the NumPy reference, on tiny models whose every part
matters.

test_perturbations.py shows that these comparisons fail when anything is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conftest import TinyFiles
from tests.oracle import Oracle
from tests.reference import forward
from tests.tiny import DTYPES, FAMILIES, build_model, is_slow, make_model, round_trip, wide, write_model

from .support import (
    F16_CACHE_TOLERANCE,
    F32_TOLERANCE,
    Q8_CACHE_TOLERANCE,
    decode_rows,
    f32_tolerance,
    open_context,
    oracle_logits,
    prompt,
    pyspec_logits,
    random_tokens,
    relative_error,
    row_errors,
)

families = pytest.mark.parametrize("family", list(FAMILIES))


@families
@pytest.mark.parametrize(
    "sizes", [64, 1, 7, (3, 61)], ids=["one chunk", "single tokens", "chunks of 7", "3 then 61"]
)
def test_f32(tiny: TinyFiles, family: str, sizes: int | tuple[int, ...]) -> None:
    path = tiny.path(family)
    tokens = prompt(family)
    expected = oracle_logits(path, tokens)
    assert relative_error(pyspec_logits(path, tokens, sizes=sizes), expected) <= f32_tolerance(family)


@families
def test_f32_small_micro_batches_and_two_threads(tiny: TinyFiles, family: str) -> None:
    path = tiny.path(family)
    tokens = prompt(family)
    ours = pyspec_logits(path, tokens, n_ubatch=16, n_threads=2)
    assert relative_error(ours, oracle_logits(path, tokens)) <= f32_tolerance(family)


@families
def test_reference_agrees_with_the_oracle(tiny: TinyFiles, family: str) -> None:
    """The NumPy reference is only worth something if llama.cpp computes the same."""
    tokens = prompt(family)
    trace = forward(build_model(family), tokens)
    assert relative_error(oracle_logits(tiny.path(family), tokens), trace.logits) <= f32_tolerance(family)


@families
def test_f16_cache(tiny: TinyFiles, family: str) -> None:
    path, tokens = tiny.path(family), prompt(family)
    ours = pyspec_logits(path, tokens, kv="f16")
    assert relative_error(ours, oracle_logits(path, tokens, kv="f16")) <= F16_CACHE_TOLERANCE
    assert relative_error(ours, oracle_logits(path, tokens)) <= F16_CACHE_TOLERANCE


@families
def test_bf16_cache(tiny: TinyFiles, family: str) -> None:
    """bf16 keeps 8 bits where f16 keeps 11."""
    path, tokens = tiny.path(family), prompt(family, 24, 0.05)
    ours = pyspec_logits(path, tokens, kv="bf16")
    assert relative_error(ours, oracle_logits(path, tokens, kv="bf16")) <= 8 * F16_CACHE_TOLERANCE
    assert relative_error(ours, oracle_logits(path, tokens)) <= 8 * F16_CACHE_TOLERANCE


@families
def test_q8_0_cache(tiny: TinyFiles, family: str) -> None:
    path, tokens = tiny.path(family), prompt(family, 24, 0.05)
    ours = pyspec_logits(path, tokens, kv="q8_0")
    assert relative_error(ours, oracle_logits(path, tokens, kv="q8_0", flash=True)) <= Q8_CACHE_TOLERANCE


QUANTISED: list[Any] = [
    pytest.param("llama", d, marks=pytest.mark.long) if is_slow(d) else ("llama", d)
    for d in DTYPES
    if d != "f32"
]
QUANTISED += [(f, d) for f in FAMILIES if f != "llama" for d in ("f16", "q8_0", "q4_k")]
QUANTISED += [("llama_moe", d) for d in ("q6_k", "q4_0", "mxfp4", "iq4_xs")]


@pytest.mark.parametrize(("family", "dtype"), QUANTISED)
def test_quantised_weights(tiny: TinyFiles, family: str, dtype: str) -> None:
    """Our distance from an f32 run on the dequantised weights is at most one and a half times the oracle's own.

    Mixtures: quantised activations move router logits by a tenth, and a decision that turns at one position for one
    side only says nothing. There the typical position is compared.
    """
    path = tiny.path(family, dtype=dtype)
    tokens = prompt(family, 16, 0.1)
    exact = oracle_logits(tiny.path(family, dtype=dtype, dequantised=True), tokens)
    typical = np.median if "moe" in family else np.max
    theirs = float(typical(row_errors(oracle_logits(path, tokens), exact)))
    ours = float(typical(row_errors(pyspec_logits(path, tokens), exact)))
    assert ours <= max(1.5 * theirs, f32_tolerance(family)), f"ours {ours:.2e}, oracle {theirs:.2e}"


def test_types_may_differ_per_tensor(tiny: TinyFiles, tmp_path: Any) -> None:
    """Real files mix types: K-quants, legacy types and f16 side by side."""
    model = build_model("llama", overrides=wide("llama"))
    mixed = ["q4_k", "q6_k", "q5_0", "f16", "q8_0", "f32", "q4_1", "bf16"]
    matrices = [n for n, data in model.tensors.items() if data.ndim == 2]
    types = {name: mixed[i % len(mixed)] for i, name in enumerate(matrices)}
    path = write_model(model, tmp_path / "mixed.gguf", types=types)
    model.tensors |= {name: round_trip(model.tensors[name], kind) for name, kind in types.items()}
    tokens = prompt("llama")
    exact = oracle_logits(write_model(model, tmp_path / "dequantised.gguf"), tokens)
    theirs = relative_error(oracle_logits(path, tokens), exact)
    assert relative_error(pyspec_logits(path, tokens), exact) <= 1.5 * theirs


# The same maths in another layout or with another optional key.
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama fused qkv": ("llama", {"fused_qkv": True}),
    "llama tied": ("llama", {"tied": True}),
    "llama one kv head": ("llama", {"n_head_kv": 1}),
    "llama all heads": ("llama", {"n_head_kv": 4}),
    "llama longrope": ("llama", {"rope_type": "longrope", "rope_long_short": True, "rope_orig_ctx": 512}),
    "llama yarn": ("llama", {"rope_type": "yarn", "rope_factor": 8.0, "rope_orig_ctx": 256}),
    "llama explicit none": ("llama", {"rope_type": "none", "rope_factor": 8.0}),
    "qwen2 fused qkv and bias": ("qwen2", {"fused_qkv": True}),
    "qwen2 tied": ("qwen2", {"tied": True}),
    "qwen3 untied": ("qwen3", {"tied": False}),
    "qwen3 with bias": ("qwen3", {"qkv_bias": True}),
    "qwen3moe width from n_ff": ("qwen3moe", {"n_ff_expert": None, "n_ff": 192}),
    "llama_moe one expert": ("llama_moe", {"n_expert_used": 1}),
    "llama_moe all experts": ("llama_moe", {"n_expert_used": 6}),
    "phi3 separate": ("phi3", {"fused_qkv": False}),
    "phi3 whole rotary, no tables": (
        "phi3",
        {"n_rot": None, "rope_long_short": False, "rope_attn_factor": None},
    ),
    "phi3 tied": ("phi3", {"tied": True}),
    "gemma3 no window": ("gemma3", {"window": None}),
    "gemma3 pattern key": ("gemma3", {"window_pattern": (False, True, True, False, True, False, True)}),
    "gemma3 default swa base": ("gemma3", {"rope_base_swa": None}),
    "gemma3 thirteen layers": ("gemma3", {"n_layer": 13}),
}


@pytest.mark.parametrize("form", list(FORMS))
def test_optional_forms(tiny: TinyFiles, form: str) -> None:
    family, overrides = FORMS[form]
    path = tiny.path(family, overrides=overrides)
    tokens = prompt(family, 64, 0.01, tuple(overrides.items()))
    assert relative_error(pyspec_logits(path, tokens), oracle_logits(path, tokens)) <= f32_tolerance(family)


@pytest.mark.parametrize("n_ctx", [256, 512, 513, 1024])
@pytest.mark.parametrize("family", ["phi3", "llama"])
def test_frequency_table_follows_the_configured_context(tiny: TinyFiles, family: str, n_ctx: int) -> None:
    """phi3 (and llama with longrope) takes the long table when n_ctx is above the original context of 512.
    llama.cpp rounds n_ctx up to a multiple of 256 first, which 513 shows to be harmless."""
    overrides = {} if family == "phi3" else FORMS["llama longrope"][1]
    path = tiny.path(family, overrides=overrides)
    tokens = prompt(family)
    ours = pyspec_logits(path, tokens, n_ctx=n_ctx)
    assert relative_error(ours, oracle_logits(path, tokens, n_ctx=n_ctx)) <= F32_TOLERANCE
    other = oracle_logits(path, tokens, n_ctx=1024 if n_ctx <= 512 else 512)
    assert relative_error(ours, other) > 100 * F32_TOLERANCE


@families
def test_long_prompt(tiny: TinyFiles, family: str) -> None:
    """Past 512 cells, several micro-batches; for the sliding window more than twenty windows."""
    path = tiny.path(family)
    tokens = random_tokens(len(build_model(family).vocab.texts), 640)
    ours, theirs = pyspec_logits(path, tokens), oracle_logits(path, tokens)
    if FAMILIES[family].n_expert:  # 640 tokens always hold a near tie of experts: then judge the median row
        rows = np.max(np.abs(ours - theirs), axis=1) / (theirs.max() - theirs.min())
        assert np.median(rows) <= F32_TOLERANCE
    else:
        assert relative_error(ours, theirs) <= f32_tolerance(family)


@families
@pytest.mark.parametrize(
    ("p0", "p1"), [(40, -1), (40, 64), (10, 20), (0, 5), (63, 64), (1, 60), (-1, 8), (-1, -1)]
)
def test_after_seq_rm(tiny: TinyFiles, family: str, p0: int, p1: int) -> None:
    """Tail, middle, start and everything: what follows is as in the oracle after the same removal."""
    path = tiny.path(family)
    tokens = prompt(family)
    more = prompt(family, 24, 0.05)
    with Oracle(path) as oracle, open_context(path) as ctx:
        oracle.decode(tokens)
        decode_rows(ctx, tokens)
        assert oracle.seq_rm(p0, p1)
        assert ctx.seq_rm(0, p0, p1)
        assert ctx.seq_pos_max(0) == oracle.pos_max
        expected = oracle.decode(more)
        got = decode_rows(ctx, more, sizes=(1, 5, 18))
        assert ctx.seq_pos_max(0) == oracle.pos_max
    rows = np.max(np.abs(got - expected), axis=1) / (expected.max() - expected.min())
    if FAMILIES[family].n_expert:  # the shortened history may bring a near tie of experts
        assert np.median(rows) <= F32_TOLERANCE
    else:
        assert rows.max() <= f32_tolerance(family)


@families
def test_after_save_and_restore(tiny: TinyFiles, family: str) -> None:
    """A state restored into a fresh context continues as the oracle does without interruption."""
    path = tiny.path(family)
    tokens = prompt(family)
    expected = oracle_logits(path, tokens)
    with open_context(path) as ctx:
        decode_rows(ctx, tokens[:40])
        state = ctx.state_save()
        decode_rows(ctx, random_tokens(ctx.n_vocab, 9))
    with open_context(path) as fresh:
        fresh.state_restore(state)
        assert fresh.seq_pos_max(0) == 39
        got = decode_rows(fresh, tokens[40:])
    assert relative_error(got, expected[40:], expected) <= f32_tolerance(family)


def test_restore_after_removal_keeps_positions(tiny: TinyFiles) -> None:
    """The state holds positions, not just rows: save after a removal in the middle, restore elsewhere, go
    on."""
    path, tokens, more = tiny.path("llama"), prompt("llama"), prompt("llama", 24)
    with Oracle(path) as oracle, open_context(path) as ctx, open_context(path) as other:
        oracle.decode(tokens)
        decode_rows(ctx, tokens)
        oracle.seq_rm(12, 30)
        ctx.seq_rm(0, 12, 30)
        other.state_restore(ctx.state_save())
        assert relative_error(decode_rows(other, more), oracle.decode(more)) <= F32_TOLERANCE


@pytest.mark.parametrize("split", [1, 5])
def test_split_file_equals_single_file(tiny: TinyFiles, split: int) -> None:
    """C099 (lemonade-sdk/lemonade#499): parts given in order are one model."""
    tokens = prompt("qwen2")
    whole = pyspec_logits(tiny.path("qwen2"), tokens)
    parts = pyspec_logits(tiny.path("qwen2", split=split), tokens)
    assert whole.tobytes() == parts.tobytes()


def test_positions_with_gaps(tiny: TinyFiles) -> None:
    """Explicit positions; llama.cpp refuses gaps, so the reference judges."""
    tokens = prompt("llama", 24)
    positions = [i + 3 * (i // 5) for i in range(len(tokens))]
    expected = forward(build_model("llama"), tokens, positions=positions).logits
    with open_context(tiny.path("llama")) as ctx:
        ctx.decode(tokens, outputs="all", positions=positions)
        got = np.stack([np.array(ctx.logits(i)) for i in range(len(tokens))])
    assert relative_error(got, expected) <= F32_TOLERANCE


@families
def test_greedy_text(tiny: TinyFiles, family: str) -> None:
    """Forty greedy tokens, fed back one by one, equal the oracle's."""
    path = tiny.path(family)
    start = list(prompt(family))[:8]
    with Oracle(path) as oracle:
        expected = oracle.greedy(start, 40)
    out: list[int] = []
    with open_context(path) as ctx:
        row = decode_rows(ctx, start)[-1]
        while len(out) < 40:
            out.append(int(np.argmax(row)))
            row = decode_rows(ctx, out[-1:])[-1]
    assert out == expected


@families
def test_taps_equal_the_reference(tiny: TinyFiles, family: str) -> None:
    """Hidden states of every layer, one row per token, whatever the output flags and micro-batches."""
    from pyspec.core.context import TAP_FINAL

    tokens = prompt(family)
    trace = forward(build_model(family), tokens)
    n_layer = FAMILIES[family].n_layer
    expected = {**dict(enumerate(trace.layers)), TAP_FINAL: trace.final}
    layers = [*range(n_layer + 1), TAP_FINAL]
    with open_context(tiny.path(family), n_ubatch=24) as ctx:
        ctx.set_taps(layers)
        ctx.decode(tokens)  # only the last row gives logits
        for i, layer in enumerate(layers):
            got = np.array(ctx.taps(i))
            assert got.shape == (len(tokens), FAMILIES[family].n_embd)
            assert relative_error(got, expected[layer]) <= f32_tolerance(family), f"layer {layer}"
        ctx.set_taps([])
        ctx.decode([1])
        with pytest.raises(Exception, match="tap"):
            ctx.taps(0)


def test_make_model_is_reproducible(tmp_path: Any) -> None:
    """The same seed gives the same file, so failures can be repeated."""
    a = make_model("qwen3moe", tmp_path / "a.gguf", dtype="q8_0").read_bytes()
    b = make_model("qwen3moe", tmp_path / "b.gguf", dtype="q8_0").read_bytes()
    assert a == b
