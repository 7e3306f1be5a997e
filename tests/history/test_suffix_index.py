"""The index behind the suffix drafter against a plain search through all it was given (`slow_suffix`)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspec.core.suffix import SuffixIndex
from pyspec.errors import ClosedError, OptionError
from tests.history.slow_suffix import SlowSuffix


class Pair:
    """Both implementations, told the same and compared."""

    def __init__(self, max_draft: int = 31, end_tokens: tuple[int, ...] = ()) -> None:
        self.fast = SuffixIndex(max_draft=max_draft, end_tokens=end_tokens)
        self.slow = SlowSuffix(max_draft, end_tokens)
        self.n_compared = 0

    def tell(self, call: str, *arguments: Any) -> None:
        getattr(self.fast, call)(*arguments)
        getattr(self.slow, call)(*arguments)

    def add_corpus(self, documents: list[list[int]]) -> None:
        ends = [sum(map(len, documents[: i + 1])) for i in range(len(documents))]
        self.fast.add_corpus([token for document in documents for token in document], ends)
        self.slow.add_corpus(documents)

    def compare(self, limit: int = 1000, min_product: float = 0.0) -> list[int]:
        assert self.fast.tokens() == self.slow.sequence
        assert self.fast.undoable == self.slow.n_undoable
        tokens, confidence = self.fast.guess(limit, min_product)
        expected, expected_confidence = self.slow.guess(limit, min_product)
        assert tokens == expected
        assert confidence == pytest.approx(expected_confidence, rel=1e-4)
        self.n_compared += 1
        return tokens


edits = st.tuples(
    st.sampled_from(["grow", "grow", "repeat", "cut", "replace", "remove", "document", "corpus", "continue"]),
    st.integers(0, 90),
    st.integers(0, 90),
)


@pytest.mark.parametrize("alphabet", [2, 3, 6])
@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(edits, min_size=1, max_size=12),
    max_draft=st.sampled_from([1, 4, 31]),
    ends=st.sampled_from([(), (1,)]),
    seed=st.integers(0, 2**32),
)
def test_equals_the_search(
    alphabet: int, steps: list[tuple[str, int, int]], max_draft: int, ends: tuple[int, ...], seed: int
) -> None:
    """Invariant 31: after any growth, cut, removal, new prompt and added document the guess is the one that a
    search through the same texts gives, and its confidence follows from what is found and has been observed.
    """
    rng = random.Random(seed)
    pair = Pair(max_draft, ends)

    def some(n: int) -> list[int]:
        return [rng.randrange(alphabet) for _ in range(n)]

    for kind, a, b in steps:
        n = len(pair.fast)
        if kind == "grow":
            pair.tell("follow", n, some(a % 30))
        elif kind == "repeat" and n:
            begin = a % n
            pair.tell("follow", n, pair.slow.sequence[begin : begin + b])
        elif kind == "cut":
            pair.tell("truncate", max(0, n - a))
        elif kind == "replace":
            pair.tell("follow", 0, pair.slow.sequence[: min(a, n)] + some(b % 9))
        elif kind == "remove":
            begin = a % (n + 1)
            pair.tell("remove", begin, min(n, begin + b))
        elif kind == "document":
            pair.tell("add_document", some(a % 20) + pair.slow.sequence[-(b % 10) :])
        elif kind == "corpus" and len(pair.slow.corpora) < 2:
            pair.add_corpus([some(a % 25), [], some(b % 25)])
        elif kind == "continue":  # as rounds do: guess, then go on as guessed for a while
            for _ in range(a % 6):
                guess = pair.compare(1 + b % 40, rng.choice([0.0, 0.3, 0.5]))
                pair.tell("follow", len(pair.fast), guess[: rng.randrange(len(guess) + 1)] + some(1))
        pair.compare(1 + b % 40, rng.choice([0.0, 0.01, 0.3, 0.5, 1.0]))
    pair.fast.close()


@given(st.lists(st.integers(0, 2), max_size=80), st.lists(st.integers(0, 2), max_size=64))
@settings(max_examples=100, deadline=None)
def test_undo_leaves_no_trace(text: list[int], more: list[int]) -> None:
    """Invariant 31: taken-back tokens (up to 64) change no later guess."""
    index, fresh = SuffixIndex(), SuffixIndex()
    index.append(text)
    before = index.info.n_states, index.info.n_transitions
    index.append(more)
    index.undo(len(more))
    assert (index.info.n_states, index.info.n_transitions) == before
    fresh.append(text)
    for token in [None, *more, *text]:
        if token is not None:
            index.append([token])
            fresh.append([token])
        assert index.guess(31, 0.0) == fresh.guess(31, 0.0)


def test_corpus_after_cuts_long_and_short() -> None:
    """The match in a corpus is that of the text's end after any cuts, also of what a long cut made it read again."""
    rng = random.Random(6)
    text = [rng.randrange(200) for _ in range(400)]
    pair = Pair()
    pair.add_corpus([text])
    pair.tell("follow", 0, text[:250])
    for cut, more in [(100, 0), (0, 5), (5, 0), (3, 0), (0, 30), (12, 7), (9, 0), (60, 2), (64, 64), (64, 1)]:
        n = len(pair.fast) - cut
        pair.tell("truncate", n)
        pair.tell("follow", n, text[n : n + more])
        assert pair.compare() == text[n + more : n + more + 31]


