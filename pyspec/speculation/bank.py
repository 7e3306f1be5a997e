"""The loss bank: how much time speculation may ever have cost.

Rounds with a draft pay in what plain decoding would have taken for their tokens and take out what they took. A
draft is only made when its worst case, all of it wrong, is covered, so in the times that are believed the balance
never falls below zero however the target chooses: total time <= (1 + margin) * plain time + the initial balance.
The books are kept in plain tokens, so that a machine that turns slower, or a first table that is far off, changes
nothing of what a balance is worth. A draft model's first reading of a prompt is not in them: the controller decides
about it by what it expects.
"""

from __future__ import annotations

#: What may be lost per token for ever, as a part of plain decoding's time.
MARGIN = 0.005
#: The balance at the start and its upper limit, in plain tokens.
START, LIMIT = 4.0, 8.0


class LossBank:
    """A balance in plain tokens. Arguments are milliseconds; plain: what one plain token takes now."""

    __slots__ = ("balance",)

    def __init__(self) -> None:
        self.balance = START

    def covers(self, worst: float, plain: float) -> bool:
        """May a round that takes at most `worst` milliseconds and yields at least one token be run?"""
        return worst / plain - (1 + MARGIN) <= self.balance

    def settle(self, n_emitted: int, took: float, plain: float) -> None:
        """A round with a draft gave n_emitted tokens and took so long. What it took beyond its worst case was the
        machine's, not the draft's: that leaves no debt.
        """
        self.balance = max(0.0, min(LIMIT, self.balance + (1 + MARGIN) * n_emitted - took / plain))

    def rest(self) -> None:
        """A plain token was emitted."""
        self.balance = min(LIMIT, self.balance + MARGIN)
