"""Drafters that know the answer beforehand and are right or wrong on purpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspec.drafters.base import Draft, Drafter, Verdict


class Scripted(Drafter):
    """Proposes n tokens of which the first k are right, from a recorded plain answer.

    answer(place) -> the plain answer's token at that place (0 is the first after the prompt), or None behind
    its end. Also keeps what it was told, and fails loudly when the history it is shown is not the one it was
    told about.
    """

    name = "scripted"

    def __init__(
        self,
        recorded: Sequence[int],
        n_prompt: int,
        k: int,
        n: int,
        *,
        wrong: Callable[[int], int] | None = None,
    ) -> None:
        self.recorded = list(recorded)
        self.n_prompt = n_prompt
        self.k = k
        self.n = n
        self.max_draft = n
        self.wrong = wrong or (lambda token: (token + 1) % 48)
        self.told: list[int] = []
        self.removed = 0  # tokens that rolls of the context took out of the history
        self.limits: list[int] = []
        self.proposed = 0
        self.verdicts: list[tuple[Verdict, bool]] = []
        self.closed = 0

    def begin(self, tokens: Sequence[int]) -> None:
        self.told = list(tokens)
        self.removed = 0

    def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
        assert list(history) == self.told
        self.limits.append(limit)
        place = len(history) + self.removed - self.n_prompt + 1
        tokens = self.recorded[place : place + self.n]
        tokens += [7] * (self.n - len(tokens))  # behind the recorded end: anything
        tokens = [token if i < self.k else self.wrong(token) for i, token in enumerate(tokens)]
        self.proposed += 1
        return Draft(tokens, self.name)

    def commit(self, verdict: Verdict, rows: Any | None, mine: bool) -> None:
        self.told += verdict.kept
        self.verdicts.append((verdict, mine))

    def truncate(self, n_tokens: int) -> None:
        del self.told[n_tokens:]

    def shift(self, p0: int, p1: int, delta: int) -> None:
        assert p0 < p1 <= len(self.told) and delta == p0 - p1
        del self.told[p0:p1]
        self.removed += p1 - p0

    def audit(self, history: Sequence[int]) -> str | None:
        return None if self.told == list(history) else "the scripted drafter was told another history"

    def close(self) -> None:
        self.closed += 1


class Empty(Scripted):
    """Never has an opinion."""

    name = "empty"

    def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
        self.proposed += 1
        self.limits.append(limit)
        return Draft([], self.name) if self.proposed % 2 else None


class Raising(Scripted):
    """Right until the n-th proposal, then raises in the given call."""

    name = "raising"

    def __init__(self, *args: Any, call: str = "propose", after: int = 2, **options: Any) -> None:
        super().__init__(*args, **options)
        self.call, self.after = call, after

    def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
        if self.call == "propose" and self.proposed >= self.after:
            raise RuntimeError("broken drafter")
        return super().propose(history, last, limit)

    def commit(self, verdict: Verdict, rows: Any | None, mine: bool) -> None:
        if self.call == "commit" and self.proposed >= self.after:
            raise RuntimeError("broken drafter")
        super().commit(verdict, rows, mine)

    def begin(self, tokens: Sequence[int]) -> None:
        if self.call == "begin":
            raise RuntimeError("broken drafter")
        super().begin(tokens)


def script(kind: str, recorded: Sequence[int], n_prompt: int, n: int = 8) -> Scripted:
    """A scripted drafter by name: "oracle", "adversary", "empty", "raising", or "k/n"."""
    if kind == "oracle":
        return Scripted(recorded, n_prompt, n, n)
    if kind == "adversary":
        return Scripted(recorded, n_prompt, 0, n)
    if kind == "empty":
        return Empty(recorded, n_prompt, 0, n)
    if kind == "raising":
        return Raising(recorded, n_prompt, n, n)
    right, _, length = kind.partition("/")
    return Scripted(recorded, n_prompt, int(right), int(length))


KINDS = ["oracle", "adversary", "empty", "raising", "1/8", "3/8", "7/8", "1/1", "0/1", "2/3"]