def recorded_text() -> list[int]:
    """Bytes of a source file, a text with much repetition."""
    return [byte if byte <= 250 else 0 for byte in Path(__file__).read_bytes()]


def test_recorded_text_in_rounds(count_cases: Callable[[int], None]) -> None:
    """Rounds over a real text: prompt, guesses, as many tokens as the text agrees with, and one more."""
    text = recorded_text()[:1500]
    pair = Pair()
    at = 400
    pair.tell("follow", 0, text[:at])
    n_right = 0
    while at < len(text) - 40:
        guess = pair.compare(16, 0.3)
        n = 0
        while n < len(guess) and guess[n] == text[at + n]:
            n += 1
        n_right += n
        pair.tell("follow", at, text[at : at + n + 1])
        at += n + 1
    assert n_right > 300
    count_cases(pair.n_compared)


def test_periodic_text_goes_on() -> None:
    """A copy that reaches the end of the text starts again, so that repetition is drafted in full."""
    index = SuffixIndex()
    index.append([1, 2, 3, 4] * 6)
    assert index.guess(31, 0.0)[0] == ([1, 2, 3, 4] * 8)[:31]
    index.reset()
    index.append([9] * 10)
    assert index.guess(8, 0.0)[0] == [9] * 8


def test_equal_calls_equal_guesses() -> None:
    """C017 (ggml-org/llama.cpp#19164): the same history gives the same drafts and confidences, in every handle."""
    rng = random.Random(5)
    calls = [(rng.randrange(60), [rng.randrange(5) for _ in range(rng.randrange(20))]) for _ in range(60)]

    def run(index: SuffixIndex) -> list[Any]:
        found = []
        for cut, more in calls:
            index.truncate(max(0, len(index) - cut))
            index.append(more)
            found.append(index.guess(31, 0.1))
        return found

    first, other = SuffixIndex(), SuffixIndex()
    other.append([1, 2, 3, 1, 2, 3, 1])
    other.guess(31, 0.0)
    expected = run(first)
    assert run(SuffixIndex()) == expected
    other.reset()  # drops text and what was learnt
    assert run(other) == expected


def test_tokens_that_are_none() -> None:
    """Ids below 0 (parts of an image) interrupt matches when they differ, and are never guessed."""
    index = SuffixIndex()
    index.append([5, 6, 7, -1, 8, 9])
    index.append([5, 6])
    assert index.guess(31, 0.0)[0] == [7]
    index.append([7, -2, 8])
    assert index.guess(31, 0.0)[0][:1] == [9]
    index.append([9, 5, 6, 7])
    assert index.guess(31, 0.0)[0] == []  # -1 and -2 follow


def test_end_tokens_end_a_guess() -> None:
    index = SuffixIndex(end_tokens=[4])
    index.append([1, 2, 3, 4, 5, 6, 1])
    assert index.guess(31, 0.0)[0] == [2, 3, 4]


def test_first_and_last_id() -> None:
    index = SuffixIndex()
    top = 2**31 - 1
    index.append([0, top, 0, top, 0])
    assert index.guess(3, 0.0)[0] == [top, 0, top]


@pytest.mark.parametrize("text", [[], [3]])
def test_hardly_any_text(text: list[int]) -> None:
    index = SuffixIndex()
    index.append(text)
    assert index.guess(31, 0.0) == ([], [])
    index.add_document([])
    index.add_document([3])
    assert index.guess(31, 0.0) == ([], [])
    index.add_document([3, 8])
    assert index.guess(31, 0.0)[0] == ([8] if text else [])
    index.add_corpus([], [])
    index.add_corpus([3, 9, 9], [0, 3])
    assert index.tokens() == text


