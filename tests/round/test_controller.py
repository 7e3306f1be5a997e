"""The controller under a scripted clock: what it may ever lose, what it gains, and that it is a function of what it
saw."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pyspec.drafters.base import Draft, Drafter
from pyspec.speculation.bank import LIMIT, MARGIN, START
from pyspec.speculation.controller import FIRST_TRUST, Controller
from pyspec.speculation.cost_table import CostTable
from tests.round.controller_world import (
    KERNEL,
    N_VOCAB,
    STEEP,
    TABLES,
    Clock,
    Guess,
    Silent,
    World,
    by_chance,
    spans,
)


def adversary(world: World) -> Callable[[int], bool]:
    """Right while the bank fills, wrong when there is something to take."""
    return lambda place: world.controller.bank.balance < 0.8 * LIMIT


def text(clock: Clock) -> list[Drafter]:
    return [Guess(clock)]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("rate", [0.0, 0.05, 0.35, 0.6, 0.95])
def test_never_slower_than_the_bank_allows(table: str, rate: float) -> None:
    """The bank's promise holds at every moment, not only at the end, for every acceptance."""
    world = World(text, TABLES[table])
    plain = world.times.time(1)
    spent = 0.0
    for _ in range(600):
        world.play(1, by_chance(rate))
        n = sum(emitted for _, emitted in world.log)
        spent = world.clock.ms
        assert spent <= (1 + MARGIN) * plain * n + START * plain + 1e-6
    assert min(world.lows) >= -1e-6
    if rate == 0.0:
        assert world.speed >= 0.98


@pytest.mark.parametrize("table", TABLES)
def test_adversary_cannot_break_the_bank(table: str) -> None:
    """Acceptance that turns as soon as it is believed."""
    world = World(text, TABLES[table])
    world.play(2000, adversary(world))
    n = sum(emitted for _, emitted in world.log)
    plain = world.times.time(1)
    assert min(world.lows) >= -1e-6
    assert world.clock.ms <= (1 + MARGIN) * plain * n + START * plain + 1e-6


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.95])
def test_every_round_is_in_the_books(rate: float) -> None:
    """The balance after each round is the one before, plus plain time for what came out, minus what it took."""
    world = World(text, KERNEL)
    plain = world.times.time(1)
    balance, n_drafted = START, 0
    for _ in range(300):
        before = world.clock.ms
        world.play(1, by_chance(rate))
        drafted, emitted = world.log[-1]
        if drafted:
            balance += (1 + MARGIN) * emitted - (world.clock.ms - before) / plain
        else:
            balance += MARGIN
        balance = min(LIMIT, balance)
        assert world.controller.bank.balance == pytest.approx(balance)
        n_drafted += drafted
    assert n_drafted > 0


def test_gains_where_there_is_something_to_gain() -> None:
    """Speed against plain, near what the best fixed length for that acceptance gives."""
    for table, rate, least in (
        ("kernel", 0.6, 1.5), ("kernel", 0.95, 2.3), ("flat", 0.6, 1.9), ("flat", 0.95, 3.3),
        ("steep", 0.95, 1.6), ("steep", 0.6, 1.0),
    ):  # fmt: skip
        world = World(text, TABLES[table])
        world.play(3000, by_chance(rate))
        assert world.speed >= least, (table, rate, world.speed)


def test_confident_drafters_are_believed_and_corrected() -> None:
    """A drafter that knows when it is right speeds spans up and costs nothing between them; one that only claims so is
    corrected."""
    honest = spans(40, 1.0, 0.0)
    clock_world = World(
        lambda clock: [Guess(clock, confidence=lambda place: 0.97)], KERNEL
    )  # always sure: right in half of the spans
    clock_world.play(4000, honest)
    assert clock_world.speed >= 1.05
    liar = World(lambda clock: [Guess(clock, confidence=lambda place: 0.99)], STEEP)
    liar.play(3000, by_chance(0.1))
    assert liar.speed >= 0.985
    late = liar.log[-300:]
    assert sum(drafted for drafted, _ in late) / len(late) < 0.5


def test_better_drafter_is_chosen() -> None:
    """Two text drafters, one of which is always wrong: all are judged all the time, the good one does the work even when it
    stands behind."""

    class Wrong(Guess):
        def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
            draft = super().propose(history, last, limit)
            return draft and Draft([(token + 7) % N_VOCAB for token in draft.tokens], self.name)

    world = World(lambda clock: [Wrong(clock, "wrong"), Guess(clock, "right")], KERNEL)
    world.play(2000, by_chance(0.9))
    assert world.speed >= 2.0
    wrong = world.controller.record("wrong").calibration.corrected(0, None)
    right = world.controller.record("right").calibration.corrected(0, None)
    assert wrong < 0.1 and right > 0.8


def test_a_table_with_one_wrong_width_costs_little() -> None:
    """Drafts of a length that is believed to be cheap, and is not, are found out, with one plain round to be sure."""
    truth = {1: 10.0, 4: 12.0, 8: 60.0, 16: 120.0, 32: 240.0}
    world = World(text, truth, believed={1: 10.0, 4: 12.0, 8: 14.0, 16: 20.0, 32: 36.0}, learns=True)
    world.play(500, by_chance(0.9))
    started, n_rounds = world.clock.ms, len(world.log)
    world.play(300, by_chance(0.9))
    emitted = sum(emitted for _, emitted in world.log[n_rounds:])
    assert truth[1] * emitted / (world.clock.ms - started) > 2.0
    assert world.controller.costs.time(8) == pytest.approx(60.0, rel=0.3)


