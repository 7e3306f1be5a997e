"""What the model tests share: prompts, running pyspec and the oracle, and the error measure."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.oracle import Oracle
from tests.reference import forward
from tests.tiny import DTYPES, FAMILIES, build_model, is_slow

Logits = npt.NDArray[np.float32]
Cells = npt.NDArray[np.uint8]

# f32 weights, f32 cache: measured 2e-7 … 2e-6.
F32_TOLERANCE = 1e-5
# Gelu is a table of halves in ggml's CPU backend, whose entries are off by up to 1/2048; ours is computed. Measured up to
# 5e-4; the smallest mistake of test_perturbations.py gives 8e-3.
GELU_TOLERANCE = 8e-4
F16_CACHE_TOLERANCE = 5e-3
Q8_CACHE_TOLERANCE = 2e-2


# Bytes in front of the positions in a saved state (csrc/runtime/state.cpp).
STATE_HEADER = 40

# Weight types as test parameters; those that are slow to write are left to the long run.
WEIGHT_TYPES = [pytest.param(d, marks=pytest.mark.long) if is_slow(d) else d for d in DTYPES if d != "f32"]


def f32_tolerance(family: str) -> float:
    return GELU_TOLERANCE if FAMILIES[family].arch == "gemma3" else F32_TOLERANCE


def random_tokens(n_vocab: int, n: int, seed: int = 1) -> list[int]:
    return [int(t) for t in np.random.default_rng(seed).integers(0, n_vocab, n)]


@functools.cache
def prompt(
    family: str, n: int = 64, margin: float = 0.01, overrides: tuple[tuple[str, Any], ...] = ()
) -> tuple[int, ...]:
    """Random tokens. For mixtures of experts: such that no routing decision is nearer than `margin` (in
    router logits), because rounding noise that turns a decision says nothing about correctness."""
    model = build_model(family, overrides=dict(overrides))
    n_vocab = len(model.vocab.texts)
    for seed in range(1, 2000):
        tokens = random_tokens(n_vocab, n, seed)
        if not model.hyper.n_expert:
            return tuple(tokens)
        trace = forward(model, tokens, dtype=np.float32)
        if all(float(m.min()) >= margin for m in trace.router_margins):
            return tuple(tokens)
    raise AssertionError(f"no prompt of {n} tokens with router margins above {margin} for {family}")


def relative_error(a: Logits, b: Logits, reference: Logits | None = None) -> float:
    """Largest absolute difference, as a fraction of the range of the reference's logits."""
    r = b if reference is None else reference
    return float(np.max(np.abs(a.astype(np.float64) - b)) / (float(r.max()) - float(r.min())))


def row_errors(a: Logits, b: Logits) -> Logits:
    """relative_error of each row by itself."""
    largest = np.max(np.abs(a.astype(np.float64) - b), axis=1) / (float(b.max()) - float(b.min()))
    return np.asarray(largest, dtype=np.float32)


def chunks(tokens: Sequence[int], sizes: int | Iterable[int]) -> Iterable[Sequence[int]]:
    """Cut tokens into chunks of one size, or of the given sizes in turn (the last repeats)."""
    steps = [sizes] if isinstance(sizes, int) else list(sizes)
    i, turn = 0, 0
    while i < len(tokens):
        n = steps[min(turn, len(steps) - 1)]
        yield tokens[i : i + n]
        i, turn = i + n, turn + 1


def open_context(path: Path, **options: Any) -> Any:
    """A pyspec Context on a file, one thread and f32 cache unless told otherwise. Closing it closes the
    model as well."""
    from pyspec.core.context import Context
    from pyspec.core.model import Model

    kv = options.pop("kv", "f32")
    settings: dict[str, Any] = {
        "n_ctx": 1024,
        "n_threads": 1,
        "n_outputs": 512,
        "type_k": kv,
        "type_v": kv,
        **options,
    }
    model = Model(path)
    return Context(model, **settings)


def decode_rows(
    ctx: Any, tokens: Sequence[int], *, sizes: int | Iterable[int] = 512, **options: Any
) -> Logits:
    """Append tokens to a Context in chunks and return all logits, (len(tokens), n_vocab)."""
    out = []
    for part in chunks(tokens, sizes):
        ctx.decode(part, outputs="all", **options)
        out.append(np.stack([np.array(ctx.logits(i)) for i in range(len(part))]))
    return np.concatenate(out)


def cells(ctx: Any) -> Cells:
    """The cells in use as they lie in the cache, {bytes of a cell, cells, K and V of every layer} in ggml order. For
    models whose K and V rows are equally long, as all of ours are. Positions must count from 0."""
    n, state = ctx.n_cells, ctx.state_save()
    assert np.array_equal(np.frombuffer(state, np.int32, n, STATE_HEADER), np.arange(n))
    return np.frombuffer(state, np.uint8, offset=STATE_HEADER + 4 * n).reshape(
        2 * ctx.model.info.n_layer, n, -1
    )


def spoil_cells(ctx: Any, n: int) -> None:
    """Fill n cells of an empty context with bytes that are no number in any cache type."""
    for first in range(0, n, ctx.n_batch):
        ctx.decode([0] * min(n - first, ctx.n_batch), outputs="none")
    state = ctx.state_save()
    kept = STATE_HEADER + 4 * n
    ctx.state_restore(state[:kept] + b"\xff" * (len(state) - kept))
    assert ctx.n_cells == n


def pyspec_logits(
    path: Path, tokens: Sequence[int], *, sizes: int | Iterable[int] = 512, **options: Any
) -> Logits:
    with open_context(path, **options) as ctx:
        return decode_rows(ctx, tokens, sizes=sizes)


@functools.lru_cache(maxsize=256)
def _oracle_logits(path: Path, tokens: tuple[int, ...], options: tuple[tuple[str, Any], ...]) -> Logits:
    with Oracle(path, **dict(options)) as oracle:
        return oracle.decode(tokens)


def oracle_logits(path: Path, tokens: Sequence[int], **options: Any) -> Logits:
    """The oracle's logits of every token; kept, since many tests compare with the same run."""
    return _oracle_logits(path, tuple(tokens), tuple(sorted(options.items())))
