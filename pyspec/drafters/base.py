"""What a drafter is: the protocol between the round and everything that proposes tokens.

A drafter guesses the next tokens; the target model checks them. A wrong guess costs time, never text, so a
drafter may be as careless as it likes about quality but has to follow the committed history exactly.

Order of calls within one generation:

    begin(tokens)                        the prompt is decoded, no token has been sampled yet
    propose(history, last, limit)        each round, drafters in priority order until one answers
    commit(verdict, rows, mine)          after each verification, all drafters
    truncate(n_tokens)                   the history was cut (a stop inside a block, a new prompt)
    shift(p0, p1, delta)                 the context was full: [p0, p1) left the history
    close()                              the end

Threads: a drafter is used by one thread at a time. Any object with these methods and a `name` can be passed
to `LLM(drafters=[...])`; inheriting from `Drafter` saves writing the ones that do nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspec.core.context import CancelToken
    from pyspec.core.sampler import Sampler


@dataclass(slots=True)
class Draft:
    """Proposed tokens, to follow the last sampled one.

    confidence[i]: the drafter's estimate of the probability that the target chooses token i too when it chose
    all before it. Calibrated as well as the drafter can; the controller corrects it by what it observes.
    distributions[i]: the candidates (token, probability) that token i was drawn from, all of them; only
    rejection sampling reads it. parents is room for draft trees: parents[i] is the index of the token before
    token i (-1: the root); the round does not read it today.
    """

    tokens: list[int] = field(default_factory=list)
    drafter: str = ""
    parents: list[int] | None = None
    distributions: list[list[tuple[int, float]]] | None = None
    confidence: list[float] | None = None

    def cut(self, n: int) -> None:
        """Keep the first n tokens."""
        del self.tokens[n:]
        if self.confidence is not None:
            self.confidence = self.confidence[:n]
        if self.distributions is not None:
            self.distributions = self.distributions[:n]


@dataclass(slots=True)
class Verdict:
    """What one decode of the target settled.

    kept: tokens whose cells stay in the target's memory, in order (the last sampled token, then the accepted
    ones; a
        chunk of the prompt is kept as a whole).
    emitted: the target's own choices, at least one per round; the final one is not in any memory yet.
    draft: what was proposed, after all cuts.
    n_accepted: how many tokens of the draft the target chose too.
    """

    kept: list[int]
    emitted: list[int]
    draft: list[int]
    n_accepted: int


@dataclass(frozen=True, slots=True)
class Needs:
    """What a drafter wants from outside.

    draft_model: it runs a model file of its own (`draft=`).
    taps: layers of the target whose hidden rows it reads in `commit`.
    """

    draft_model: bool = False
    taps: tuple[int, ...] = ()


class Drafter:
    """Base class with the calls that a drafter without state can ignore."""

    #: Name in statistics and in messages.
    name: str = "drafter"
    #: Place in the chain: smaller is asked first.
    priority: int = 0
    #: Longest draft it ever makes; the target reserves output rows for it.
    max_draft: int = 63
    needs: Needs = Needs()
    #: Set by the chain for the time of one generation. Pass it to long calls so that they end when the user
    #: cancels.
    cancel: CancelToken | None = None
    #: The target's sampler for the time of one generation, set by the chain; to be read, never advanced. At
    #: `propose` it stands before the token that follows `last`. Drafters with a distribution make the same draw.
    target_sampler: Sampler | None = None
    #: True: reads nothing but committed tokens, and a proposal costs microseconds. Such drafters are asked in
    #: every round, whether their draft is used or not, and judged by what the target then emits.
    is_text: bool = False
    #: Set by the chain for drafters to whom each token costs time: proceed(n, confidence) is asked after n
    #: tokens, with the confidence of the last one, whether another is worth drafting. None: draft up to the limit.
    proceed: Callable[[int, float], bool] | None = None
    #: What drafting a token costs as a part of the target's plain token, before it was measured. None: unknown.
    cost_hint: float | None = None
    #: Set by the chain: someone decides about lengths by `confidence`, so a drafter need not drop what it is
    #: unsure of.
    controlled: bool = False
    #: Set by the chain: drafts are judged by rejection sampling. A drafter with a distribution draws from it with noise of
    #: its own and gives it along; whether a place is drafted may then not depend on what was drawn there or later.
    needs_laws: bool = False

    @property
    def n_read(self) -> int | None:
        """How many tokens of the history it has read so far; None when reading costs nothing."""
        return None

    def begin(self, tokens: Sequence[int]) -> None:
        """A generation starts; tokens is the whole decoded prompt (the caller's list: read, do not keep)."""

    def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
        """Guess up to limit tokens (limit >= 1) that follow history + [last]. None or no tokens: no opinion.

        history is what the target's memory holds; it is the caller's list: read, do not keep or change.
        """
        raise NotImplementedError

    def commit(self, verdict: Verdict, rows: Any | None, mine: bool) -> None:
        """The target kept verdict.kept, which now ends the history. mine: the draft was this drafter's.

        rows is the target context when `needs.taps` is not empty (its taps are valid during this call), else
        None. Chunks of the prompt are committed only to drafters with taps; the others get the prompt from
        `begin`.
        """

    def truncate(self, n_tokens: int) -> None:
        """The history was cut to its first n_tokens tokens."""

    def shift(self, p0: int, p1: int, delta: int) -> None:
        """Positions [p0, p1) left the history and later ones moved by delta = p0 - p1. By default what follows p0 is
        forgotten; whoever keeps that catches up from the history that `propose` gets.
        """
        self.truncate(p0)

    def checkpoint(self) -> Any:
        """A token for `restore`, taken before a round whose target cannot trim."""
        return None

    def restore(self, token: Any) -> None:
        """Back to the state of `checkpoint`."""

    def audit(self, history: Sequence[int]) -> str | None:
        """For tests: a sentence saying what is inconsistent with the committed history, or None."""
        return None

    def close(self) -> None:
        """Give back memory. May be called twice."""


def common_prefix(a: Sequence[int], b: Sequence[int], start: int = 0) -> int:
    """Length of the common prefix of a and b, which are known to agree before start."""
    n = min(len(a), len(b))
    if a[start:n] == b[start:n]:
        return n
    for i in range(start, n):
        if a[i] != b[i]:
            return i
    return n
