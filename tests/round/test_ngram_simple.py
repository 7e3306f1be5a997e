"""ngram-simple against the rule it follows, written as the plain scan (section 2.1 of the drafter
reference).
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspec.drafters.base import Verdict
from pyspec.drafters.ngram_simple import NgramSimple


def scan(t: Sequence[int], last: int, n: int, m: int) -> list[int]:
    """The rule, step by step."""
    length = len(t)
    if length <= n + m + 1:
        return []
    key = [*t[length - n + 1 :], last] if n > 1 else [last]
    for j in range(length - n - 1, 0, -1):
        if list(t[j : j + n]) == key:
            count = min(m, length - (j + n))
            return [] if count < n else list(t[j + n : j + n + count])
    return []


def proposed(drafter: NgramSimple, history: list[int], last: int) -> list[int]:
    draft = drafter.propose(history, last, 1000)
    return [] if draft is None else draft.tokens


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 2), max_size=60),
    st.integers(1, 4),
    st.integers(1, 9),
    st.lists(st.tuples(st.sampled_from(["grow", "cut", "replace"]), st.integers(0, 60)), max_size=8),
    st.randoms(use_true_random=False),
)
def test_equals_the_scan(
    start: list[int], n: int, m: int, edits: list[tuple[str, int]], rng: random.Random
) -> None:
    """Invariant 31: the index gives what a scan of the same history gives, through any growth, cut and new
    prompt.
    """
    drafter = NgramSimple(n, m)
    history = list(start)
    drafter.begin(history)
    for kind, amount in [("grow", 0), *edits]:
        if kind == "grow":
            more = [rng.randrange(3) for _ in range(amount % 12)]
            drafter.commit(Verdict(more, [], [], 0), None, False)
            history += more
        elif kind == "cut":
            amount = min(amount, len(history))
            drafter.truncate(amount)
            del history[amount:]
        else:
            history = history[: amount // 2] + [rng.randrange(3) for _ in range(amount)]
            drafter.begin(history)
        assert drafter.audit(history) is None
        for last in range(3):
            assert proposed(drafter, history, last) == scan(history, last, n, m)


def test_a_history_it_was_not_told_about() -> None:
    """A user's own loop may forget to call begin; length tells, and the index catches up."""
    drafter = NgramSimple(2, 3)
    history = [1, 2, 3, 4, 5, 6, 1, 2, 3, 4]
    assert proposed(drafter, history, 5) == scan(history, 5, 2, 3) == [6, 1, 2]


@pytest.mark.parametrize(
    ("history", "last", "draft"),
    [
        ([9, 1, 2, 3, 4, 5, 6, 7, 1], 2, [3, 4, 5]),
        ([1, 2, 3, 4, 5, 6, 7, 8, 1], 2, []),  # the only hit is at index 0, which is never examined
        ([9, 1, 2, 3, 4, 1], 2, []),  # n + m + 1 tokens or fewer
        (
            [9, 1, 2, 5, 6, 7, 1, 2, 1],
            2,
            [],
        ),  # the newest hit has fewer than n tokens behind it; older ones do not count
        ([9, 1, 2, 5, 6, 7, 8, 9, 4], 2, []),
    ],
)
def test_by_hand(history: list[int], last: int, draft: list[int]) -> None:
    drafter = NgramSimple(2, 3)
    drafter.begin(history)
    assert proposed(drafter, history, last) == scan(history, last, 2, 3) == draft


def test_equal_hashes_are_not_equal_tokens() -> None:
    """hash((-1,)) == hash((-2,)) in CPython: the index must look at the tokens themselves."""
    assert hash((-1,)) == hash((-2,))
    drafter = NgramSimple(1, 3)
    history = [5, -1, 6, 7, 8, 9]
    drafter.begin(history)
    assert proposed(drafter, history, -2) == scan(history, -2, 1, 3) == []
    assert proposed(drafter, history, -1) == [6, 7, 8]


def test_checkpoint_and_restore() -> None:
    drafter = NgramSimple(2, 3)
    history = [9, 1, 2, 3, 4, 5, 6, 7, 1]
    drafter.begin(history)
    token = drafter.checkpoint()
    drafter.commit(Verdict([2, 3], [], [], 0), None, True)
    drafter.restore(token)
    assert drafter.audit(history) is None
    assert proposed(drafter, history, 2) == [3, 4, 5]


def test_cost_does_not_grow_with_the_history() -> None:
    """A round costs what it adds: 64k tokens of history are no slower than 1k (the plain scan would be 64
    times).
    """

    def cost(length: int) -> float:
        rng = random.Random(1)
        drafter = NgramSimple()
        history = [rng.randrange(50_000) for _ in range(length)]
        drafter.begin(history)
        best = 1.0
        for _ in range(50):
            started = time.perf_counter()
            drafter.propose(history, 7, 48)
            drafter.commit(Verdict([7, 8], [], [], 0), None, False)
            best = min(best, time.perf_counter() - started)
            history += [7, 8]
        return best

    assert cost(64_000) < 20 * cost(1_000)
