"""Any way through a text leaves the same logits and the same cells, bit for bit: hypothesis draws the ways.

A case is a model, a cache type, a context's sizes and a walk: the prompt in chunks of one size, then steps that
decode junk, take it back, give up good tokens too, and decode some width. The measure is that of test_exactness.
Cases are the same in every run. The rows that were compared are in the case counts.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from tests.conftest import TinyFiles
from tests.tiny import DTYPES, FAMILIES

from .support import decode_rows, open_context, random_tokens, spoil_cells
from .test_exactness import LENGTH, measure, same, same_cells

CACHE_TYPES = ["f32", "f16", "bf16", "q8_0"]
WIDTHS = [*range(1, 18), 24, 33, 48, 65, 128, 512]
LONG_CASES = 40  # of every weight type
LONG_ROWS = 20_000  # at least, of all weight types together


@dataclass(frozen=True)
class Step:
    """Decode `junk` tokens and take them back with `back` tokens of the text, then decode `width` of the text."""

    junk: int
    back: int
    width: int


@dataclass(frozen=True)
class Case:
    """chunk 0 stands for n_ubatch. spoiled: cells hold bytes that are no number before they are used."""

    family: str
    kv: str
    n_threads: int
    n_ctx: int
    n_ubatch: int
    spoiled: bool
    prompt: int
    chunk: int
    steps: tuple[Step, ...]


STEPS = st.builds(Step, junk=st.integers(0, 60), back=st.integers(0, 40), width=st.sampled_from(WIDTHS))
CASES = st.builds(
    Case,
    family=st.sampled_from(list(FAMILIES)),
    kv=st.sampled_from(CACHE_TYPES),
    n_threads=st.sampled_from([1, 2]),
    n_ctx=st.sampled_from([512, 4096]),
    n_ubatch=st.sampled_from([5, 48, 512]),
    spoiled=st.booleans(),
    prompt=st.integers(1, LENGTH),
    chunk=st.sampled_from([1, 7, 16, 64, 0]),
    steps=st.lists(STEPS, min_size=4, max_size=12).map(tuple),
)


def walk(tiny: TinyFiles, dtype: str, case: Case) -> int:
    """Number of rows compared."""
    path = tiny.path(case.family, dtype=dtype)
    # phi3 has other tables for contexts of up to 512; for the rest the size of the measure's context does not matter.
    n_ctx = case.n_ctx if case.family == "phi3" and case.n_ctx == 512 else 1024
    tokens, expected, expected_cells = measure(path, case.kv, n_ctx)
    length = min(LENGTH, case.n_ctx)
    tokens = tokens[:length]
    with open_context(
        path, kv=case.kv, n_ctx=case.n_ctx, n_ubatch=case.n_ubatch, n_threads=case.n_threads
    ) as ctx:
        if case.spoiled:
            spoil_cells(ctx, min(case.n_ctx, 1024))
            assert ctx.seq_rm(0, 0, -1)
        position = min(case.prompt, length)
        got = decode_rows(ctx, tokens[:position], sizes=case.chunk or case.n_ubatch)
        compared = same(got, expected[:position], "the prompt")
        for at, step in enumerate(case.steps):
            junk = min(step.junk, case.n_ctx - position)
            if junk:
                ctx.decode(random_tokens(ctx.n_vocab, junk, seed=at + 1000))
            width = min(step.width, length)
            keep = max(0, min(position - step.back, length - width))
            assert ctx.seq_rm(0, keep, -1)
            position = keep + width
            got = decode_rows(ctx, tokens[keep:position])
            compared += same(got, expected[keep:position], f"step {at}: {width} tokens behind {keep}")
            same_cells(ctx, expected_cells, f"step {at}: {width} tokens behind {keep}")
    return compared


def check(
    tiny: TinyFiles, dtypes: Sequence[str], n: int, count_cases: Callable[[int], None], at_least: int
) -> None:
    """n cases; the same in every run, and others for other types."""
    compared: list[int] = []

    @seed(zlib.crc32(" ".join(dtypes).encode()))
    @settings(max_examples=n, database=None, deadline=None)
    @given(dtype=st.sampled_from(dtypes), case=CASES)
    def every_way(dtype: str, case: Case) -> None:
        compared.append(walk(tiny, dtype, case))

    every_way()
    count_cases(sum(compared))
    assert sum(compared) >= at_least


@pytest.mark.parametrize("kv", CACHE_TYPES)
def test_spoiled_cells_show_when_they_are_read(tiny: TinyFiles, kv: str) -> None:
    with open_context(tiny.path("llama"), kv=kv) as ctx:
        spoil_cells(ctx, 8)
        ctx.decode([3])
        assert not np.isfinite(ctx.logits(0)).any()


def test_every_way_gives_the_same_bits(tiny: TinyFiles, count_cases: Callable[[int], None]) -> None:
    check(tiny, ["f32", "f16", "q8_0", "q4_0"], 8, count_cases, at_least=500)


@pytest.mark.long
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_way_with_every_weight_type(
    tiny: TinyFiles, dtype: str, count_cases: Callable[[int], None]
) -> None:
    check(tiny, [dtype], LONG_CASES, count_cases, at_least=LONG_ROWS // len(DTYPES) + 1)
