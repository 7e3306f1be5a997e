"""Options, learnt lengths, resets, confidence, and what the tables cost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from pyspec.core.ngram import KINDS, NgramTable
from pyspec.drafters.base import Verdict
from pyspec.drafters.ngram_drafter import NgramDrafter
from pyspec.drafters.ngram_map import NgramMapK, NgramMapK4v
from pyspec.drafters.ngram_mod import NgramMod
from pyspec.drafters.ngram_simple import NgramSimple
from pyspec.drafters.registry import DRAFTER_KINDS
from pyspec.errors import ClosedError, OptionError

from .histories import tokens_of
from .references import MapK4v, Mod, Simple
from .test_drafts import MAKERS, each_kind

#: Names of the registry's options in the C interface.
FIELDS = {"n_match": "n", "n_max": "m", "entries": "n_entries", "save": "learn"}


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_are_the_registry_s(kind: str) -> None:
    """A C program gets the defaults that Python has."""
    line = next(line for line in DRAFTER_KINDS if line.name == f"ngram-{kind}")
    options = NgramTable(kind, **({"n_vocab": 10} if kind == "cache" else {})).options
    for option in line.options:
        if option.name not in ("static", "dynamic"):
            assert options[FIELDS.get(option.name, option.name)] == option.default, option.name


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("simple", {"n": 0}, r"n is 0, expected 1\.\.1024"),
        ("simple", {"m": 1025}, r"m is 1025, expected 1\.\.1024"),
        ("map-k", {"min_hits": 0}, "min_hits is 0"),
        ("map-k4v", {"n": -4}, "n is -4"),
        ("mod", {"n_min": 17}, r"n_min is 17, expected 0\.\.16"),
        ("mod", {"n_entries": 1 << 25}, "n_entries is"),
        ("cache", {}, "n_vocab is 0"),
        ("cache", {"n": "x"}, "n='x'"),
        ("cache", {"size": 4}, "size=4"),
        ("simple", {"n": 2**40}, "n=1099511627776"),
        ("other", {}, "unknown kind of n-gram drafter 'other'; known kinds: simple, map-k"),
    ],
)
def test_bad_options(kind: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        NgramTable(kind, **options)


def test_closed() -> None:
    drafter = NgramSimple()
    drafter.close()
    drafter.close()
    with pytest.raises(ClosedError):
        drafter.begin([1])


@each_kind
def test_a_history_it_was_not_told_about(kind: str) -> None:
    """A user's own loop may forget to call begin; length tells, and the table catches up."""
    history = [9, *[1, 2, 3, 4, 5, 6, 7, 8] * 3]
    told = MAKERS[kind][0]()
    told.begin(history)
    expected = tokens_of(told, history, 1)
    assert expected and tokens_of(MAKERS[kind][0](), history, 1) == expected


@each_kind
def test_degenerate_histories(kind: str) -> None:
    """Empty, one token, one token repeated 32k times, all distinct, the lowest and the highest id; limits 0 and 1."""
    make, make_reference = MAKERS[kind]
    for history in ([], [5], [5, 5], list(range(90)), [0, 99] * 9):
        drafter, reference = make(), make_reference()
        drafter.begin(history)
        reference.begin(history)
        for last in (0, 5, 99):
            for limit in (0, 1, 3):
                assert tokens_of(drafter, history, last, limit) == list(reference.propose(last, limit))
    drafter, reference, history = make(), make_reference(), [5] * 32_768
    reference.begin(history[:100])
    expected = list(reference.propose(5, 100))
    started = time.perf_counter()
    drafter.begin(history)
    assert tokens_of(drafter, history, 5) == expected
    drafter.truncate(100)
    assert tokens_of(drafter, history[:100], 5) == expected
    assert time.perf_counter() - started < 2
    drafter.truncate(0)
    assert tokens_of(drafter, [], 5) == []


