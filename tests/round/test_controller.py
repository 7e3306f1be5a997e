"""The controller under a scripted clock: what it may ever lose, what it gains, when it rests, and that it is a
function of what it saw."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pyspec.drafters.base import Draft, Drafter, Verdict
from pyspec.speculation.bank import LIMIT, MARGIN, START
from pyspec.speculation.chain import Chain
from pyspec.speculation.controller import FIRST_TRUST, Controller
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
    class Silent(Drafter):
        name, is_text = "silent", True

        def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
            return None

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


# --- the parts


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
