"""A token's logits, hidden states and cache cells do not depend on what is decoded beside it. Compared byte
for byte.

The measure is always the same text decoded one token at a time, in one thread, without ever going back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import TinyFiles
from tests.tiny import DTYPES, FAMILIES, needs_wide

from .support import WEIGHT_TYPES, Cells, Logits, cells, chunks, decode_rows, open_context, random_tokens

SHORT_WIDTHS = [*range(2, 18), 33]
ALL_WIDTHS = [*range(2, 18), 24, 33, 48, 64, 65, 128, 512]
LENGTH = 560  # tokens of the common text, past 512 cells
STARTS = [530, 505, 60, 0]  # cells in front of the batch: beyond 512, across 512, below

families = pytest.mark.parametrize("family", list(FAMILIES))
# Graphs that differ; the two left out only differ in numbers handed to the same operations.
graphs = pytest.mark.parametrize("family", [f for f in FAMILIES if f not in ("qwen3_yarn", "gemma3_softcap")])


@functools.lru_cache(maxsize=64)
def measure(path: Path, kv: str, n_ctx: int = 1024) -> tuple[tuple[int, ...], Logits, Cells]:
    """Tokens, logits and cells of the common text, or of what n_ctx takes of it."""
    with open_context(path, kv=kv, n_threads=1, n_ctx=n_ctx) as ctx:
        tokens = random_tokens(ctx.n_vocab, min(LENGTH, n_ctx), seed=7)
        rows = decode_rows(ctx, tokens, sizes=1)
        return tuple(tokens), rows, cells(ctx)


def one_by_one(path: Path, kv: str) -> tuple[tuple[int, ...], Logits]:
    return measure(path, kv)[:2]


def same(got: Logits, expected: Logits, what: str) -> int:
    """Number of rows compared; fails with the first row and column that differ."""
    if got.tobytes() != expected.tobytes():
        row, column = np.argwhere(got.view(np.uint32) != expected.view(np.uint32))[0]
        worst = float(np.max(np.abs(got - expected)))
        pytest.fail(
            f"{what}: row {row} of {len(got)} differs first at id {column}; largest difference {worst:.3g}"
        )
    return len(got)


def same_cells(ctx: Any, expected: Cells, what: str) -> None:
    """The cells in use against as many of the measure; fails with the first that differs."""
    got = cells(ctx)
    want = expected[:, : got.shape[1]]
    if not np.array_equal(got, want):
        part, cell, byte = np.argwhere(got != want)[0]
        name = "KV"[part % 2]
        pytest.fail(
            f"{what}: cell {cell} of {got.shape[1]} differs in {name} of layer {part // 2}, byte {byte}"
        )


def check_widths(path: Path, kv: str, widths: Sequence[int], starts: Sequence[int], **options: Any) -> int:
    """Decode batches of every width behind every number of cells, then one token more, which reads the
    batch's cells; and the cells themselves."""
    tokens, expected, expected_cells = measure(path, kv)
    compared = 0
    with open_context(path, kv=kv, **options) as ctx:
        compared += same(
            decode_rows(ctx, tokens[: starts[0]]), expected[: starts[0]], f"{starts[0]} tokens at once"
        )
        for start in starts:
            for n in widths:
                if start + n >= LENGTH:
                    continue
                assert ctx.seq_rm(0, start, -1)
                ctx.decode(tokens[start : start + n], outputs="all")
                got = np.stack([np.array(ctx.logits(i)) for i in range(n)])
                compared += same(got, expected[start : start + n], f"width {n} after {start} cells")
                ctx.decode(tokens[start + n : start + n + 1])
                after = np.array(ctx.logits(0))[None]
                compared += same(
                    after, expected[start + n : start + n + 1], f"the token after width {n} at {start}"
                )
                same_cells(ctx, expected_cells, f"width {n} after {start} cells")
    return compared


@families
def test_width_does_not_matter(tiny: TinyFiles, family: str, count_cases: Callable[[int], None]) -> None:
    count_cases(check_widths(tiny.path(family), "f16", SHORT_WIDTHS, STARTS))