@each_kind
def test_ids_that_are_no_text(kind: str) -> None:
    """Negative ids stand for what is not text: nothing after them is drafted, and nothing is drafted after one."""
    drafter = MAKERS[kind][0]()
    history = [9, *[1, 2, 3, -7, 5, 6, 7, 8, 10, 11] * 3]
    drafter.begin(history)
    assert tokens_of(drafter, history, 1) == [2, 3]
    assert tokens_of(drafter, history, -7) == []
    drafter.truncate(0)
    assert drafter.audit([]) is None


@pytest.mark.parametrize("make", [lambda: NgramMapK(2, 8), lambda: NgramMapK4v(2, 8)])
def test_lengths_fall_and_grow(make: Callable[[], NgramDrafter]) -> None:
    """A wrong draft shortens the next one of its key to what came true, never to nothing; right ones double it. Rounds of
    other drafters teach as well; a target that has not gone far enough yet says nothing.
    """
    drafter = make()
    passage = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    history = [*passage, 50, 51] * 3
    drafter.begin([*history, 1])

    def length(emitted: list[int], mine: bool = False, limit: int = 100) -> int:
        """Length of the draft, whose round then emits these tokens and is taken back."""
        draft = tokens_of(drafter, [*history, 1], 2, limit)
        n = 0
        while n < min(len(draft), len(emitted)) and draft[n] == emitted[n]:
            n += 1
        verified = draft if mine else []
        drafter.commit(Verdict([], emitted, verified, n if mine else 0), None, mine)
        return len(draft)

    assert length([3, 4, 5, 90]) == 8
    assert length([90], mine=True) == 3
    assert length([90]) == 1  # never 0
    assert length([91]) == 1
    assert length([3], mine=True) == 1
    assert length([3]) == 2  # the second token is not known yet
    assert length([3, 4, 5]) == 2
    assert length([3, 4, 5, 6, 7, 8, 9, 10], limit=2) == 2  # cut: no longer draft is known to be worth it
    assert length([3, 4, 5, 6]) == 4
    assert length(passage[2:]) == 8
    assert length(passage[2:]) == 8


def test_four_values_and_no_more() -> None:
    """map-k4v: a fifth value is not drafted however often it comes, but it counts against the others."""
    for values, draft in [
        ([10, 11, 12, 13, *[14] * 10], []),
        ([10, 11, 12, *[14] * 10], [14]),
        ([*[10] * 8, 11, 12, 13, 14], [10]),
        ([*[10] * 9, 11, 12, 13, 14, 15], []),
    ]:
        drafter, reference = NgramMapK4v(1, 1), MapK4v(1, 1)
        history = [token for value in values for token in (5, value)]
        drafter.begin(history)
        reference.begin(history)
        assert tokens_of(drafter, history, 5) == list(reference.propose(5, 9)) == draft


def test_bad_rounds_reset_the_table() -> None:
    """Invariant 32: five rounds in a row below a quarter empty the table, one good round starts the count again, and the
    present history is entered again at once. The quarter is of the draft that was verified.
    """

    def after(rounds: list[tuple[int, int]]) -> bool:
        """Does the table still know the text of an earlier conversation?"""
        drafter, reference = NgramMod(2, 1, 8, 1024), Mod(2, 1, 8, 1024)
        old, now = [1, 2, 3, 4, 5, 6, 7, 8, 9], [20, 21, 22, 23, 24, 25]
        for each in (drafter, reference):
            each.begin(old)
            each.begin(now)
        for n_draft, n_accepted in rounds:
            drafter.commit(Verdict([], [0], [1] * n_draft, n_accepted), None, True)
            reference.commit([], [0], n_draft, n_accepted)
        assert tokens_of(drafter, [*now[:-1], 25], 99) == []
        drafter.begin([1, 20, 21])
        reference.begin([1, 20, 21])
        assert tokens_of(drafter, [1, 20, 21], 22) == list(reference.propose(22, 100)) == [23, 24, 25]
        drafter.begin([1])
        known = tokens_of(drafter, [1], 2)
        reference.begin([1])
        assert known == list(reference.propose(2, 100))
        assert known in ([], [3, 4, 5, 6, 7, 8, 9])
        return bool(known)

    bad, good = (8, 1), (8, 2)
    assert after([bad] * 4)
    assert not after([bad] * 5)
    assert after([bad] * 4 + [good] + [bad] * 4)
    assert not after([bad] * 4 + [good] + [bad] * 5)
    assert after([(4, 1)] * 9)  # a draft of 8 cut to 4: one of four is a quarter
    assert not after([(5, 1)] * 5)