@pytest.mark.parametrize("right", [True, False])
def test_confidence_learns_from_unused_guesses(right: bool) -> None:
    """Guesses are scored by what follows, whether anybody used them: always right here, or never."""
    rng = random.Random(1)
    words = [[rng.randrange(1000) for _ in range(6)] for _ in range(40)]
    in_other_order = rng.sample(words[:-1], 39)
    learnt, untaught = SuffixIndex(), SuffixIndex()
    for index in (learnt, untaught):
        for word in words:
            index.append(word)
        for word in in_other_order:
            index.append(word[:3])
            if index is learnt:
                guess = index.guess(3, 0.0)[0]
                assert guess and guess == word[3 : 3 + len(guess)]
            index.append(word[3:] if right else [rng.randrange(1000, 2000) for _ in range(3)])
        index.append(words[-1][:3])
    (tokens, confidence), (same, before) = learnt.guess(3, 0.0), untaught.guess(3, 0.0)
    assert tokens[:1] == same[:1] == words[-1][3:4]
    assert confidence[0] > before[0] + 0.1 if right else confidence[0] < before[0] - 0.1


def test_memory_is_bounded() -> None:
    """memory_tokens bounds the index; what is indexed goes back at least half as far."""
    index = SuffixIndex(memory_tokens=2048)
    rng = random.Random(2)
    text = [rng.randrange(50) for _ in range(40_000)]
    for at in range(0, len(text), 500):
        index.append(text[at : at + 500])
        info = index.info
        assert info.n_indexed <= 2048
        # The sequence itself takes 4 bytes a token and room for half as many more.
        assert info.memory_bytes - 6 * len(index) < 2048 * 200
    for back in (100, 600, 950):
        begin = len(index) - back
        index.append(text[begin : begin + 12])
        assert index.guess(5, 0.0)[0] == text[begin + 12 : begin + 17]
        index.undo(12)
    index.append(text[:12])
    assert index.guess(5, 0.0)[0] != text[12:17]  # long forgotten
    for _ in range(100):  # edits repeat the end of the text, and that is bounded, too
        index.remove(0, 1)
        index.add_document([1])
        index.truncate(len(index) - 70)
        assert index.info.n_indexed <= 2048
    index.reset()
    assert len(index) == 0 and index.info.n_indexed == 0
    assert index.info.memory_bytes < 100_000


def test_documents_larger_than_memory() -> None:
    index = SuffixIndex(memory_tokens=1024)
    rng = random.Random(3)
    text = [rng.randrange(500) for _ in range(5000)]
    index.append([1, 2, 3])
    index.add_document(text)
    assert index.tokens() == [1, 2, 3]
    assert index.info.n_indexed <= 1024
    index.append(text[-100:-90])
    assert index.guess(20, 0.0)[0] == text[-90:-70]


def test_edits_across_a_turn_over() -> None:
    """Undo right after the older half was put away is as exact as ever."""
    rng = random.Random(4)
    text = [rng.randrange(40) for _ in range(3000)]
    index, straight = SuffixIndex(memory_tokens=1024), SuffixIndex(memory_tokens=1024)
    turned = 0
    for at in range(0, len(text), 10):
        before = index.info.n_indexed
        index.append(text[at : at + 10])
        straight.append(text[at : at + 10])
        if at > 2500:
            assert index.guess(31, 0.0) == straight.guess(31, 0.0)
        elif index.info.n_indexed < before:
            turned += 1
            index.undo(5)
            index.append(text[at + 5 : at + 10])
            for n in (1, 10, 30):
                index.append([rng.randrange(40) for _ in range(n)])
                index.undo(n)
        assert index.tokens() == straight.tokens()
    assert turned >= 4


@pytest.fixture
def index() -> Iterator[SuffixIndex]:
    made = SuffixIndex()
    made.append([1, 2, 3, 1, 2])
    yield made
    made.close()


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("follow", (6, [1])),
        ("follow", (-1, [1])),
        ("follow", (0, [1, -(2**31)])),
        ("append", ([2**31],)),
        ("append", (["a"],)),
        ("truncate", (-1,)),
        ("undo", (6,)),
        ("undo", (-1,)),
        ("remove", (3, 2)),
        ("remove", (6, 7)),
        ("add_corpus", ([1, 2], [3])),
        ("add_corpus", ([1, 2, 3], [2, 1])),
        ("add_corpus", ([1, 2, 3], [-1])),
        ("draft", (7, 1, 3, 0.5)),
    ],
)
def test_refused_calls_change_nothing(index: SuffixIndex, call: str, arguments: tuple[Any, ...]) -> None:
    before = index.info
    with pytest.raises(OptionError):
        getattr(index, call)(*arguments)
    assert index.tokens() == [1, 2, 3, 1, 2]
    assert index.info == before
    assert index.guess(1, 0.0)[0] == [3]


@pytest.mark.parametrize(
    "options",
    [
        {"max_draft": 0},
        {"max_draft": 1025},
        {"memory_tokens": 1023},
        {"max_draft": "x"},
        {"end_tokens": [2**40]},
    ],
)
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        SuffixIndex(**options)


def test_closed(index: SuffixIndex) -> None:
    index.close()
    index.close()
    with pytest.raises(ClosedError, match="suffix index"):
        index.append([1])
