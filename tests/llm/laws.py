"""The exact law of the first tokens of an answer, worked out from the target's rows, and a test of samples against it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pyspec.core.context import Context
from pyspec.core.model import Model
from pyspec.core.sampler import Sampler, SamplingParams

#: Quantile of the standard normal law: one in a thousand samples of a right law fails. Fixed beforehand.
Z = 3.09


def prefix_rows(
    model: Model, prompt: Sequence[int], paths: Iterable[Sequence[int]]
) -> dict[tuple[int, ...], np.ndarray]:
    """The target's logits after the prompt and each path, which are sorted so that each begins with an earlier one."""
    found: dict[tuple[int, ...], np.ndarray] = {}
    with Context(model, n_ctx=256, n_threads=1) as context:
        for path in paths:
            context.seq_rm(0, -1, -1)
            context.decode([*prompt, *path])
            found[tuple(path)] = context.logits(0).copy()
    return found


def first_tokens(
    model: Model, prompt: Sequence[int], depth: int, params: SamplingParams, grammar: Any = None
) -> tuple[dict[tuple[int, ...], float], dict[tuple[int, ...], np.ndarray]]:
    """(probability of each text of up to depth tokens, rows by path). A text is shorter only when it ended. grammar: a
    GrammarState, which stays as it is.
    """
    law: dict[tuple[int, ...], float] = {(): 1.0}
    rows: dict[tuple[int, ...], np.ndarray] = {}
    ends = model.vocab.eog
    for n in range(depth):
        rows |= prefix_rows(model, prompt, [path for path in law if len(path) == n and not ends & set(path)])
        for path in [path for path in law if len(path) == n]:
            if ends & set(path):
                continue
            mask = None
            if grammar is not None:
                state = grammar.copy()
                state.commit(list(path))
                mask = state.plan([])[1]
            sampler = Sampler(params, model.info.n_vocab)
            for token in path:
                sampler.advance(token)
            before = law.pop(path)
            for token, p in sampler.candidates_array(rows[path], model.info.n_vocab, mask):
                law[(*path, token)] = before * p
            sampler.close()
    assert math.isclose(sum(law.values()), 1.0, rel_tol=1e-5)
    return law, rows


def chi_square(
    samples: Counter[tuple[int, ...]], law: dict[tuple[int, ...], float]
) -> tuple[float, float, int]:
    """(statistic, its limit, degrees of freedom). Cells with fewer than five expected samples are put together."""
    n = sum(samples.values())
    assert set(samples) <= set(law), "a text that the law does not have"
    cells: list[tuple[float, float]] = []
    rest_expected = rest_seen = 0.0
    for path, p in law.items():
        if n * p >= 5:
            cells.append((n * p, samples[path]))
        else:
            rest_expected += n * p
            rest_seen += samples[path]
    if rest_expected >= 5 or not cells:
        cells.append((rest_expected, rest_seen))
    else:
        expected, seen = cells.pop()
        cells.append((expected + rest_expected, seen + rest_seen))
    k = len(cells) - 1
    if k == 0:
        return 0.0, 1.0, 0
    statistic = sum((seen - expected) ** 2 / expected for expected, seen in cells)
    return statistic, k * (1 - 2 / (9 * k) + Z * math.sqrt(2 / (9 * k))) ** 3, k


def check_law(
    samples: Counter[tuple[int, ...]], law: dict[tuple[int, ...], float], what: object = ""
) -> None:
    """The texts, and each of their tokens alone, follow the law."""
    depth = max(map(len, law))
    views: list[Callable[[tuple[int, ...]], tuple[int, ...]]] = [lambda path: path]
    views += [lambda path, i=i: path[i : i + 1] for i in range(depth)]  # type: ignore[misc]
    for view in views:
        seen: Counter[tuple[int, ...]] = Counter()
        expected: dict[tuple[int, ...], float] = {}
        for path, count in samples.items():
            seen[view(path)] += count
        for path, p in law.items():
            expected[view(path)] = expected.get(view(path), 0.0) + p
        statistic, limit, degrees = chi_square(seen, expected)
        assert degrees >= 3 or view is not views[0], "too few cells to say anything"
        assert statistic < limit, (what, statistic, limit)