@pytest.mark.parametrize("dtype", WEIGHT_TYPES)
def test_width_does_not_matter_for_any_weight_type(
    tiny: TinyFiles, dtype: str, count_cases: Callable[[int], None]
) -> None:
    path = tiny.path("llama", dtype=dtype)
    count_cases(check_widths(path, "f16", [2, 3, 4, 7, 8, 16, 17], [505, 0]))


@pytest.mark.parametrize("kv", ["f32", "bf16", "q8_0"])
@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3"])
def test_width_does_not_matter_for_any_cache_type(
    tiny: TinyFiles, family: str, kv: str, count_cases: Callable[[int], None]
) -> None:
    count_cases(check_widths(tiny.path(family), kv, SHORT_WIDTHS, STARTS))


@pytest.mark.parametrize("dtype", ["q4_k", "q6_k", "q8_0", "q4_0", "mxfp4"])
@pytest.mark.parametrize("family", ["llama_moe", "qwen3moe"])
def test_width_does_not_matter_for_quantised_experts(
    tiny: TinyFiles, family: str, dtype: str, count_cases: Callable[[int], None]
) -> None:
    count_cases(check_widths(tiny.path(family, dtype=dtype), "f16", [2, 3, 5, 8, 17, 33], [505, 0]))


@pytest.mark.long
@pytest.mark.parametrize("kv", ["f16", "f32", "bf16", "q8_0"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "q8_0", "q4_k", "q6_k", "q5_0"])
@families
def test_all_widths(
    tiny: TinyFiles, family: str, dtype: str, kv: str, count_cases: Callable[[int], None]
) -> None:
    """Everything with everything, widths up to 512, both thread counts. Wide models have 256 columns and 64
    per head."""
    path = tiny.path(family, dtype=dtype)
    for threads in (1, 2):
        count_cases(check_widths(path, kv, ALL_WIDTHS, [530, 505, 45, 0], n_threads=threads))


@graphs
@pytest.mark.parametrize("n_ubatch", [5, 64, 512])
def test_chunks_and_micro_batches_do_not_matter(
    tiny: TinyFiles, family: str, n_ubatch: int, count_cases: Callable[[int], None]
) -> None:
    path = tiny.path(family)
    tokens, expected = one_by_one(path, "f16")
    random = np.random.default_rng(n_ubatch)
    for sizes in ([512], [int(n) for n in random.integers(1, 90, 40)]):
        with open_context(path, kv="f16", n_ubatch=n_ubatch, n_batch=512) as ctx:
            got = decode_rows(ctx, tokens, sizes=sizes)
        count_cases(same(got, expected, f"chunks {sizes[:4]}…, n_ubatch {n_ubatch}"))


@pytest.mark.parametrize("kv", ["f16", "q8_0"])
@pytest.mark.parametrize(
    ("family", "dtype"),
    [("llama", "f32"), ("llama", "q4_k"), ("gemma3", "f16"), ("qwen3moe", "q8_0"), ("phi3", "q6_k")],
)
def test_threads_do_not_matter(
    tiny: TinyFiles, family: str, dtype: str, kv: str, count_cases: Callable[[int], None]
) -> None:
    """Two threads against one, below and above 512 cells. (More threads than free cores are slow, not wrong.)"""
    path = tiny.path(family, dtype=dtype)
    tokens, expected = one_by_one(path, kv)
    with open_context(path, kv=kv, n_threads=2) as ctx:
        got = decode_rows(ctx, tokens, sizes=[1, 2, 4, 17, 64, 400, 30, 9, 1, 3])
    count_cases(same(got, expected, "two threads"))


@graphs
def test_context_size_does_not_matter(tiny: TinyFiles, family: str) -> None:
    """Only the kept tokens count, not how many cells there are (phi3's tables switch at 512, so stay
    above)."""
    path = tiny.path(family)
    tokens, expected = one_by_one(path, "f16")
    for n_ctx in (LENGTH, 2048):
        with open_context(path, kv="f16", n_ctx=n_ctx) as ctx:
            same(decode_rows(ctx, tokens), expected, f"n_ctx {n_ctx}")


