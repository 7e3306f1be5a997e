"""Histories with edits: what may happen to a drafter in any order, for hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from pyspec.drafters.base import Verdict
from pyspec.drafters.ngram_drafter import NgramDrafter

from .references import Reference


@dataclass(frozen=True)
class Edit:
    """One event. a, b: numbers that the event makes use of as it likes; tokens: new text."""

    kind: str
    a: int
    b: int
    tokens: list[int]
    mine: bool


def edits(alphabet: int, kinds: str = "round round round grow begin cut shift undo copy") -> Any:
    """Up to 12 events over tokens 0..alphabet-1."""
    text = st.lists(st.integers(0, alphabet - 1), max_size=10)
    number = st.integers(0, 60)
    return st.lists(
        st.builds(Edit, st.sampled_from(kinds.split()), number, number, text, st.booleans()), max_size=12
    )


def run(
    drafter: NgramDrafter,
    reference: Reference,
    alphabet: int,
    events: list[Edit],
    check: Callable[[], None] = lambda: None,
) -> None:
    """Hand all events to both; after each one every draft must be the same."""
    for event in events:
        _apply(drafter, reference, alphabet, event)
        history = list(reference.history)
        assert drafter.audit(history) is None
        for last in range(alphabet):
            for limit in (1 + event.a % 5, 1000):
                expected = list(reference.propose(last, limit))
                assert tokens_of(drafter, history, last, limit) == expected, (history, last, limit)
        check()


def tokens_of(drafter: NgramDrafter, history: list[int], last: int, limit: int = 1000) -> list[int]:
    """The draft, [] for none. Invariants 27, 28 and 29, for every draft of every test: none rather than an empty one,
    within the limits, and cut with what belongs to it.
    """
    draft = drafter.propose(history, last, limit)
    if draft is None:
        return []
    assert 0 < len(draft.tokens) <= min(limit, drafter.max_draft)
    assert draft.confidence is not None and len(draft.confidence) == len(draft.tokens)
    assert all(0.0 < p < 1.0 for p in draft.confidence)
    assert draft.drafter == drafter.name
    return draft.tokens


def _apply(drafter: NgramDrafter, reference: Reference, alphabet: int, event: Edit) -> None:
    history = list(reference.history)
    length = len(history)
    if event.kind == "round":
        last = event.a % alphabet
        draft = list(reference.propose(last, 1000))
        assert tokens_of(drafter, history, last) == draft
        agreed = draft[: event.b % (len(draft) + 1)]
        emitted = [*agreed, (event.tokens or [0])[0]]
        kept = [last, *emitted[:-1]]
        verified = draft[: max(1, event.b % 7)] if event.mine else []
        n_accepted = 0
        while (
            n_accepted < len(verified)
            and n_accepted < len(emitted)
            and verified[n_accepted] == emitted[n_accepted]
        ):
            n_accepted += 1
        drafter.commit(Verdict(kept, emitted, verified, n_accepted), None, bool(verified))
        reference.commit(kept, emitted, len(verified), n_accepted)
    elif event.kind == "grow":
        drafter.commit(Verdict(event.tokens, [], [], 0), None, False)
        reference.commit(event.tokens, [])
    elif event.kind == "copy":  # a repeated passage, longer than chance makes them
        more = history[event.a % (length + 1) :][: event.b]
        drafter.commit(Verdict(more, more[1:], [], 0), None, False)
        reference.commit(more, more[1:])
    elif event.kind == "begin":
        new = history[: event.a] + event.tokens
        drafter.begin(new)
        reference.begin(new)
    elif event.kind == "cut":
        drafter.truncate(event.a)
        reference.truncate(event.a)
    elif event.kind == "shift":
        p0 = event.a % (length + 1)
        p1 = min(length, p0 + event.b % 12)
        drafter.shift(p0, p1, p0 - p1)
        reference.shift(p0, p1)
    else:
        assert event.kind == "undo"
        token = drafter.checkpoint()
        drafter.commit(Verdict(event.tokens, [], [], 0), None, False)
        drafter.restore(token)
        reference.commit(event.tokens, [])
        reference.truncate(length, True)
