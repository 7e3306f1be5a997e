"""Every n-gram drafter drafts what its rule says, written as a search through the whole history (`references`), after any
sequence of rounds, new prompts, cuts, shifts and undone rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspec.drafters.base import Verdict
from pyspec.drafters.ngram_cache import NgramCache
from pyspec.drafters.ngram_drafter import NgramDrafter
from pyspec.drafters.ngram_map import NgramMapK, NgramMapK4v
from pyspec.drafters.ngram_mod import NgramMod
from pyspec.drafters.ngram_simple import NgramSimple

from .files import parse, write
from .histories import Edit, edits, run, tokens_of
from .references import Cache, MapK, MapK4v, Mod, Reference, Simple

CASES = settings(max_examples=250, deadline=None)


@CASES
@given(st.integers(1, 4), st.integers(1, 9), edits(3))
def test_simple(n: int, m: int, events: list[Edit]) -> None:
    """Invariant 31: the same history gives the same draft, however it came about."""
    run(NgramSimple(n, m), Simple(n, m), 3, events)


@CASES
@given(st.integers(1, 3), st.integers(1, 6), st.integers(1, 3), edits(2))
def test_map_k(n: int, m: int, min_hits: int, events: list[Edit]) -> None:
    """Invariant 31, with the lengths that are learnt."""
    run(NgramMapK(n, m, min_hits), MapK(n, m, min_hits), 2, events)


@CASES
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), edits(2))
def test_map_k4v(n: int, m: int, min_hits: int, events: list[Edit]) -> None:
    """Invariant 31; with m up to 4 there are more than four values of a key."""
    run(NgramMapK4v(n, m, min_hits), MapK4v(n, m, min_hits), 2, events)


@CASES
@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 5), edits(3))
def test_mod(n: int, n_min: int, more: int, events: list[Edit]) -> None:
    """Invariants 31 and 32: the table is that of the reference, resets and replaced entries included."""
    n_max = max(1, n_min + more)
    run(NgramMod(n, n_min, n_max, 1024), Mod(n, n_min, n_max, 1024), 3, events)


TABLE = st.dictionaries(
    st.lists(st.integers(0, 2), min_size=1, max_size=4).map(tuple),
    st.dictionaries(st.integers(0, 2), st.integers(1, 5), min_size=1),
    max_size=6,
)


@CASES
@given(st.integers(1, 8), TABLE, TABLE, st.booleans(), edits(3))
def test_cache(
    n_max: int,
    dynamic: dict[tuple[int, ...], dict[int, int]],
    static: dict[tuple[int, ...], dict[int, int]],
    learn: bool,
    events: list[Edit],
) -> None:
    """Invariants 31 and 33: drafts, and all counts of the context, are those of a count from scratch."""
    drafter = NgramCache(n_max, n_vocab=3)
    drafter.table.close()
    drafter.table = type(drafter.table)("cache", m=n_max, n_vocab=3, learn=learn)
    drafter.table.load("dynamic", write(dynamic), "dynamic")
    drafter.table.load("static", write(static), "static")
    reference = Cache(n_max, dynamic, static, learn)

    def check() -> None:
        assert parse(drafter.table.save("context")) == reference.context().counts
        assert parse(drafter.table.save("dynamic")) == reference.dynamic.counts
        assert parse(drafter.table.save("static")) == static
        both = {key: Counter(found) for key, found in reference.dynamic.counts.items()}
        for key, found in reference.context().counts.items():
            both.setdefault(key, Counter()).update(found)
        assert parse(drafter.table.save("learnt")) == both

    run(drafter, reference, 3, events, check)


MAKERS: dict[str, tuple[Callable[[], NgramDrafter], Callable[[], Reference]]] = {
    "ngram-simple": (lambda: NgramSimple(2, 6), lambda: Simple(2, 6)),
    "ngram-map-k": (lambda: NgramMapK(2, 6), lambda: MapK(2, 6)),
    "ngram-map-k4v": (lambda: NgramMapK4v(2, 6), lambda: MapK4v(2, 6)),
    "ngram-mod": (lambda: NgramMod(2, 1, 6, 1024), lambda: Mod(2, 1, 6, 1024)),
    "ngram-cache": (lambda: NgramCache(n_vocab=100), lambda: Cache(8)),
}
each_kind = pytest.mark.parametrize("kind", MAKERS)


@each_kind
def test_fresh_and_used(kind: str) -> None:
    """Invariant 31: after begin with a shorter history nothing is copied from beyond it, and the drafts are those of a
    fresh drafter. (ngram-mod remembers what it has read; of what it never read it knows nothing.)
    """
    long = [1, 2, 3, 4, 5, 6, 7, 8, 9] * 6
    short = [20, 21, 22, 23, 24, 25, 26] * 3
    used, fresh = MAKERS[kind][0](), MAKERS[kind][0]()
    used.begin(long)
    for last in range(1, 10):
        tokens_of(used, long, last)
    used.begin(short)
    fresh.begin(short)
    for last in range(19, 28):
        assert tokens_of(used, short, last) == tokens_of(fresh, short, last)
    assert any(tokens_of(used, short, last) for last in range(19, 28))
    if kind != "ngram-mod":
        assert not any(tokens_of(used, short, last) for last in range(1, 10))


@each_kind
def test_a_context_that_rolls(kind: str) -> None:
    """C060 (ggml-org/llama.cpp#21815): 1,000 tokens through a window of 256 that is shifted whenever it is full. No index
    points past the end; drafting goes on after each shift.
    """
    make, make_reference = MAKERS[kind]
    drafter, reference = make(), make_reference()
    text = [(i * i // 7 + i // 3) % 23 for i in range(90)]
    history = text[:20]
    drafter.begin(history)
    reference.begin(history)
    after_shift: list[int] = []
    n_shifts = drafted = 0
    for i in range(1000):
        if len(history) >= 255:
            drafter.shift(10, 130, -120)
            reference.shift(10, 130)
            del history[10:130]
            n_shifts += 1
            drafted = 0
        last = text[(20 + i) % 90]
        following = text[(21 + i) % 90]
        tokens = tokens_of(drafter, history, last)
        assert tokens == list(reference.propose(last, 1000))
        drafted += len(tokens)
        if n_shifts:
            after_shift.append(drafted)
        drafter.commit(Verdict([last], [following], [], 0), None, False)
        reference.commit([last], [following])
        history.append(last)
        assert drafter.audit(history) is None
    assert n_shifts >= 5
    assert sum(d > 0 for d in after_shift) > 0.8 * len(after_shift)


def replayed(drafter: NgramDrafter, prompt: list[int], answer: list[int]) -> tuple[int, int, int]:
    """(rounds, drafted, accepted) of an answer that is known beforehand, as the round would make it."""
    history, at = list(prompt), 1
    drafter.begin(history)
    rounds = drafted = accepted = 0
    while at < len(answer):
        last = answer[at - 1]
        draft = tokens_of(drafter, history, last)
        n = 0
        while n < len(draft) and at + n < len(answer) - 1 and draft[n] == answer[at + n]:
            n += 1
        emitted = answer[at : at + n + 1]
        kept = [last, *emitted[:-1]]
        drafter.commit(Verdict(kept, emitted, draft, n), None, bool(draft))
        history += kept
        at += len(emitted)
        rounds, drafted, accepted = rounds + 1, drafted + len(draft), accepted + n
    return rounds, drafted, accepted


@each_kind
def test_the_same_session_the_same_drafts(kind: str) -> None:
    """C017 (ggml-org/llama.cpp#19164): ten fresh sessions that repeat 200 lines, then ten with other sessions at work in
    between. Nothing is shared: the counts are the same each time, and never 0.
    """
    lines = [token for line in range(200) for token in (97, line % 50, (line * line) % 61, 98, line % 7, 99)]
    prompt, answer = [*lines, 5, 6], [7, *lines, 8]
    alone = [replayed(MAKERS[kind][0](), prompt, answer) for _ in range(10)]
    beside = []
    other = MAKERS[kind][0]()
    for i in range(10):
        replayed(other, [(j * (i + 3)) % 89 for j in range(300)], [(j * j + i) % 83 for j in range(200)])
        beside.append(replayed(MAKERS[kind][0](), prompt, answer))
    assert len(set(alone + beside)) == 1
    rounds, drafted, accepted = alone[0]
    assert accepted > 0.4 * len(answer) and rounds < 0.6 * len(answer) and drafted >= accepted