@graphs
def test_output_flags_do_not_matter(tiny: TinyFiles, family: str) -> None:
    """Rows that are not asked for change nothing in those that are."""
    path = tiny.path(family)
    tokens, expected = one_by_one(path, "f16")
    with open_context(path, kv="f16", n_ubatch=32) as ctx:
        for start, part in ((0, tokens[:100]), (100, tokens[100:117]), (117, tokens[117:180])):
            flags = [(start + i) % 3 == 1 or i == 5 for i in range(len(part))]
            rows = [start + i for i, flag in enumerate(flags) if flag]
            assert ctx.decode(part, outputs=flags) == len(rows) == ctx.n_outputs
            got = np.stack([np.array(ctx.logits(i)) for i in range(len(rows))])
            same(got, expected[rows], f"flags over {len(part)} tokens")
        assert ctx.decode(tokens[180:190], outputs="none") == 0
        ctx.decode(tokens[190:193])  # default: the last row
        same(np.array(ctx.logits(0))[None], expected[192:193], "the last row only")


@graphs
def test_wander_and_roll_back(tiny: TinyFiles, family: str, count_cases: Callable[[int], None]) -> None:
    """Decode junk of many lengths, take it back, go on: as if it had never been there."""
    path = tiny.path(family)
    tokens, expected = one_by_one(path, "f16")
    random = np.random.default_rng(5)
    with open_context(path, kv="f16") as ctx:
        position = 0
        while position < len(tokens) - 40:
            junk = random_tokens(ctx.n_vocab, int(random.integers(1, 60)), seed=position + 1000)
            ctx.decode(junk)
            keep = position
            if position > 30 and random.random() < 0.3:  # also give up good tokens and decode them again
                keep = position - int(random.integers(1, 30))
            assert ctx.can_seq_rm(0, keep, -1)
            assert ctx.seq_rm(0, keep, -1)
            assert ctx.seq_pos_max(0) == keep - 1
            n = int(random.integers(1, 40))
            got = decode_rows(ctx, tokens[keep : keep + n])
            count_cases(same(got, expected[keep : keep + n], f"after junk at {keep}"))
            position = keep + n


@graphs
def test_same_removals_same_bytes(tiny: TinyFiles, family: str) -> None:
    """After removals in the middle two runs with the same history of removals agree, however they were cut
    and whatever junk came and went between."""
    path = tiny.path(family)
    tokens, _ = one_by_one(path, "f16")

    def run(sizes: Sequence[int], junk: int, **options: Any) -> Logits:
        out = []
        with open_context(path, kv="f16", **options) as ctx:
            for start, stop, cut in ((0, 150, (20, 60)), (150, 420, (100, 101)), (420, 560, (0, 37))):
                for part in chunks(tokens[start:stop], sizes):
                    if junk:
                        before = ctx.seq_pos_max(0) + 1
                        ctx.decode(random_tokens(ctx.n_vocab, junk, seed=before))
                        assert ctx.seq_rm(0, before, -1)
                    out.append(decode_rows(ctx, part))
                assert ctx.seq_rm(0, *cut)
            out.append(decode_rows(ctx, tokens[:5]))
        return np.concatenate(out)

    plain = run([1], 0)
    same(run([512], 0, n_threads=2), plain, "large chunks")
    same(run([3, 9, 40, 17], 11, n_ubatch=16), plain, "small chunks with junk between")


