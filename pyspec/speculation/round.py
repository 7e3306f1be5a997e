"""One speculative round, readable aloud: draft, decode, accept, keep, commit.

The target's memory holds exactly the committed history; `last` was sampled after it and is not decoded yet.
One decode of [last] + draft gives a row for every guess and one more, the sampler chooses a token from each
row until its choice differs from the draft, and the cells of the rest are dropped. Emitted tokens are always
the target's own choices, so the draft cannot change the text.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from pyspec.drafters.base import Verdict
from pyspec.speculation.chain import Chain
from pyspec.speculation.rollback import keep

if TYPE_CHECKING:
    from pyspec.core.context import CancelToken, Context
    from pyspec.core.model import Model
    from pyspec.core.sampler import Sampler


class Round:
    """The step of one generation. Borrows everything; history is the session's list and is extended here.

    max_rows: most tokens one decode of the target may verify together (its batch and output limits): a
    verification group is never split.
    """

    __slots__ = (
        "accept_seconds", "cancel", "chain", "draft_seconds", "history", "max_rows", "model", "sampler",
        "target", "verify_seconds",
    )  # fmt: skip

    def __init__(
        self,
        *,
        model: Model,
        target: Context,
        sampler: Sampler,
        chain: Chain,
        history: list[int],
        max_rows: int,
        cancel: CancelToken | None,
    ) -> None:
        self.model = model
        self.target = target
        self.sampler = sampler
        self.chain = chain
        self.history = history
        self.max_rows = max_rows
        self.cancel = cancel
        self.draft_seconds = 0.0
        self.verify_seconds = 0.0
        self.accept_seconds = 0.0

    def budget(self, remaining: int) -> int:
        """Longest draft worth verifying when remaining tokens may still be emitted.

        A round emits one token more than it accepts. remaining already respects the context: it counts the
        free cells.
        """
        return min(remaining, self.max_rows) - 1

    def step(self, last: int, remaining: int) -> Verdict:
        """Run one round after last; emits between 1 and remaining tokens."""
        t0 = perf_counter()
        draft = self.chain.propose(self.history, last, self.budget(remaining))
        t1 = perf_counter()
        rows = [last, *draft]
        self.target.decode(rows, outputs="all", cancel=self.cancel)
        t2 = perf_counter()
        emitted, n_accepted = self.sampler.accept_match(self.target, draft, model=self.model, n_max=remaining)
        verdict = Verdict(rows[: len(emitted)], emitted, draft, n_accepted)
        self.keep(verdict)
        self.chain.commit(verdict, self.target)
        t3 = perf_counter()
        self.draft_seconds += t1 - t0
        self.verify_seconds += t2 - t1
        self.accept_seconds += t3 - t2
        return verdict

    def keep(self, verdict: Verdict) -> None:
        """Extend the history by what stays and drop the cells of the rest."""
        self.history.extend(verdict.kept)
        if len(verdict.kept) <= len(verdict.draft):
            keep(self.target, len(self.history))
