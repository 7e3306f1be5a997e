"""The drafter `suffix` in the order of calls of a generation."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspec.drafters.base import Verdict
from pyspec.drafters.corpus_file import Corpus
from pyspec.drafters.suffix import Suffix
from pyspec.errors import ClosedError, OptionError
from tests.history.slow_suffix import SlowSuffix


class Rounds:
    """A target that says `text`, in rounds as the chain runs them, beside the plain search."""

    def __init__(self, drafter: Suffix, prompt: list[int]) -> None:
        self.drafter = drafter
        self.slow = SlowSuffix(drafter.m)
        self.history = list(prompt)
        drafter.begin(self.history)
        self.slow.follow(0, self.history)

    def step(self, last: int, text: list[int], limit: int, cut: int = 1000) -> int:
        """One round after `last`; the target goes on with text. Returns how many tokens were emitted."""
        drafter, history = self.drafter, self.history
        draft = drafter.propose(history, last, limit) if limit > 0 else None
        self.slow.follow(len(history), [last])
        tokens: list[int] = []
        if limit > 0:
            floor = 0.02 if drafter.controlled else drafter.p_min
            expected, confidence = self.slow.guess(limit, floor)
            if draft is not None:
                tokens = draft.tokens
                assert draft.confidence == pytest.approx(confidence, rel=1e-4)
                assert draft.drafter == "suffix" and len(tokens) <= limit
            assert tokens == expected
        tokens = tokens[:cut]  # the controller
        n = 0
        while n < len(tokens) and tokens[n] == text[n]:
            n += 1
        emitted = text[: n + 1]
        kept = [last, *emitted[:-1]]
        self.slow.follow(len(history), kept + emitted[-1:])
        history.extend(kept)
        drafter.commit(Verdict(kept, emitted, tokens, n), None, bool(tokens))
        assert drafter.audit(history) is None
        return n + 1


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 2), max_size=40),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=12),
    st.booleans(),
    st.sampled_from([0.0, 0.3, 0.5, 0.9]),
    st.randoms(use_true_random=False),
)
def test_rounds_equal_the_search(
    prompt: list[int], rounds: list[tuple[int, int]], controlled: bool, p_min: float, rng: random.Random
) -> None:
    """Invariants 28, 29, 31: the draft follows from the committed history and the last token, whatever was
    drafted, cut or rejected before; never longer than the limit, one confidence each.
    """
    drafter = Suffix(m=12, p_min=p_min)
    drafter.controlled = controlled
    run = Rounds(drafter, prompt)
    last = 0
    for limit, cut in rounds:
        text = (
            [rng.randrange(3) for _ in range(30)]
            if cut % 2
            else [*(run.history * 9), *range(3)][:30] + [1] * 30
        )
        n = run.step(last, text, limit, cut)
        last = text[n - 1]
    drafter.close()


def test_stops_edits_and_new_prompts() -> None:
    """The history may be cut anywhere, shifted and replaced between rounds; the drafter follows."""
    rng = random.Random(1)
    drafter = Suffix()
    run = Rounds(drafter, [rng.randrange(4) for _ in range(120)])
    last = 1
    for i in range(120):
        text = run.history[i : i + 40] + [0] * 40
        n = run.step(last, text, 16)
        last = text[n - 1]
        if i % 5 == 1:  # a stop inside the block, seen by the drafter as a cut of what it has just committed
            keep = max(1, len(run.history) - rng.randrange(4))
            del run.history[keep:]
            drafter.truncate(keep)
            run.slow.truncate(keep)
        elif i % 17 == 2:  # regenerate
            del run.history[60:]
            drafter.truncate(60)
            run.slow.truncate(60)
        elif i % 17 == 9:  # context shift
            p0, p1 = 10, 10 + len(run.history) // 2
            del run.history[p0:p1]
            drafter.shift(p0, p1, p0 - p1)
            run.slow.remove(p0, p1)
        elif i % 17 == 13:  # another conversation
            run.history[:] = [*run.history[:30], *[rng.randrange(4) for _ in range(50)]]
            drafter.begin(run.history)
            run.slow.follow(0, run.history)
        elif i % 17 == 15:
            token = drafter.checkpoint()
            here = list(run.history)
            run.step(last, [2, 3, *text], 4)
            run.history[:] = here
            drafter.restore(token)
            run.slow.truncate(len(here))
        assert drafter.audit(run.history) is None


@pytest.mark.parametrize(("p0", "p1"), [(0, 5), (5, 5), (30, 40), (90, 200), (100, 120), (150, 160)])
def test_shift_anywhere(p0: int, p1: int) -> None:
    """C060 (ggml-org/llama.cpp#21815): after a shift nothing points behind the history, and drafting goes on."""
    history = [i % 7 for i in range(100)]
    drafter = Suffix()
    drafter.begin(history)
    drafter.propose(history, 2, 8)  # the index is one token ahead of the history now
    del history[p0:p1]
    drafter.shift(p0, p1, p0 - p1)
    assert drafter.audit(history) is None
    for token in history[-7:] * 2 if len(history) > 7 else [1] * 9:
        draft = drafter.propose(history, token, 8)
        history.append(token)
        drafter.commit(Verdict([token], [], [], 0), None, False)
        assert drafter.audit(history) is None
    assert draft is not None and draft.tokens


def test_follows_a_history_it_was_not_told_about() -> None:
    """A drafter that joins in the middle, or missed calls, catches up when it is asked."""
    drafter = Suffix()
    history = [1, 2, 3, 4, 1, 2]
    draft = drafter.propose(history, 3, 5)
    assert draft is not None and draft.tokens[0] == 4
    assert drafter.audit(history) is None
    draft = drafter.propose(history[:2], 9, 5)
    assert draft is None
    assert drafter.audit(history[:2]) is None
    assert "suffix" in str(drafter.audit(history))


@pytest.mark.parametrize("p_min", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_fixed_drafts_end_at_p_min(p_min: float) -> None:
    """Invariant 39: the chance of all tokens together stays at p_min or above (0: no limit); a controlled drafter
    gives all that has a chance."""
    rng = random.Random(3)
    text = [rng.randrange(300) for _ in range(120)]
    history = [*text, *text[:10]]
    drafter, controlled = Suffix(p_min=p_min), Suffix(p_min=p_min)
    controlled.controlled = True
    for each in (drafter, controlled):
        each.begin(history)
    draft, whole = drafter.propose(history, text[10], 31), controlled.propose(history, text[10], 31)
    assert whole is not None and whole.confidence is not None and len(whole.tokens) > 5
    assert 0.02 <= prod(whole.confidence) < 0.03
    n = 0 if draft is None else len(draft.tokens)
    if p_min == 0.0:
        assert n == 31
    else:
        assert n == sum(prod(whole.confidence[: i + 1]) >= p_min for i in range(len(whole.tokens)))
    if draft is not None:
        n = min(n, len(whole.tokens))
        assert draft.confidence is not None
        assert draft.tokens[:n] == whole.tokens[:n] and draft.confidence[:n] == whole.confidence[:n]


def test_expected_answer() -> None:
    """Text given as the expected answer is copied from, before and after the prompt is known."""
    for before in (True, False):
        drafter = Suffix(end_tokens=[99])
        expected = [*range(10, 40), 99]
        if before:
            drafter.add_document(expected)
        drafter.begin([1, 2, 3])
        if not before:
            drafter.add_document(expected)
        assert drafter.propose([1, 2, 3], 7, 8) is None
        drafter.commit(Verdict([7], [10], [], 0), None, False)
        draft = drafter.propose([1, 2, 3, 7], 10, 8)
        drafter.controlled = True
        whole = drafter.propose([1, 2, 3, 7], 10, 8)
        assert whole is not None and whole.tokens == list(range(11, 11 + len(whole.tokens)))
        assert draft is None or draft.tokens == whole.tokens[: len(draft.tokens)]
        assert drafter.audit([1, 2, 3, 7]) is None


def test_forget_drops_the_session_and_keeps_corpora() -> None:
    """C017 (ggml-org/llama.cpp#19164): nothing of one user's text is left for the next."""
    corpus = Corpus(array("i", [5, 6, 7, 8, 5, 6, 7, 8]), [8])
    drafter, fresh = Suffix(corpora=[corpus]), Suffix(corpora=[corpus])
    drafter.controlled = fresh.controlled = True
    drafter.begin([1, 2, 3, 1, 2])
    assert drafter.propose([1, 2, 3, 1], 2, 9) is not None
    drafter.forget()
    for each in (drafter, fresh):
        each.begin([1])
    assert drafter.propose([1], 2, 9) is None and fresh.propose([1], 2, 9) is None
    a, b = drafter.propose([1, 2, 5], 6, 9), fresh.propose([1, 2, 5], 6, 9)
    assert a is not None and a == b and a.tokens[:2] == [7, 8]
    assert drafter.info.n_corpora == 1


def test_memory_and_closing() -> None:
    """Memory is bounded by the option; a closed drafter says so."""
    drafter = Suffix(memory=1)
    rng = random.Random(9)
    history: list[int] = []
    drafter.begin(history)
    for _ in range(300):
        kept = [rng.randrange(1000) for _ in range(20)]
        drafter.commit(Verdict(kept, [], [], 0), None, False)
        history += kept
    assert drafter.info.n_indexed <= 1024
    assert drafter.audit(history) is None
    drafter.close()
    drafter.close()
    with pytest.raises(ClosedError):
        drafter.propose(history, 1, 1)


@pytest.mark.parametrize("options", [{"m": 0}, {"memory": 0}, {"end_tokens": ["x"]}])
def test_options(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        Suffix(**options)


def test_a_long_prompt_is_indexed_in_time(count_cases: Callable[[int], None]) -> None:
    """The work for a token is bounded for any text: a run of one token, and the token that ends it (steps are counted
    in tests/native/test_suffix_automaton.cpp)."""
    drafter = Suffix(memory=64)
    for history in ([7] * 20_000, [7, 8] * 10_000, list(range(20_000))):
        drafter.begin(history)
        draft = drafter.propose(history, history[-1] + 1, 4)
        assert drafter.audit(history) is None
        count_cases(len(history))
    assert draft is None
