"""The core's sampler against the slow reference in tests/reference/sampling.py, on made-up rows. No model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pyspec.core.sampler import Sampler, SamplingParams, logprobs_array
from pyspec.errors import OptionError
from tests.reference import sampling as reference

RELAXED = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])

# Whole numbers give many ties; the wide range gives probabilities that underflow.
LOGIT = st.one_of(
    st.integers(-4, 4).map(float),
    st.floats(-30, 30, width=32),
    st.sampled_from([-math.inf, -2000.0, 0.0, -0.0]),
)


@st.composite
def rows(draw: st.DrawFn, n_rows: int = 1) -> np.ndarray:
    n_vocab = draw(st.integers(1, 40 // n_rows))
    values = draw(st.lists(LOGIT, min_size=n_vocab * n_rows, max_size=n_vocab * n_rows))
    array = np.array(values, dtype=np.float32).reshape(n_rows, n_vocab)
    assume(all(np.isfinite(row).any() for row in array))
    return array


@st.composite
def params(draw: st.DrawFn, n_vocab: int) -> reference.Params:
    share = st.floats(0, 1.25, width=32)
    return reference.Params(
        temperature=draw(st.sampled_from([0.0, -1.0, 0.25, 0.8, 1.0, 1.7])),
        top_k=draw(st.sampled_from([-1, 0, 1, 2, 3, 5, 40])),
        top_p=draw(share),
        min_p=draw(st.floats(-0.25, 1, width=32)),
        typical_p=draw(st.one_of(st.just(1.0), share)),
        repeat_penalty=draw(st.sampled_from([1.0, 1.1, 2.0, 0.5])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.3, 1.0, -0.5])),
        presence_penalty=draw(st.sampled_from([0.0, 0.7, -1.0])),
        penalty_last_n=draw(st.sampled_from([-1, 0, 1, 2, 5, 64])),
        seed=draw(st.integers(0, 2**64 - 1)),
        logit_bias=draw(
            st.dictionaries(st.integers(0, n_vocab - 1), st.floats(-5, 5, width=32), max_size=min(3, n_vocab))
        ),
    )


def near_a_limit(logits: np.ndarray, wanted: reference.Params, history: list[int]) -> bool:
    """A sum within rounding of top_p or typical_p may fall on either side: libms differ in the last bit.

    Moving both limits a hair to either side and seeing other survivors finds those inputs.
    """

    def kept(shift: float) -> list[int]:
        # Limits are rounded to float32 on the way; a shift of 1e-6 is a few of its units.
        moved = reference.Params(**vars(wanted))
        for name in ("top_p", "typical_p"):
            value = getattr(wanted, name)
            setattr(moved, name, value + shift if 0 < value < 1 else value)
        if wanted.min_p > 0:
            moved.min_p = wanted.min_p * (1 + shift)
        return sorted(token for token, _ in reference.survivors(logits, moved, history))

    return not (kept(-1e-6) == kept(1e-6) == kept(0.0))


def make(wanted: reference.Params, n_vocab: int) -> Sampler:
    return Sampler(SamplingParams(**vars(wanted)), n_vocab)


@RELAXED
@given(data=st.data())
def test_candidates_and_choice(data: st.DataObject) -> None:
    logits = data.draw(rows())[0]
    n_vocab = len(logits)
    wanted = data.draw(params(n_vocab))
    prompt = data.draw(st.lists(st.integers(0, n_vocab - 1), max_size=6))
    emitted = data.draw(st.lists(st.integers(0, n_vocab - 1), max_size=6))
    history = prompt + emitted
    assume(not near_a_limit(logits, wanted, history))

    sampler = make(wanted, n_vocab)
    for token in prompt:
        sampler.advance(token, prompt=True)
    for token in emitted:
        sampler.advance(token)
    assert (sampler.n_history, sampler.index) == (len(history), len(emitted))

    expected = reference.distribution(logits, wanted, history)
    got = sampler.candidates_array(logits, n_vocab)
    assert [token for token, _ in got] == [token for token, _ in expected]
    assert [p for _, p in got] == pytest.approx([p for _, p in expected], rel=1e-6, abs=1e-12)
    assert sampler.sample_array(logits) == reference.sample(logits, wanted, history, len(emitted))


@RELAXED
@given(data=st.data())
def test_accept_match(data: st.DataObject) -> None:
    block = data.draw(rows(n_rows=5))
    n_vocab = block.shape[1]
    wanted = data.draw(params(n_vocab))
    history = data.draw(st.lists(st.integers(0, n_vocab - 1), max_size=4))
    n_draft = data.draw(st.integers(0, 4))
    n_max = data.draw(st.integers(1, 6))
    # Drafts that are right for a while, so that blocks get long: follow the reference, then leave it.
    truth: list[int] = []
    for i in range(n_draft):
        assume(not near_a_limit(block[i], wanted, history + truth))
        truth.append(reference.sample(block[i], wanted, history + truth, len(history) + i))
    assume(not near_a_limit(block[n_draft], wanted, history + truth))
    draft = list(truth)
    if n_draft and data.draw(st.booleans()):
        draft[data.draw(st.integers(0, n_draft - 1))] = data.draw(st.integers(0, n_vocab - 1))

    sampler = make(wanted, n_vocab)
    for token in history:
        sampler.advance(token)
    expected = reference.accept_match(block, draft, wanted, history, len(history), n_max)
    tokens, n_accepted = sampler.accept_match_arrays(block[: n_draft + 1], draft, n_max=n_max)
    assert (list(tokens), n_accepted) == expected
    assert sampler.index == len(history) + len(tokens)


@RELAXED
@given(data=st.data())
def test_logprobs(data: st.DataObject) -> None:
    logits = data.draw(rows())[0]
    token = data.draw(st.integers(0, len(logits) - 1))
    n_top = data.draw(st.integers(0, len(logits)))
    value, top = logprobs_array(logits, token, n_top)
    expected_value, expected_top = reference.logprobs(logits, token, n_top)
    assert value == pytest.approx(expected_value, rel=1e-6, abs=1e-6)
    assert [i for i, _ in top] == [i for i, _ in expected_top]
    assert [p for _, p in top] == pytest.approx([p for _, p in expected_top], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("n_vocab", [129, 1000, 5000])
@pytest.mark.parametrize(
    "changes",
    [{}, {"top_k": 40}, {"top_p": 0.9}, {"min_p": 0.05}, {"typical_p": 0.9}, {"temperature": 0.0}],
    ids=str,
)
def test_long_rows(n_vocab: int, changes: dict[str, float]) -> None:
    """Rows longer than the blocks the core scans in, with ties (logits rounded to quarters)."""
    random = np.random.default_rng(n_vocab)
    wanted = reference.Params(seed=n_vocab, **changes)  # type: ignore[arg-type]
    sampler = make(wanted, n_vocab)
    history: list[int] = []
    compared = 0
    for _ in range(4):
        logits = (np.round(random.normal(0, 3, n_vocab) * 4) / 4).astype(np.float32)
        if near_a_limit(logits, wanted, history):
            continue
        compared += 1
        got = sampler.candidates_array(logits, n_vocab)
        assert [token for token, _ in got] == [t for t, _ in reference.distribution(logits, wanted, history)]
        token = sampler.sample_array(logits)
        assert token == reference.sample(logits, wanted, history, len(history))
        sampler.advance(token)
        history.append(token)
    assert compared >= 2


def test_known_answers_of_the_generator() -> None:
    """The published vectors of Random123 pin the reference too."""
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    assert reference.philox4x32_10((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert reference.philox4x32_10(pi, (0xA4093822, 0x299F31D0)) == (
        0xD16CFE09,
        0x94FDCCEB,
        0x5001E420,
        0x24126EA1,
    )


def test_seeded_text_is_pinned() -> None:
    """Seeds are a promise: these tokens may only change with a note in the changelog."""
    logits = np.linspace(-2, 2, 50, dtype=np.float32)
    sampler = Sampler(SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=1234), 50)
    tokens = []
    for _ in range(12):
        tokens.append(sampler.sample_array(logits))
        sampler.advance(tokens[-1])
    wanted = reference.Params(seed=1234)
    assert tokens == [reference.sample(logits, wanted, [], i) for i in range(12)]
    assert tokens == [29, 40, 49, 49, 37, 44, 26, 49, 40, 33, 33, 29]


def test_refusals() -> None:
    """Errors cross the seam typed, name what is wrong, and change nothing."""
    with pytest.raises(OptionError, match="top_p is -1"):
        Sampler(SamplingParams(top_p=-1.0), 10)
    with pytest.raises(OptionError, match="token 10; allowed: 0 to 9"):
        Sampler(SamplingParams(logit_bias={10: 1.0}), 10)
    sampler = Sampler(SamplingParams(seed=1), 4)
    with pytest.raises(OptionError, match="token 2 is not a number"):
        sampler.sample_array(np.array([0, 1, math.nan, 2], dtype=np.float32))
    with pytest.raises(OptionError, match="no token can be chosen"):
        sampler.sample_array(np.full(4, -math.inf, dtype=np.float32))
    block = np.zeros((3, 4), dtype=np.float32)
    block[1, 3] = math.nan
    first = sampler.sample_array(block[0])
    with pytest.raises(OptionError, match="token 3 is not a number"):
        sampler.accept_match_arrays(block, [first, 0], n_max=9)
    assert (sampler.n_history, sampler.index) == (0, 0)
    assert sampler.sample_array(block[0]) == first
