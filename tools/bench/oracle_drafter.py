"""A drafter that costs nothing and is always right: what is left of a round is the round itself.

It replays an answer recorded from a plain run, in pieces of random length, and notes when it is asked. From one question to
the next is one whole round as the user pays for it; the time the backend computed meanwhile is taken from the context.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from pyspec.drafters.base import Draft, Drafter


class OracleDrafter(Drafter):
    """recorded: the answer behind a prompt of n_prompt tokens. target: the context that verifies. Drafts have 0..longest
    tokens, drawn evenly from `lengths`.

    wall_us and compute_us get one entry for each round that was followed by another question. The time that taking
    notes costs is in neither.
    """

    name = "oracle"

    def __init__(
        self, recorded: list[int], n_prompt: int, target: Any, lengths: random.Random, longest: int
    ) -> None:
        self.max_draft = longest
        self.wall_us: list[float] = []
        self.compute_us: list[float] = []
        self._recorded = recorded
        self._n_prompt = n_prompt
        self._target = target
        self._lengths = lengths
        self._started: float | None = None
        self._computed = 0

    def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
        now = perf_counter()
        computed = self._target.stats().compute_us
        if self._started is not None:
            self.wall_us.append(1e6 * (now - self._started))
            self.compute_us.append(float(computed - self._computed))
        emitted = len(history) + 1 - self._n_prompt
        length = min(self._lengths.randint(0, self.max_draft), limit)
        draft = Draft(self._recorded[emitted : emitted + length], self.name)
        self._computed = computed
        self._started = perf_counter()
        return draft
