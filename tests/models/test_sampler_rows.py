"""The sampler on a context's own rows gives what it gives on copies of them, for every acceptance rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyspec.core.context import Context
from pyspec.core.model import Model
from pyspec.core.sampler import Sampler, SamplingParams


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("masked", [False, True])
def test_rows_of_a_context(tiny: Any, temperature: float, masked: bool) -> None:
    with Model(tiny.path("llama")) as model, Context(model, n_ctx=64, n_threads=1) as context:
        n_vocab, draft = context.n_vocab, [5, 9, 6]
        context.decode([1, *draft], outputs="all")
        rows = np.array([context.logits(i) for i in range(4)])
        n_words = (n_vocab + 31) // 32
        masks = None
        if masked:
            masks = np.random.default_rng(1).integers(0, 2**32, (4, n_words), dtype=np.uint32)

        def sampler() -> Sampler:
            made = Sampler(SamplingParams(temperature=temperature, seed=3, repeat_penalty=1.2), n_vocab)
            for token in (1, 5, 8):
                made.advance(token, prompt=True)
            return made

        common: dict[str, Any] = {"n_max": 9, "model": model, "masks": masks}
        mask = None if masks is None else masks[0]
        truth = [sampler().sample(context, 0, mask)]
        assert truth == [sampler().sample_array(rows[0], mask)]
        assert sampler().accept_match(context, [*truth, 9, 6], **common) == sampler().accept_match(
            rows, [*truth, 9, 6], **common
        )
        drafting = sampler().for_drafting()
        assert drafting.draft(context, 1, n_vocab - 3) == drafting.draft_array(rows[1], n_vocab - 3)
        drawn = [drafting.draft_sample(context, i, n_vocab, mask) for i in range(3)]
        assert drawn == [drafting.draft_sample_array(rows[i], n_vocab, mask) for i in range(3)]
        tokens, laws = [token for token, _ in drawn], [law for _, law in drawn]
        assert all(sum(p for _, p in law) == pytest.approx(1) for law in laws)
        assert sampler().accept_rejection(context, tokens, laws, **common) == sampler().accept_rejection(
            rows, tokens, laws, **common
        )
        assert sampler().accept_replay(context, draft, **common) == sampler().accept_replay(
            rows, draft, **common
        )
        rates = [0.9, 0.8, 0.7]
        assert sampler().accept_synthetic(context, draft, rates, **common) == (
            sampler().accept_synthetic(rows, draft, rates, **common)
        )
        by_row, by_array = sampler(), sampler()
        by_row.advance_from(context, 0, truth[0], mask)
        by_array.advance_from_array(rows[0], truth[0], mask)
        assert by_row.candidates(context, 1) == by_array.candidates_array(rows[1])


def test_default_breakers(tiny: Any) -> None:
    """With a model, DRY's strings find their tokens; a repetition does not reach across one."""
    with Model(tiny.path("llama")) as model:
        n_vocab = model.info.n_vocab
        alone = [sequence[0] for sequence in model.piece_search.sequences(":") if len(sequence) == 1]
        params = SamplingParams(temperature=0, dry_multiplier=5.0, dry_allowed_length=1)
        row = np.zeros(n_vocab, dtype=np.float32)
        row[7] = 1.0
        for breaker, token in ((9, 0), (alone[0] if alone else 9, 0 if not alone else 7)):
            sampler = Sampler(params, n_vocab, model=model)
            for seen in (8, breaker, 7, 6, 8, breaker):
                sampler.advance(seen, prompt=True)
            assert sampler.sample_array(row) == token
