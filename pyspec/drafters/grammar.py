"""grammar: propose what the grammar of the generation forces.

Where a grammar leaves no choice (key names, punctuation, constants) the next bytes are known. The draft is the model's
own tokenisation of them. Bytes being forced does not force tokens: the target may split them differently, and the last
token may be joined to text that is not forced any more. So the target verifies the draft like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pyspec.drafters.base import Draft, Drafter, Verdict


class Forced(Protocol):
    """Where a generation stands in its grammar, as far as the drafter needs to know."""

    def forced_tokens(self, limit: int) -> list[int]:
        """The model's tokens for the bytes that must come next."""
        ...


class _Rate:
    """How often guesses of one kind came true: a mean that starts from a prior and forgets slowly."""

    __slots__ = ("hits", "total")

    #: Observations, prior included, that the mean remembers.
    MEMORY = 256.0

    def __init__(self, hits: float, total: float) -> None:
        self.hits = hits
        self.total = total

    def add(self, hit: bool) -> None:
        if self.total >= self.MEMORY:
            self.hits *= 0.5
            self.total *= 0.5
        self.hits += hit
        self.total += 1.0

    @property
    def mean(self) -> float:
        return self.hits / self.total


class GrammarDrafter(Drafter):
    """Proposes forced text. Owns nothing but two acceptance rates, which outlive a generation.

    m: longest draft, in tokens.
    """

    name = "grammar"
    priority = 0
    is_text = True

    def __init__(self, m: int = 32) -> None:
        self.m = m
        self.max_draft = m
        #: The grammar of the generation, set before it begins, None without one. It must have been told all tokens the
        #: target emitted, `last` included, when `propose` is called.
        self.state: Forced | None = None
        self._inner = _Rate(19.0, 20.0)
        self._final = _Rate(6.0, 10.0)
        self._proposed: list[int] = []
        self._has_final = False

    def begin(self, tokens: Sequence[int]) -> None:
        self._proposed = []

    def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
        self._proposed = []
        if self.state is None:
            return None
        limit = min(limit, self.m)
        tokens = self.state.forced_tokens(limit + 1)
        self._has_final = len(tokens) <= limit
        self._proposed = tokens = tokens[:limit]
        if not tokens:
            return None
        confidence = [self._inner.mean] * len(tokens)
        if self._has_final:
            confidence[-1] = self._final.mean
        return Draft(list(tokens), self.name, confidence=confidence)

    def commit(self, verdict: Verdict, rows: Any | None, mine: bool) -> None:
        """Learns from what the target emitted, whoever's draft it was: its choices show which guesses were right."""
        proposed, final = self._proposed, len(self._proposed) - 1
        for i, (guess, token) in enumerate(zip(proposed, verdict.emitted, strict=False)):
            rate = self._final if self._has_final and i == final else self._inner
            rate.add(guess == token)
            if guess != token:
                break
        self._proposed = []

    def close(self) -> None:
        self.state = None