@graphs
@pytest.mark.parametrize("kv", ["f16", "q8_0"])
def test_save_and_restore(tiny: TinyFiles, family: str, kv: str) -> None:
    """Restored states continue with the same bytes, in the same context and in another one of other sizes."""
    path = tiny.path(family)
    tokens, expected = one_by_one(path, kv)
    with open_context(path, kv=kv) as ctx:
        decode_rows(ctx, tokens[:200])
        state = ctx.state_save()
        decode_rows(ctx, random_tokens(ctx.n_vocab, 70))
        assert ctx.seq_rm(0, 100, 150)
        ctx.state_restore(state)
        assert ctx.state_save() == state
        same(decode_rows(ctx, tokens[200:]), expected[200:], "restored into the same context")
    with open_context(path, kv=kv, n_ctx=2048, n_ubatch=8, n_threads=2) as other:
        decode_rows(other, random_tokens(other.n_vocab, 300))
        other.state_restore(state)
        assert (other.seq_pos_min(0), other.seq_pos_max(0), other.n_cells) == (0, 199, 200)
        same(decode_rows(other, tokens[200:], sizes=[13]), expected[200:], "restored into another context")


@graphs
def test_taps(tiny: TinyFiles, family: str) -> None:
    """Hidden states are as exact as logits, and asking for them changes nothing."""
    from pyspec.core.context import TAP_FINAL

    path = tiny.path(family)
    tokens, expected = one_by_one(path, "f16")
    tokens, expected = tokens[:96], expected[:96]
    layers = [0, 1, FAMILIES[family].n_layer, TAP_FINAL]

    def run(sizes: int, **options: Any) -> tuple[Logits, list[Logits]]:
        logits, taps = [], []
        with open_context(path, kv="f16", **options) as ctx:
            ctx.set_taps(layers)
            for part in chunks(tokens, sizes):
                ctx.decode(part, outputs="all")
                logits.append(np.stack([np.array(ctx.logits(i)) for i in range(len(part))]))
                taps.append(np.stack([np.array(ctx.taps(i)) for i in range(len(layers))]))
        return np.concatenate(logits), list(np.concatenate(taps, axis=1))

    logits, single = run(1)
    same(logits, expected, "logits with taps on")
    for sizes, options in ((96, {"n_ubatch": 40}), (17, {"n_threads": 2})):
        logits, taps = run(sizes, **options)
        same(logits, expected, "logits with taps on")
        for layer, got, want in zip(layers, taps, single, strict=True):
            same(got, want, f"tap {layer} in chunks of {sizes}")


def test_two_contexts_of_one_model(tiny: TinyFiles) -> None:
    """Contexts share weights and nothing else."""
    from pyspec.core.context import Context
    from pyspec.core.model import Model

    path = tiny.path("qwen2")
    tokens, expected = one_by_one(path, "f16")
    options: dict[str, Any] = {"n_ctx": 1024, "n_outputs": 512, "n_threads": 1}
    with Model(path) as model, Context(model, **options) as a, Context(model, **options) as b:
        for start in range(0, 96, 8):
            decode_rows(b, random_tokens(b.n_vocab, 5, seed=start))
            same(
                decode_rows(a, tokens[start : start + 8]),
                expected[start : start + 8],
                f"interleaved at {start}",
            )


def test_types_are_all_tried() -> None:
    """The exact path must hold for every type the maker can write; K-quants and IQ types use the wide
    sizes."""
    assert {"q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_xs", "bf16"} <= set(DTYPES)
    assert needs_wide("q4_k") and not needs_wide("q8_0")


@pytest.mark.real
def test_smollm2(real_model: Callable[[str], Path], count_cases: Callable[[int], None]) -> None:
    path = real_model("smollm2")
    count_cases(check_widths(path, "f16", range(2, 18), [520, 500, 0], n_threads=2))


@pytest.mark.real
@pytest.mark.long
@pytest.mark.parametrize("name", ["smollm2", "gemma3-270m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"])
def test_real_models(
    real_model: Callable[[str], Path], name: str, count_cases: Callable[[int], None]
) -> None:
    path = real_model(name)
    count_cases(
        check_widths(path, "f16", [2, 3, 4, 5, 8, 16, 17, 33, 64, 65, 128], [520, 500, 0], n_threads=2)
    )
    if name == "smollm2":
        count_cases(check_widths(path, "q8_0", [2, 4, 9, 17, 512], [520, 40]))
