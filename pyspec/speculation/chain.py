"""The drafters of a session, asked in priority order until one answers.

Exactly one drafter owns a draft; drafts are never mixed. A drafter that raises, or that proposes ids the
target does not have, is parked with a warning for the rest of the chain's life and generation goes on without
it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pyspec.drafters.base import Draft, Drafter, Needs, Verdict

if TYPE_CHECKING:
    from pyspec.core.context import CancelToken
    from pyspec.core.sampler import Sampler

log = logging.getLogger("pyspec")


class Member:
    """A drafter in the chain with its place and its counters for the current generation."""

    __slots__ = (
        "begin_seconds", "calls", "commit_seconds", "drafter", "index", "is_text", "max_draft", "name", "parked",
        "seconds", "taps",
    )  # fmt: skip

    def __init__(self, index: int, drafter: Drafter) -> None:
        self.index = index
        self.drafter = drafter
        self.name = drafter.name
        self.taps = bool(getattr(drafter, "needs", Needs()).taps)
        self.is_text = bool(getattr(drafter, "is_text", False))
        self.max_draft = int(getattr(drafter, "max_draft", 63))
        self.calls = 0
        self.seconds = 0.0
        self.begin_seconds = 0.0
        self.commit_seconds = 0.0
        self.parked: str | None = None

    def n_unread(self, history: list[int]) -> int:
        """How many tokens of the history it still has to read before it can draft."""
        try:
            n_read = getattr(self.drafter, "n_read", None)
            return 0 if n_read is None else max(0, len(history) - int(n_read))
        except Exception:  # a foreign object: what it says about itself is not worth a generation
            return 0

    @property
    def cost_hint(self) -> float | None:
        """What a token of it costs as a part of a plain one, by its own account."""
        hint = getattr(self.drafter, "cost_hint", None)
        return float(hint) if isinstance(hint, (int, float)) and 0 < hint < 1e3 else None


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
        return max((member.max_draft for member in self.members), default=0)

    @property
    def live(self) -> tuple[Member, ...]:
        """The members that take part, in order."""
        return self._active

    def prepare(
        self, sampler: Sampler | None, *, controlled: bool, needs_laws: bool = False, grammar: Any = None
    ) -> None:
        """Before the first proposal: what drafters may want to know of the generation, see Drafter. grammar: its state, for
        the drafter of that name.
        """
        for member in self.members:
            if member.name == "grammar":
                with suppress(AttributeError):
                    member.drafter.state = grammar  # type: ignore[attr-defined]
            with suppress(AttributeError):  # a foreign object need not take them
                member.drafter.target_sampler = sampler
                member.drafter.controlled = controlled
                member.drafter.needs_laws = needs_laws

    def release(self) -> None:
        """After a generation: nothing of it is kept alive by the drafters."""
        self.prepare(None, controlled=False)

    def begin(self, tokens: list[int], cancel: CancelToken | None) -> None:
        """A generation starts after these tokens; cancel reaches drafters that compute for long."""
        self._cancel = cancel
        for member in self.members:
            member.calls = 0
            member.seconds = member.begin_seconds = member.commit_seconds = 0.0
            with suppress(AttributeError):  # a foreign object need not take it
                member.drafter.cancel = cancel
        for member in self._active:
            started = perf_counter()
            try:
                member.drafter.begin(tokens)
            except Exception as error:
                self._failed(member, error)
            member.begin_seconds += perf_counter() - started

    def propose(self, history: list[int], last: int, limit: int) -> Draft | None:
        """The first draft, cut to limit; sets owner."""
        self.owner = -1
        if limit < 1:
            return None
        for member in self._active:
            draft = self.ask(member, history, last, limit)
            if draft is not None:
                self.owner = member.index
                return draft
        return None

    def ask(
        self,
        member: Member,
        history: list[int],
        last: int,
        limit: int,
        proceed: Callable[[int, float], bool] | None = None,
    ) -> Draft | None:
        """One drafter's draft, checked and cut to limit; None when it has none. Parks it when it fails.

        proceed: see Drafter.proceed.
        """
        started = perf_counter()
        member.calls += 1
        drafter = member.drafter
        try:
            if proceed is not None:
                drafter.proceed = proceed
            return self._checked(drafter.propose(history, last, limit), limit)
        except Exception as error:
            self._failed(member, error)
            return None
        finally:
            if proceed is not None:
                with suppress(AttributeError):
                    drafter.proceed = None
            member.seconds += perf_counter() - started

    def commit(self, verdict: Verdict, rows: Any) -> None:
        """Tell everyone what the target kept."""
        owner = self.owner
        for member in self._active:
            started = perf_counter()
            try:
                member.drafter.commit(verdict, rows if member.taps else None, member.index == owner)
            except Exception as error:
                self._failed(member, error)
            member.commit_seconds += perf_counter() - started

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

    @property
    def copies(self) -> bool:
        """Can any of them copy from text that is given to it?"""
        return any(hasattr(member.drafter, "add_document") for member in self.members)

    def add_document(self, tokens: list[int]) -> None:
        """Text that is expected to come; for the members that can copy from it."""
        for member in self._active:
            if hasattr(member.drafter, "add_document"):
                try:
                    member.drafter.add_document(tokens)
                except Exception as error:
                    self._failed(member, error)

    def shift(self, p0: int, p1: int, delta: int) -> None:
        """Positions [p0, p1) left the history, later ones moved by delta."""
        self._tell("shift", p0, p1, delta)

    def _tell(self, call: str, *arguments: Any) -> None:
        for member in self._active:
            try:
                getattr(member.drafter, call)(*arguments)
            except Exception as error:
                self._failed(member, error)

    def _checked(self, draft: Draft | None, limit: int) -> Draft | None:
        if draft is None or not draft.tokens:
            return None
        n = len(draft.tokens)
        for what, values in (("confidences", draft.confidence), ("distributions", draft.distributions)):
            if values is not None and len(values) != n:
                raise ValueError(f"proposed {n} tokens with {len(values)} {what}")
        if draft.confidence is not None:
            draft.confidence = list(map(float, draft.confidence))
            if not all(0.0 <= value <= 1.0 for value in draft.confidence):
                raise ValueError(f"proposed confidences that are not within 0..1: {draft.confidence}")
        for token, law in zip(draft.tokens, draft.distributions or (), strict=False):
            ids = {entry[0] for entry in law}
            total = sum(entry[1] for entry in law)
            if law and (len(ids) < len(law) or token not in ids or not abs(total - 1.0) < 1e-3):
                raise ValueError(
                    f"token {token} comes with a law of {len(law)} entries that add up to {total}"
                )
        draft.tokens = tokens = list(map(int, draft.tokens))
        if n > limit:
            draft.cut(limit)
        if min(tokens) < 0 or max(tokens) >= self._n_vocab:
            raise ValueError(f"proposed ids outside the target's vocabulary of {self._n_vocab}: {tokens}")
        return draft

    def _failed(self, member: Member, error: Exception) -> None:
        if self._cancel is not None and self._cancel.cancelled:
            raise error  # not its fault: the user cancelled
        member.parked = f"{type(error).__name__}: {error}"
        self._active = tuple(other for other in self._active if other.parked is None)
        log.warning("drafter %s is parked, generation goes on without it: %s", member.name, member.parked)
        log.debug("the parked drafter's error", exc_info=error)