def test_a_full_table_is_emptied_at_begin() -> None:
    """Invariant 32: above a quarter in use, begin starts anew with the present history; at a quarter it does not."""
    for n_old, remembered in ((250, True), (400, False)):
        drafter, reference = NgramMod(2, 1, 8, 1024), Mod(2, 1, 8, 1024)
        old, now = list(range(100, 100 + n_old)), [1, 2, 3, 4, 5, 6]
        drafter.begin(old[:3])
        reference.begin(old[:3])
        drafter.commit(Verdict(old[3:], [], [], 0), None, False)
        reference.commit(old[3:], [])
        drafter.begin(now)
        reference.begin(now)
        assert reference.resets == (0 if remembered else 1)
        assert tokens_of(drafter, now, 99) == []
        drafter.begin([1])
        assert tokens_of(drafter, [1], 2) == [3, 4, 5, 6]
        drafter.begin([100])
        reference.begin([100])
        assert tokens_of(drafter, [100], 101) == list(reference.propose(101, 100))
        assert bool(tokens_of(drafter, [100], 101)) == remembered


def test_an_unknown_n_gram_is_not_answered_by_another_s_entry() -> None:
    """With a quarter of the table in use every fourth place is taken; entries say whose they are."""
    drafter = NgramMod(2, 1, 1, 1024)
    rng = random.Random(1)
    history = [rng.randrange(10_000) for _ in range(256)]
    drafter.begin(history)
    known = set(history)
    wrong = sum(bool(tokens_of(drafter, history, last)) for last in range(10_000) if last not in known)
    assert wrong == 0


def test_confidence_starts_at_the_prior_and_follows_the_text() -> None:
    """Longer matches and agreeing witnesses are trusted more. After 100 right drafts of a kind confidence is high, after
    100 wrong ones low; only positions that were reached count.
    """

    def first(drafter: NgramDrafter, history: list[int], last: int) -> list[float]:
        draft = drafter.propose(history, last, 3)
        assert draft is not None and draft.confidence is not None
        return draft.confidence

    once = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 30, 31, 32, 33, 34, 35, 36, 37, 1, 2]
    short, long = NgramSimple(1, 3), NgramSimple(4, 8)
    text = [0, *range(1, 20), 50, 1, 2, 3]
    short.begin(text)
    long.begin(text)
    p_short, p_long = first(short, text, 4)[0], first(long, text, 4)[0]
    assert 0.3 < p_short < 0.5 < p_long < 0.75
    twice = NgramSimple(2, 3)
    twice.begin(once)
    agreed = first(twice, once, 3)
    assert agreed[0] > p_long and agreed[0] == max(agreed)  # 4 follows twice; then the witnesses part

    drafter = NgramSimple(1, 3)
    drafter.begin(text)
    fresh = first(drafter, text, 4)
    for _ in range(100):
        assert tokens_of(drafter, text, 4, 3) == [5, 6, 7]
        drafter.commit(Verdict([], [5, 99], [], 0), None, False)
    learnt = first(drafter, text, 4)
    assert learnt[0] > 0.93 and learnt[1] < 0.07 and learnt[2] == fresh[2]
    for _ in range(200):
        tokens_of(drafter, text, 4, 3)
        drafter.commit(Verdict([], [99], [], 0), None, False)
    assert first(drafter, text, 4)[0] < 0.07


