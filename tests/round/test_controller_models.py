"""The controller and drafters whose tokens cost time: whether a prompt is read for them, when they draft, rest and return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pyspec.drafters.base import Draft, Drafter
from pyspec.speculation.chain import Chain
from pyspec.speculation.controller import ROUNDS_BEFORE_READING
from tests.round.controller_world import (
    KERNEL,
    N_VOCAB,
    STEEP,
    Clock,
    Guess,
    Reader,
    Silent,
    World,
    by_chance,
)


def test_drafter_that_costs_time() -> None:
    """A model drafter is used where it pays, stops early, and is left alone where it does not."""

    def model(clock: Clock) -> list[Drafter]:
        return [Guess(clock, "model", text=False, cost=5.0, n=8, confidence=lambda place: 0.9)]

    pays = World(model, KERNEL)
    pays.play(3000, by_chance(0.9))
    assert pays.speed >= 1.5
    loses = World(model, STEEP)
    loses.play(3000, by_chance(0.1))
    assert loses.speed >= 0.97
    assert loses.controller.record("model").pause > 0
    slow = World(lambda clock: [Guess(clock, "model", text=False, cost=60.0, n=8)], KERNEL)
    slow.play(3000, by_chance(0.95))
    assert slow.speed >= 0.97


def test_text_before_model() -> None:
    """When the text drafter is as good, the one that costs time is not even asked."""

    def both(clock: Clock) -> list[Drafter]:
        return [
            Guess(clock, "text", confidence=lambda place: 0.9),
            Guess(clock, "model", text=False, cost=10.0, n=8, confidence=lambda place: 0.9),
        ]

    world = World(both, KERNEL)
    world.play(2000, by_chance(0.9))
    asked = {member.name: member.calls for member in world.chain.members}
    assert asked["model"] < 0.1 * asked["text"]


@pytest.mark.parametrize(("certainty", "reads"), [(0.97, True), (0.35, False)])
def test_the_targets_certainty_says_whether_reading_pays(certainty: float, reads: bool) -> None:
    """A text of which the target is unsure is not for a smaller model: nothing is read or tried, nothing is lost. Where the
    target is sure it is read and used."""
    world = World(lambda clock: [Reader(clock)], KERNEL, certainty=certainty)
    world.history[:] = range(100)
    world.controller.limit = 200
    world.play(200, by_chance(certainty))
    (member,) = world.chain.members
    assert (member.drafter.n_read > 0) == reads
    assert (world.speed > 1.2) if reads else (world.speed == pytest.approx(1.0))


def test_the_first_failures_after_reading_prove_little() -> None:
    """What was read stays in use when the first drafts fail on a text of which the target is sure."""
    world = World(lambda clock: [Reader(clock)], KERNEL, certainty=0.8)
    world.history[:] = range(60)
    world.controller.limit = 160
    (member,) = world.chain.members
    tested: list[int] = []

    def right(place: int) -> bool:
        if member.drafter.n_read and len(tested) < 2:
            tested.append(place)
            return False
        return by_chance(0.8)(place)

    world.play(160, right)
    drafted = [n for n, _ in world.log]
    first = next(i for i, n in enumerate(drafted) if n)
    assert len(tested) == 2 and sum(n > 0 for n in drafted[first : first + 40]) > 30


def test_a_good_name_is_soon_lost() -> None:
    """Right on one text, wrong on the next, while the target is sure of both."""
    world = World(lambda clock: [Reader(clock)], KERNEL, certainty=0.95)
    world.play(600, by_chance(0.97))
    assert world.speed > 1.2
    world.controller.begin()
    world.controller.limit = 300
    started, n_rounds = world.clock.ms, len(world.log)
    world.play(300, by_chance(0.0))
    lost = (world.clock.ms - started) / KERNEL[1] - sum(emitted for _, emitted in world.log[n_rounds:])
    assert lost < 7.0
    assert sum(n > 0 for n, _ in world.log[n_rounds : n_rounds + 40]) <= 11
    assert sum(n for n, _ in world.log[-100:]) <= 2


def test_a_wrong_pair_reads_no_more_prompts() -> None:
    """What a drafter was worth on the last texts is expected on the next one."""
    world = World(lambda clock: [Reader(clock)], KERNEL, certainty=0.95)
    (member,) = world.chain.members
    reader = member.drafter
    assert isinstance(reader, Reader)
    reads = []
    for _ in range(5):
        world.controller.begin()
        world.controller.limit = 200
        world.history[:] = range(60)
        reader.read = 0
        world.play(200, by_chance(0.0))
        reads.append(reader.read > 0)
    assert reads[0] and not any(reads[1:])


@pytest.mark.parametrize("beside", [False, True])
def test_reading_waits_for_text_drafters_only(beside: bool) -> None:
    """A long prompt is read as soon as the target's certainty is known; where a text drafter may yet find something, only
    when that had as long as reading takes."""

    def drafters(clock: Clock) -> list[Drafter]:
        return [Silent(), Reader(clock)] if beside else [Reader(clock)]

    world = World(drafters, KERNEL, certainty=0.97)
    world.history[:] = range(250)
    world.controller.limit = 400
    world.play(200, by_chance(0.97))
    first = next(i for i, (n, _) in enumerate(world.log) if n)
    reading = 250 * 2.0 / KERNEL[1]
    assert reading > 2 * ROUNDS_BEFORE_READING
    assert first >= 0.9 * reading if beside else first <= ROUNDS_BEFORE_READING + 1


def test_the_first_cost_follows_the_plain_token() -> None:
    """A stored table of a slow hour: what a draft model is thought to cost before it was timed shrinks with it."""
    world = World(
        lambda clock: [Reader(clock)], KERNEL, believed={n: 5.0 * ms for n, ms in KERNEL.items()}, learns=True,
        certainty=0.97,
    )  # fmt: skip
    world.history[:] = range(100)  # read after some rounds only
    world.controller.limit = 200
    world.play(200, by_chance(0.97))
    assert world.controller.record("reader").ms_per_token < 15.0 and sum(n for n, _ in world.log) > 50


def test_a_certain_text_and_a_drafter_that_disagrees() -> None:
    """What certainty promises is corrected by what drafts turned out to be."""
    world = World(lambda clock: [Reader(clock)], KERNEL, certainty=0.97)
    world.play(400, by_chance(0.1))
    assert world.controller.record("reader").calibration.prior < 0.6
    assert world.speed > 0.96
    drafted = [n for n, _ in world.log]
    assert sum(drafted[:100]) > 0 and sum(drafted[-200:]) <= 4


def test_a_strange_drafter_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """Also when every call brings a chain of its own."""
    world = World(lambda clock: [Guess(clock, "alien", text=False, cost=1.0)], KERNEL, certainty=0.95)
    for _ in range(3):
        world.play(150, by_chance(0.0))
        world.chain = Chain([Guess(world.clock, "alien", text=False, cost=1.0)], N_VOCAB)
        world.controller.begin()
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("alien drafts for another model") and " 0 of its " in told


def test_rests_and_comes_back() -> None:
    """A drafter that lost rests with growing pauses and is used again when the text suits it."""

    def model(clock: Clock) -> list[Drafter]:
        return [Guess(clock, "model", text=False, cost=2.0, n=8, confidence=lambda place: 0.9)]

    world = World(model, KERNEL)
    world.play(1500, by_chance(0.0))
    rests = world.controller.choices.rests
    calls = world.chain.members[0].calls
    world.play(3000, by_chance(1.0))
    late = world.log[-100:]
    assert sum(drafted for drafted, _ in late) > 100, (rests, calls)


def test_drawn_drafts_are_not_cut_by_what_was_drawn() -> None:
    """Invariant 4: with a law the whole draft is verified, whatever came out."""

    class Drawn(Guess):
        def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
            draft = super().propose(history, last, limit)
            assert draft is not None
            draft.distributions = [[(token, 1.0)] for token in draft.tokens]
            return draft

    # The second token is not worth its row: a draft without a law is cut before it.
    def sure_of_one(place: int) -> float:
        return 0.95 if place == 0 else 0.05

    def model(clock: Clock) -> list[Drafter]:
        return [Drawn(clock, "model", text=False, cost=1.0, n=4, confidence=sure_of_one)]

    world = World(model, STEEP, counted_cost=True)
    made: list[int] = []
    ask = world.chain.ask

    def spy(*arguments: Any, **more: Any) -> Draft | None:
        draft = ask(*arguments, **more)
        made.append(0 if draft is None else len(draft.tokens))
        return draft

    world.chain.ask = spy  # type: ignore[method-assign]
    world.play(20, by_chance(1.0))
    verified = [drafted for drafted, _ in world.log if drafted]
    assert max(made) > 1 and verified == [n for n in made if n]