@pytest.mark.parametrize("error", [0.95, 1.05])
def test_wrong_belief_and_noise(error: float) -> None:
    """T(1) believed 5 % wrong and decodes that scatter by a third: the promise is wrong by about as much, no more."""
    generator = random.Random(3)
    world = World(
        text,
        STEEP,
        believed={n: ms * (error if n == 1 else 1.0) for n, ms in STEEP.items()},
        noise=lambda: 1 + generator.uniform(-0.3, 0.3),
    )
    world.play(4000, by_chance(0.2))
    assert world.speed >= 0.92


def test_spikes_do_not_end_speculation() -> None:
    """Decodes that take three times as long for a while."""
    ticks = iter(range(10**9))
    world = World(text, KERNEL, noise=lambda: 3.0 if 100 <= next(ticks) % 400 < 120 else 1.0)
    world.play(3000, by_chance(0.9))
    drafted = [drafted for drafted, _ in world.log[-100:]]
    assert sum(drafted) / len(drafted) > 1.5


def test_drafters_without_answers_cost_nothing() -> None:
    world = World(lambda clock: [Silent()], STEEP)
    world.play(300, by_chance(1.0))
    assert world.speed == pytest.approx(1.0)


def test_equal_runs_draft_equally() -> None:
    """Invariant 49, C017 (ggml-org/llama.cpp#19164), C079 (ggml-org/llama.cpp#12968): with a scripted clock the same history
    gives the same drafts."""
    logs = []
    for _ in range(2):
        world = World(text, KERNEL)
        world.play(1000, spans(30, 0.95, 0.1))
        logs.append(world.log)
    assert logs[0] == logs[1]


def test_counted_costs_ignore_the_clock() -> None:
    """With counted costs and a frozen table a clock that runs wild changes no choice."""
    generator = random.Random(1)
    logs = []
    for noise in (lambda: 1.0, lambda: generator.uniform(0.1, 9.0)):
        world = World(
            lambda clock: [Guess(clock, "model", text=False, cost=5.0, confidence=lambda place: 0.8), Guess(clock)],
            KERNEL, noise=noise, counted_cost=True,
        )  # fmt: skip
        world.play(1500, spans(50, 0.9, 0.2))
        logs.append(world.log)
    assert logs[0] == logs[1]


def test_unknown_costs_mean_plain_decoding() -> None:
    world = World(text, KERNEL)
    world.controller = Controller(CostTable(), clock=world.clock)
    world.controller.begin()
    assert world.controller.draft(world.chain, [0, 1], 2, 10) is None


def test_foreign_confidences_are_checked() -> None:
    """A drafter whose confidences or laws are none is parked, and the generation goes on."""
    for bad in ([float("nan")], [2.0], ["x"], [0.5, 0.5]):

        class Foreign(Drafter):
            name, is_text = "foreign", True

            def propose(self, history: Sequence[int], last: int, limit: int, bad: Any = bad) -> Draft | None:
                return Draft([5], self.name, confidence=bad)

        world = World(lambda clock: [Foreign(), Guess(clock)], KERNEL)
        world.play(200, by_chance(0.9))
        assert "foreign" in world.chain.parked and world.speed > 1.5


def test_first_drafts_on_another_text_risk_little() -> None:
    """However sure the last text has made everybody: a long draft is a large stake."""
    world = World(text, KERNEL)
    world.play(600, by_chance(1.0))
    plain = world.times.time(1)
    lengths = [n for n, _ in world.log]
    assert max(lengths[-10:]) >= 15
    world.controller.begin()
    n_rounds = len(world.log)
    world.play(1, by_chance(0.0))
    first, _ = world.log[n_rounds]
    assert first > 0 and world.times.time(first + 1) <= (1 + FIRST_TRUST) * plain
    world.controller.begin()
    n_rounds = len(world.log)
    world.play(60, by_chance(1.0))
    assert (
        max(n for n, _ in world.log[n_rounds : n_rounds + 4]) > 2 * first
    )  # and what they gain is staked at once


def test_numbers_of_one_generation_only() -> None:
    controller = Controller(CostTable(KERNEL), clock=Clock())
    controller.choices.lengths[3] = 7
    controller.begin()
    assert controller.choices.lengths == {}
    controller.end()
    before = controller._answer_tokens
    controller.end()
    assert controller._answer_tokens == before


@pytest.mark.parametrize("factor", [0.001, 0.1, 10.0, 1000.0])
def test_a_first_table_that_is_far_off_stops_nothing(factor: float) -> None:
    """A table of another machine: the shape serves at once, the scale follows, and speculation goes on."""
    world = World(text, KERNEL, believed={n: factor * ms for n, ms in KERNEL.items()}, learns=True)
    world.play(400, by_chance(0.95))
    started, n_rounds = world.clock.ms, len(world.log)
    world.play(400, by_chance(0.95))
    emitted = sum(emitted for _, emitted in world.log[n_rounds:])
    assert world.times.time(1) * emitted / (world.clock.ms - started) > 2.0
    assert world.controller.costs.time(1) == pytest.approx(world.times.time(1), rel=0.5)
