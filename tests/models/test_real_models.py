"""Real models against llama.cpp: the same most likely token at every position of ordinary text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.oracle import Oracle

from .support import open_context
from .texts import TEXTS

LENGTH = 64  # tokens of each text

MODELS = [
    "smollm2",
    "gemma3-270m",
    "qwen2.5-coder-0.5b",
    pytest.param("qwen2.5-coder-1.5b", marks=pytest.mark.long),
]


@pytest.mark.real
@pytest.mark.parametrize("name", MODELS)
def test_most_likely_tokens(
    name: str,
    real_model: Callable[[str], Path],
    capsys: pytest.CaptureFixture[str],
    count_cases: Callable[[int], None],
) -> None:
    """Teacher-forced: 64 tokens of five texts. The arg-max may differ only where the oracle's two best are
    nearer than twice the largest difference of that row, and at no more than 4 % of the positions: on SmolLM2
    (Q4_1) 10 of 320 differ, where the arg-max of an f32 run on the dequantised weights differs from ours at 8
    and from the oracle's at 10, so this is what rounding activations to 8 bits costs either side."""
    path = real_model(name)
    positions = ties = 0
    worst = 0.0
    with Oracle(path, kv="f16", n_ctx=512, n_threads=2) as oracle, open_context(
        path, kv="f16", n_ctx=512, n_threads=2
    ) as ctx:  # fmt: skip
        for title, text in TEXTS.items():
            tokens = oracle.tokenize(text)[:LENGTH]
            assert len(tokens) == LENGTH, f"{title} is too short for {name}"
            oracle.clear()
            expected = oracle.decode(tokens)
            ctx.seq_rm(0, -1, -1)
            ctx.decode(tokens, outputs="all")
            got = np.stack([np.array(ctx.logits(i)) for i in range(LENGTH)])
            spread = float(expected.max() - expected.min())
            difference = np.max(np.abs(got - expected), axis=1)
            worst = max(worst, float(difference.max()) / spread)
            best = np.sort(expected, axis=1)[:, -2:]
            gaps = best[:, 1] - best[:, 0]
            for i in np.flatnonzero(np.argmax(got, axis=1) != np.argmax(expected, axis=1)):
                assert gaps[i] <= 2 * difference[i], (
                    f"{title}: another token at {i}, gap {gaps[i]:.3g}, |Δ| {difference[i]:.3g}"
                )
                ties += 1
            positions += LENGTH
    count_cases(positions)
    with capsys.disabled():
        differ = f"{ties} of {positions} positions differ (near ties)"
        print(f"\n{name}: {differ}, largest difference {worst:.2%} of the range")
    assert (
        worst <= 0.06
    )  # Gemma: 5.4 %; the oracle's own rows differ by 5.1 % between batches and single tokens
    assert ties <= 0.04 * positions
