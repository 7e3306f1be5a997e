"""The loss bank: how much time speculation may ever have cost.

Rounds with a draft pay in what plain decoding would have taken for their tokens and take out what they took. A
draft is only made when its worst case, all of it wrong, is covered, so the balance never falls below zero however
the target chooses: in the times that are believed, total time <= (1 + margin) * plain time + the initial balance.
A draft model's first reading of a prompt is not in these books: the controller decides about it by what it expects.
"""

from __future__ import annotations

#: What may be lost per token for ever, as a part of plain decoding's time.
MARGIN = 0.005
#: The balance at the start and its upper limit, in plain tokens.
START, LIMIT = 4.0, 8.0


class LossBank:
    """A balance in milliseconds. plain: milliseconds of one plain token."""

    __slots__ = ("balance", "lowest")

    def __init__(self, balance: float = 0.0) -> None:
        self.balance = balance
        self.lowest = balance

    def open(self, plain: float) -> None:
        """The initial balance, when a plain token's time is known for the first time."""
        self.balance = self.lowest = START * plain

    def covers(self, worst: float, plain: float) -> bool:
        """May a round that takes at most `worst` milliseconds and yields at least one token be run?"""
        return worst - (1 + MARGIN) * plain <= self.balance

    def settle(self, n_emitted: int, took: float, plain: float) -> None:
        """A round with a draft gave n_emitted tokens and took so long."""
        self.balance = min(LIMIT * plain, self.balance + (1 + MARGIN) * plain * n_emitted - took)
        self.lowest = min(self.lowest, self.balance)

    def rest(self, plain: float) -> None:
        """A plain token was emitted."""
        self.balance = min(LIMIT * plain, self.balance + MARGIN * plain)
