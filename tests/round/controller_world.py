"""A world for the controller: a scripted clock, drafters that guess, and a target that finds them right or wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from pyspec.drafters.base import Draft, Drafter, Verdict
from pyspec.speculation.chain import Chain
from pyspec.speculation.controller import Controller
from pyspec.speculation.cost_table import CostTable

#: Milliseconds of a decode by rows: widening costs a lot (no speculation pays much), nothing up to four rows, or
#: what was measured on two cores.
STEEP = {1: 33.0, 2: 46.0, 4: 73.0, 8: 158.0, 16: 187.0, 32: 330.0}
FLAT = {1: 30.0, 4: 30.0, 8: 56.0, 16: 112.0, 32: 224.0}
KERNEL = {1: 27.0, 2: 27.0, 4: 37.0, 8: 76.0, 16: 112.0, 32: 224.0}
TABLES = {"steep": STEEP, "flat": FLAT, "kernel": KERNEL}
N_VOCAB = 1000


class Clock:
    def __init__(self) -> None:
        self.ms = 0.0

    def __call__(self) -> float:
        return self.ms / 1e3


class Guess(Drafter):
    """Proposes tokens of which the world decides whether they are right. cost: milliseconds per token."""

    def __init__(
        self, clock: Clock, name: str = "guess", *, text: bool = True, cost: float = 0.0, n: int = 31,
        confidence: Callable[[int], float] | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.is_text = text
        self.max_draft = n
        self.cost = cost
        self.clock = clock
        self.confident = confidence

    def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
        tokens: list[int] = []
        confidence: list[float] = []
        for place in range(min(limit, self.max_draft)):
            self.clock.ms += self.cost
            tokens.append((len(history) + 1 + place) % N_VOCAB)
            confidence.append(self.confident(place) if self.confident else 0.6)
            if self.proceed is not None and not self.proceed(len(tokens), confidence[-1]):
                break
        return Draft(tokens, self.name, confidence=confidence if self.confident else None)


class Silent(Drafter):
    """A text drafter that never has an answer."""

    name, is_text = "silent", True

    def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
        return None


class World:
    """Plays rounds. right(position) says whether the token at that position of the text is what drafters guess (its
    position). times: what decodes really take, in milliseconds by rows."""

    def __init__(
        self, drafters: Callable[[Clock], list[Drafter]], times: dict[int, float], *,
        believed: dict[int, float] | None = None, learns: bool = False, certainty: float | None = None,
        noise: Callable[[], float] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        self.clock = Clock()
        self.times = CostTable(times, frozen=True)
        self.controller = Controller(
            CostTable(believed or times, frozen=not learns), clock=self.clock, **options
        )
        self.chain = Chain(drafters(self.clock), N_VOCAB)
        self.history = [0]
        self.noise = noise or (lambda: 1.0)
        self.certainty = certainty
        self.log: list[tuple[int, int]] = []  # (drafted, emitted)
        self.lows: list[float] = []
        self.chain.begin(self.history, None)
        self.controller.begin()

    def play(self, n_tokens: int, right: Callable[[int], bool]) -> None:
        goal = len(self.history) + n_tokens
        while len(self.history) < goal:
            draft = self.controller.draft(self.chain, self.history, self.history[-1], 10**6)
            tokens = [] if draft is None else draft.tokens
            self.clock.ms += self.times.time(len(tokens) + 1) * self.noise()
            emitted: list[int] = []
            start = len(self.history) + 1  # the place of the token that follows `last`
            for token in [*tokens, None]:
                place = start + len(emitted)
                truth = place % N_VOCAB if right(place) else (place + 500) % N_VOCAB
                emitted.append(truth)
                if token != truth:
                    break
            accepted = len(emitted) - 1
            verdict = Verdict([self.history[-1], *emitted[:-1]], emitted, tokens, accepted)
            self.history.extend(emitted)
            self.chain.commit(verdict, None)
            self.controller.settle(self.chain, len(tokens), emitted, self.certainty)
            self.log.append((len(tokens), len(emitted)))
            self.lows.append(self.controller.bank.balance)

    @property
    def speed(self) -> float:
        """Against plain decoding."""
        return self.times.time(1) * sum(emitted for _, emitted in self.log) / self.clock.ms


def by_chance(rate: float, seed: int = 0) -> Callable[[int], bool]:
    def right(place: int) -> bool:
        return random.Random(f"{seed}/{place}").random() < rate

    return right


def spans(length: int, high: float, low: float) -> Callable[[int], bool]:
    def right(place: int) -> bool:
        return by_chance(high if (place // length) % 2 == 0 else low)(place)

    return right


class Reader(Guess):
    """A draft model that has read nothing yet: reading costs time, too."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, "reader", text=False, cost=10.0)
        self.cost_hint = 0.37
        self.read = 0

    @property
    def n_read(self) -> int:
        return self.read

    def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
        self.clock.ms += 2.0 * (len(history) - self.read)
        self.read = len(history)
        return super().propose(history, last, limit)
