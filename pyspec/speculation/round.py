"""One speculative round, readable aloud: draft, decode, accept, keep, commit.

The target's memory holds exactly the committed history; `last` was sampled after it and is not decoded yet.
One decode of [last] + draft gives a row for every guess and one more, the acceptance rule decides from the rows
which guesses stand and which token of the target follows them, and the cells of the rest are dropped. By default
emitted tokens are always the target's own choices, so the draft cannot change the text.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pyspec.drafters.base import Draft, Verdict
from pyspec.speculation.chain import Chain
from pyspec.speculation.rollback import keep

if TYPE_CHECKING:
    from pyspec.core.context import CancelToken, Context
    from pyspec.speculation.acceptance import Acceptance
    from pyspec.speculation.controller import Controller


def _with_one_row_more(masks: Any) -> Any:
    import numpy as np

    return np.concatenate([masks, np.full_like(masks[:1], -1)])


class Round:
    """The step of one generation. Borrows everything; history is the session's list and is extended here.

    max_rows: most tokens one decode of the target may verify together (its batch and output limits): a
    verification group is never split. controller: chooses drafter and length; None: the first drafter that
    answers, whatever it proposes. grammar: what may be emitted (`plan`, `commit`); None: anything. certainty: the
    best candidate's share of the probability of the ten best on the first row, as the model gives it (before temperature,
    penalties and masks), for the controller; None: it need not know.
    """

    __slots__ = (
        "accept_seconds", "acceptance", "cancel", "certainty", "chain", "controller", "draft_seconds", "grammar",
        "history", "masks", "max_rows", "target", "verify_seconds",
    )  # fmt: skip

    def __init__(
        self,
        *,
        target: Context,
        acceptance: Acceptance,
        chain: Chain,
        history: list[int],
        max_rows: int,
        cancel: CancelToken | None,
        controller: Controller | None = None,
        grammar: Any | None = None,
        certainty: Callable[[], float] | None = None,
    ) -> None:
        self.target = target
        self.acceptance = acceptance
        self.chain = chain
        self.controller = controller
        self.grammar = grammar
        self.certainty = certainty
        #: What each row of the last decode was allowed to emit, {rows, words} bits; None: anything.
        self.masks: Any = None
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

    def first(self) -> list[int]:
        """The first token, from the last row of the prompt."""
        if self.grammar is not None:
            _, self.masks = self.grammar.plan([])
        emitted, _ = self.acceptance.accept(None, self.masks, 1)
        if self.grammar is not None:
            self.grammar.commit(emitted)
        return emitted

    def step(self, last: int, remaining: int) -> Verdict:
        """Run one round after last; emits between 1 and remaining tokens."""
        t0 = perf_counter()
        draft = self._draft(last, self.budget(remaining))
        if self.grammar is not None:
            self.masks = self._plan(draft)
        tokens = [] if draft is None else draft.tokens
        t1 = perf_counter()
        rows = [last, *tokens]
        self.target.decode(rows, outputs="all", cancel=self.cancel)
        t2 = perf_counter()
        emitted, n_accepted = self.acceptance.accept(draft, self.masks, remaining)
        certainty = None if self.certainty is None else self.certainty()
        verdict = Verdict(rows[: len(emitted)], emitted, tokens, n_accepted)
        self.keep(verdict)
        if self.grammar is not None:
            self.grammar.commit(emitted)
        self.chain.commit(verdict, self.target)
        if self.controller is not None:
            self.controller.settle(self.chain, len(tokens), emitted, certainty)
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

    def _plan(self, draft: Draft | None) -> Any:
        """Cut the draft where the grammar forbids it; what each row may emit."""
        legal, masks = self.grammar.plan([] if draft is None else draft.tokens)  # type: ignore[union-attr]
        if draft is None:
            return masks
        if draft.distributions is not None and len(legal) < len(draft.tokens):
            # A token that was drawn from q and is forbidden must be rejected, not left out: what replaces it is drawn
            # from the residual. The row behind it is never looked at.
            draft.cut(len(legal) + 1)
            return _with_one_row_more(masks)
        draft.cut(len(legal))
        return masks

    def _draft(self, last: int, budget: int) -> Draft | None:
        if self.controller is not None:
            return self.controller.draft(self.chain, self.history, last, budget)
        return self.chain.propose(self.history, last, budget)
