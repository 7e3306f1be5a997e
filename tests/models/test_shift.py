"""Context shift in the core: after seq_rm in the middle and seq_add, K rows are those of the new positions.

Measures: a context that decoded the kept tokens at the new positions (layer 0, whose K does not depend on attention),
the reference's rotation in double precision (all layers), and llama.cpp's logits after the same edit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pyspec.errors import OptionError
from tests.conftest import TinyFiles
from tests.oracle import Oracle
from tests.reference.forward import Knobs, _rope
from tests.tiny import FAMILIES, build_model

from .support import (
    F16_CACHE_TOLERANCE,
    Cells,
    cells,
    decode_rows,
    open_context,
    prompt,
    random_tokens,
)

Rows = npt.NDArray[np.float64]

CACHE_TYPES = ["f32", "f16", "bf16", "q8_0"]
# Of a turned element against the largest of its row: turned once, rounded once.
TOLERANCE = {"f32": 2e-5, "f16": 1e-3, "bf16": 6e-3, "q8_0": 8e-3}

families = pytest.mark.parametrize("family", list(FAMILIES))
cache_types = pytest.mark.parametrize("kv", CACHE_TYPES)

N_CTX = 1024
KEEP, GAP = 10, 20  # tokens kept at the beginning, and removed behind them
N = 64


def floats(rows: Cells, kv: str) -> Rows:
    """Cells as numbers: (layers and K/V, cells, elements)."""
    if kv == "f32":
        return rows.view(np.float32).astype(np.float64)
    if kv == "f16":
        return rows.view(np.float16).astype(np.float64)
    if kv == "bf16":
        return (rows.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    blocks = rows.reshape(*rows.shape[:2], -1, 34)
    scale = np.ascontiguousarray(blocks[..., :2]).view(np.float16).astype(np.float64)
    return (scale * blocks[..., 2:].view(np.int8)).reshape(*rows.shape[:2], -1)


def k_of(ctx: Any, kv: str) -> Rows:
    """K: (layers, cells, elements)."""
    return floats(cells(ctx).copy(), kv)[::2]


def error(got: Rows, expected: Rows) -> float:
    """Largest difference, as a part of the largest element of the row."""
    return float(np.max(np.abs(got - expected) / np.abs(expected).max(axis=-1, keepdims=True)))


def turned(family: str, k: Rows, delta: int, n_ctx: int = N_CTX) -> Rows:
    """K rows (layers, cells, elements) at positions that differ by delta, in double precision."""
    model = build_model(family)
    h = model.hyper
    weights = {name: data.astype(np.float64) for name, data in model.tensors.items()}
    out = []
    for layer, rows in enumerate(k):
        windowed = h.arch != "phi3" and h.is_windowed(layer)
        heads = rows.reshape(len(rows), h.n_head_kv, h.head_dim)

        def rope(x: Rows, position: int, windowed: bool = windowed) -> Rows:
            at = np.full(len(x), position)
            return np.asarray(_rope(h, weights, x, at, windowed, n_ctx, Knobs()))

        magnitude = rope(np.ones_like(heads), 0)  # the rows have it already
        out.append((rope(heads, delta) / magnitude).reshape(rows.shape))
    return np.stack(out)


def shifted(ctx: Any, tokens: list[int] | tuple[int, ...]) -> None:
    """Decode, remove the gap and close it."""
    decode_rows(ctx, tokens)
    assert ctx.seq_rm(0, KEEP, KEEP + GAP)
    assert ctx.can_seq_add(0, KEEP + GAP, -1, -GAP)
    assert ctx.seq_add(0, KEEP + GAP, -1, -GAP)


@cache_types
@families
def test_k_is_that_of_the_new_positions(tiny: TinyFiles, family: str, kv: str) -> None:
    path = tiny.path(family)
    tokens = prompt(family, N)
    with open_context(path, kv=kv) as ctx, open_context(path, kv=kv) as fresh:
        decode_rows(ctx, tokens)
        before, values = k_of(ctx, kv), floats(cells(ctx).copy(), kv)[1::2]
        ctx.seq_rm(0, -1, -1)
        shifted(ctx, tokens)
        assert (ctx.seq_pos_min(0), ctx.seq_pos_max(0), ctx.n_cells) == (0, N - GAP - 1, N - GAP)
        decode_rows(fresh, [*tokens[:KEEP], *tokens[KEEP + GAP :]])
        after, direct = k_of(ctx, kv), k_of(fresh, kv)
        assert np.array_equal(after[:, :KEEP], before[:, :KEEP])
        assert np.array_equal(after[0, :KEEP], direct[0, :KEEP])
        assert error(after[0], direct[0]) <= 2 * TOLERANCE[kv]  # both are rounded
        expected = turned(family, before[:, KEEP + GAP :], -GAP)
        assert error(after[:, KEEP:], expected) <= TOLERANCE[kv]
        # and it was worth turning them
        assert error(after[:, KEEP:], before[:, KEEP + GAP :]) > 20 * TOLERANCE[kv]
        kept_values = floats(cells(ctx).copy(), kv)[1::2]
        assert np.array_equal(kept_values[:, KEEP:], values[:, KEEP + GAP :])
        row = decode_rows(ctx, tokens[:3])
        assert np.isfinite(row).all() and ctx.seq_pos_max(0) == N - GAP + 2


@families
def test_there_and_back(tiny: TinyFiles, family: str) -> None:
    """Turning by delta and by -delta is within rounding of doing nothing; positions are exact."""
    for kv in CACHE_TYPES:
        with open_context(tiny.path(family), kv=kv) as ctx:
            decode_rows(ctx, prompt(family, N))
            before = k_of(ctx, kv)
            for delta in (900, -900, 1, -1):
                assert ctx.seq_add(0, KEEP, -1, delta)
                assert ctx.seq_pos_max(0) == N - 1 + (delta if delta > 0 else 0)
            after = k_of(ctx, kv)
            assert np.array_equal(before[:, :KEEP], after[:, :KEEP])
            assert error(after, before) <= 4 * TOLERANCE[kv]


@pytest.mark.parametrize("n_ctx", [512, 1024])
def test_long_and_short_factors(tiny: TinyFiles, n_ctx: int) -> None:
    """phi3 has other frequencies for long contexts; K follows those the context has."""
    with open_context(tiny.path("phi3"), n_ctx=n_ctx) as ctx:
        decode_rows(ctx, prompt("phi3", N))
        before = k_of(ctx, "f32")
        assert ctx.seq_add(0, 0, -1, 300)
        ctx.seq_add(0, 0, -1, -300)  # positions from 0 again, to be read
        assert ctx.seq_add(0, 5, -1, 200)
        assert ctx.seq_rm(0, 0, 5) and ctx.seq_add(0, -1, -1, -205)
        after = k_of(ctx, "f32")
        assert error(after, turned("phi3", before[:, 5:], -5, n_ctx)) <= 4 * TOLERANCE["f32"]
        other = turned("phi3", before[:, 5:], -5, 1536 - n_ctx)
        assert error(after, other) > 1e-2


@cache_types
@pytest.mark.parametrize("family", ["llama", "phi3", "gemma3"])
def test_threads_make_no_difference(tiny: TinyFiles, family: str, kv: str) -> None:
    """The same bytes with any number of threads, and in the same cells whatever was decoded together."""
    tokens = random_tokens(len(build_model(family).vocab.texts), 400)
    states = []
    for n_threads, sizes in ((1, 400), (2, 400), (3, 7)):
        with open_context(tiny.path(family), kv=kv, n_threads=n_threads) as ctx:
            decode_rows(ctx, tokens, sizes=sizes)
            for _ in range(3):
                assert ctx.seq_rm(0, 30, 70) and ctx.seq_add(0, 70, -1, -40)
            decode_rows(ctx, tokens[:9])
            states.append(ctx.state_save())
    assert states[0] == states[1] == states[2]


# llama.cpp multiplies K by the magnitude of yarn and longrope again at each shift; there only the reference judges.
SCALED_AGAIN = ("qwen3_yarn", "phi3")


def oracle_error(path: Path, family: str, kv: str, rolls: int) -> Rows:
    """Errors of the rows behind `rolls` edits, ours against llama.cpp's."""
    tokens, more = prompt(family), prompt(family, 24, 0.05)
    with Oracle(path, kv=kv) as oracle, open_context(path, kv=kv) as ctx:
        oracle.decode(tokens)
        decode_rows(ctx, tokens)
        for _ in range(rolls):
            assert oracle.seq_rm(KEEP, KEEP + GAP)
            oracle.seq_add(KEEP + GAP, -1, -GAP)
            assert ctx.seq_rm(0, KEEP, KEEP + GAP)
            assert ctx.seq_add(0, KEEP + GAP, -1, -GAP)
            assert ctx.seq_pos_max(0) == oracle.pos_max
            expected = oracle.decode(more)
            got = decode_rows(ctx, more, sizes=(1, 5, 18))
    return np.max(np.abs(got.astype(np.float64) - expected), axis=1) / (expected.max() - expected.min())


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in SCALED_AGAIN])
def test_logits_are_the_oracles(tiny: TinyFiles, family: str) -> None:
    """Two rolls, decoding between and after them."""
    rows = oracle_error(tiny.path(family), family, "f32", 2)
    # A new history may bring a near tie of experts.
    worst = np.median(rows) if FAMILIES[family].n_expert else rows.max()
    assert worst <= (1e-3 if FAMILIES[family].arch == "gemma3" else 5e-5)


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_logits_are_the_oracles_with_halves(tiny: TinyFiles, family: str) -> None:
    """With q8_0 and its own rotation of the cache turned off llama.cpp crashes when it shifts."""
    assert np.median(oracle_error(tiny.path(family), family, "f16", 2)) <= F16_CACHE_TOLERANCE