def test_confidence_waits_for_the_tokens() -> None:
    """A draft that nobody verified is judged token by token as plain decoding goes on."""
    drafter = NgramSimple(1, 3)
    history = [0, *range(1, 40), 50]
    drafter.begin(history)
    for last in range(1, 30):
        assert tokens_of(drafter, history, last, 3) == [last + 1, last + 2, last + 3]
        drafter.commit(Verdict([last], [last + 1], [], 0), None, False)
        history.append(last)
        draft = drafter.propose(history, last + 1, 3)
    assert draft is not None and draft.confidence is not None
    assert min(draft.confidence) > 0.85  # all three positions, each from about 27 drafts


#: Most bytes per token of history, as the headers say.
BYTES_PER_TOKEN = {
    "ngram-simple": 48,
    "ngram-map-k": 52,
    "ngram-map-k4v": 104,
    "ngram-mod": 8,
    "ngram-cache": 424,
}


@each_kind
@pytest.mark.parametrize("text", ["distinct", "words", "one"])
def test_memory_is_bounded(kind: str, text: str) -> None:
    """The headers' bounds hold for texts that fill the tables most, and cutting and growing again takes no more."""
    n = 40_000
    rng = random.Random(2)
    history = {
        "distinct": list(range(n)),
        "words": [int(rng.paretovariate(0.7)) % 5_000 for _ in range(n)],
        "one": [7] * n,
    }[text]
    drafter = MAKERS[kind][0]()
    empty = drafter.memory_bytes
    drafter.begin(history)
    full = drafter.memory_bytes
    assert 4 * n <= full - empty <= BYTES_PER_TOKEN[kind] * n + 4096
    for _ in range(3):
        drafter.truncate(n // 3)
        drafter.begin(history)
    assert drafter.memory_bytes == full


@each_kind
def test_cost_does_not_grow_with_the_history(kind: str) -> None:
    """C077 (ggml-org/llama.cpp#22673): a round costs what it adds, and so does a prompt: 64k tokens of history are no
    slower per token than 1k. (A scan would be 64 times as slow.)
    """

    def cost(length: int) -> tuple[float, float]:
        rng = random.Random(1)
        history = [int(rng.paretovariate(0.7)) % 50_000 for _ in range(length)]
        drafter = MAKERS[kind][0]()
        best = prompt = 1.0
        for _ in range(3):
            drafter.begin([])
            started = time.perf_counter()
            drafter.begin(history)
            prompt = min(prompt, (time.perf_counter() - started) / length)
        for _ in range(50):
            started = time.perf_counter()
            drafter.propose(history, 7, 48)
            drafter.commit(Verdict([7, 8], [8, 9], [], 0), None, False)
            best = min(best, time.perf_counter() - started)
            history += [7, 8]
        return best, prompt

    (round_long, prompt_long), (round_short, prompt_short) = cost(64_000), cost(1_000)
    assert round_long < 20 * round_short
    assert prompt_long < 20 * prompt_short
    print(f"{kind}: {1e6 * round_long:.1f} us a round, {1e9 * prompt_long:.0f} ns a token of prompt")


def test_simple_is_what_it_was() -> None:
    """Cases by hand, one for each clause of the rule."""
    for history, last, draft in [
        ([9, 1, 2, 3, 4, 5, 6, 7, 1], 2, [3, 4, 5]),
        ([1, 2, 3, 4, 5, 6, 7, 8, 1], 2, []),  # the only hit is at index 0, which is never examined
        ([9, 1, 2, 3, 4, 1], 2, []),  # n + m + 1 tokens or fewer
        (
            [9, 1, 2, 5, 6, 7, 1, 2, 1],
            2,
            [],
        ),  # fewer than n tokens after the newest hit; older ones do not count
        ([9, 1, 2, 5, 6, 7, 8, 9, 4], 2, []),
    ]:
        drafter, reference = NgramSimple(2, 3), Simple(2, 3)
        drafter.begin(history)
        reference.begin(history)
        assert tokens_of(drafter, history, last) == list(reference.propose(last, 9)) == draft
