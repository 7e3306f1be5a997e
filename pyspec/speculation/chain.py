"""The drafters of a session, asked in priority order until one answers.

Exactly one drafter owns a draft; drafts are never mixed. A drafter that raises, or that proposes ids the
target does not have, is parked with a warning for the rest of the chain's life and generation goes on without
it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pyspec.drafters.base import Draft, Drafter, Needs, Verdict

if TYPE_CHECKING:
    from pyspec.core.context import CancelToken

log = logging.getLogger("pyspec")

#: The answer when nobody has an opinion.
NO_TOKENS: list[int] = []


class Member:
    """A drafter in the chain with its place and its counters for the current generation."""

    __slots__ = ("calls", "drafter", "index", "name", "parked", "seconds", "taps")

    def __init__(self, index: int, drafter: Drafter) -> None:
        self.index = index
        self.drafter = drafter
        self.name = drafter.name
        self.taps = bool(getattr(drafter, "needs", Needs()).taps)
        self.calls = 0
        self.seconds = 0.0
        self.parked: str | None = None


class Chain:
    """Drafters in priority order. Does not own them: whoever made a drafter closes it."""

    def __init__(self, drafters: Sequence[Drafter], n_vocab: int) -> None:
        ordered = sorted(drafters, key=lambda drafter: getattr(drafter, "priority", 0))
        self.members = tuple(Member(index, drafter) for index, drafter in enumerate(ordered))
        self._active = self.members
        self._n_vocab = n_vocab
        self._cancel: CancelToken | None = None
        #: Index of the member whose draft is being verified; -1 when there is none.
        self.owner = -1

    @property
    def active(self) -> list[str]:
        """Names of the drafters that take part."""
        return [member.name for member in self._active]

    @property
    def parked(self) -> dict[str, str]:
        """Why the others do not."""
        return {member.name: member.parked for member in self.members if member.parked is not None}

    @property
    def max_draft(self) -> int:
        """Longest draft any of them makes."""
        return max((int(getattr(member.drafter, "max_draft", 63)) for member in self.members), default=0)

    def begin(self, tokens: list[int], cancel: CancelToken | None) -> None:
        """A generation starts after these tokens; cancel reaches drafters that compute for long."""
        self._cancel = cancel
        for member in self.members:
            member.calls = 0
            member.seconds = 0.0
            with suppress(AttributeError):  # a foreign object need not take it
                member.drafter.cancel = cancel
        self._tell("begin", tokens)

    def propose(self, history: list[int], last: int, limit: int) -> list[int]:
        """The first non-empty draft, cut to limit; sets owner."""
        self.owner = -1
        if limit < 1:
            return NO_TOKENS
        for member in self._active:
            started = perf_counter()
            member.calls += 1
            try:
                draft = member.drafter.propose(history, last, limit)
                tokens = self._checked(draft, limit)
            except Exception as error:
                self._failed(member, error)
                continue
            finally:
                member.seconds += perf_counter() - started
            if tokens:
                self.owner = member.index
                return tokens
        return NO_TOKENS

    def commit(self, verdict: Verdict, rows: Any) -> None:
        """Tell everyone what the target kept."""
        owner = self.owner
        for member in self._active:
            try:
                member.drafter.commit(verdict, rows if member.taps else None, member.index == owner)
            except Exception as error:
                self._failed(member, error)

    def commit_prompt(self, chunk: list[int], rows: Any) -> None:
        """A chunk of the prompt was decoded; only drafters that read hidden rows need to know before
        `begin`.
        """
        verdict: Verdict | None = None
        for member in self._active:
            if member.taps:
                verdict = verdict or Verdict(chunk, [], [], 0)
                try:
                    member.drafter.commit(verdict, rows, False)
                except Exception as error:
                    self._failed(member, error)

    def truncate(self, n_tokens: int) -> None:
        """The history was cut."""
        self._tell("truncate", n_tokens)

    def _tell(self, call: str, argument: Any) -> None:
        for member in self._active:
            try:
                getattr(member.drafter, call)(argument)
            except Exception as error:
                self._failed(member, error)

    def _checked(self, draft: Draft | None, limit: int) -> list[int]:
        if draft is None:
            return NO_TOKENS
        tokens = draft.tokens
        if not tokens:
            return NO_TOKENS
        if len(tokens) > limit:
            tokens = tokens[:limit]
        tokens = list(map(int, tokens))
        if min(tokens) < 0 or max(tokens) >= self._n_vocab:
            raise ValueError(f"proposed ids outside the target's vocabulary of {self._n_vocab}: {tokens}")
        return tokens

    def _failed(self, member: Member, error: Exception) -> None:
        if self._cancel is not None and self._cancel.cancelled:
            raise error  # not its fault: the user cancelled
        member.parked = f"{type(error).__name__}: {error}"
        self._active = tuple(other for other in self._active if other.parked is None)
        log.warning("drafter %s is parked, generation goes on without it: %s", member.name, member.parked)
        log.debug("the parked drafter's error", exc_info=error)