@pytest.mark.parametrize(
    ("p0", "p1", "delta"),
    [
        (10, 20, 1),  # onto the next
        (10, 20, -1),  # onto the one before
        (0, 5, -1),
        (0, -1, -1),
        (30, -1, -40),
        (30, -1, 2**31 - 1),
        (0, -1, -(2**31)),
    ],
)
def test_refusals_change_nothing(tiny: TinyFiles, p0: int, p1: int, delta: int) -> None:
    with open_context(tiny.path("llama"), kv="f16") as ctx:
        decode_rows(ctx, prompt("llama", 40))
        before = ctx.state_save()
        assert not ctx.can_seq_add(0, p0, p1, delta)
        with pytest.raises(OptionError, match="would make them negative, too large, or not follow"):
            ctx.seq_add(0, p0, p1, delta)
        assert ctx.state_save() == before


def test_arguments(tiny: TinyFiles) -> None:
    """llama.cpp's meaning: open ends, 0 or -1 as sequence, empty ranges and 0 are fine."""
    with open_context(tiny.path("llama")) as ctx:
        assert ctx.seq_add(0, -1, -1, -5)  # empty memory
        decode_rows(ctx, prompt("llama", 20))
        before = ctx.state_save()
        for arguments in ((0, 5, 5, -3), (0, 30, 40, -100), (0, 9, 4, 7), (-1, -1, -1, 0)):
            assert ctx.can_seq_add(*arguments) and ctx.seq_add(*arguments)
        assert ctx.state_save() == before
        with pytest.raises(OptionError, match="seq_id is 1"):
            ctx.seq_add(1, 0, -1, 5)
        assert not ctx.can_seq_add(1, 0, -1, 5)
        assert ctx.seq_add(-1, 15, -1, 5) and ctx.seq_add(0, -1, 15, 5)
        assert (ctx.seq_pos_min(0), ctx.seq_pos_max(0), ctx.n_cells) == (5, 24, 20)
        ctx.decode([1])
        assert ctx.seq_pos_max(0) == 25


@pytest.mark.parametrize("kind", ["test-full", "test-no"])
def test_memories_that_cannot(tiny: TinyFiles, kind: str) -> None:
    with open_context(tiny.path("llama"), memory_kind=kind) as ctx:
        assert not ctx.can_seq_add(0, 0, -1, 0)
        decode_rows(ctx, prompt("llama", 20))
        before = ctx.state_save()
        assert ctx.seq_add(0, 5, -1, 3) is False
        assert not ctx.can_seq_add(0, 5, -1, 3)
        assert ctx.state_save() == before
