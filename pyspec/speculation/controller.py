"""Which drafter, and how many tokens: the choice that makes the most of the time it takes.

With a_j the probability that token j of a draft is accepted when those before it were, a round with the first k
tokens emits E(k) = 1 + a_1 + a_1 a_2 + ... tokens and costs C(k) = drafting + T(k + 1). The controller takes the
draft and the length that maximise E - lambda C, where lambda is half-way between the best ratio E/C on offer now
and the ratio reached over the last rounds (at least that of plain decoding): the first is right inside a span that
goes on, the second when the next round is unrelated. k = 0, plain decoding, is always on offer.

Text drafters are asked every round, since asking is free, and every proposal is followed until the tokens it
spoke about exist: all of them learn all the time, used or not. A drafter with a model is asked when what it has
shown so far promises more than the best text draft; after each token it may go on only while another one is worth
its time. A loss bank bounds what all of this may cost, and a model drafter that loses rests, with growing pauses.

What a draft model would be worth on a text it has not read shows in the target's own certainty: a smaller model agrees
with the target about as often as the target's best candidate is probable (on Qwen2.5-Coder 1.5B and 0.5B: 0.95 in code
where that is 0.93, 0.66 in prose where it is 0.62). So nothing has to be read to find that out.

Nothing here can change the text: emitted tokens are the target's choices whatever is drafted. The clock and the
cost table are arguments, so that tests script them; with a frozen table the choices are functions of tokens
alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

from pyspec.speculation.bank import LossBank
from pyspec.speculation.drafter_record import HOPE, DrafterRecord

if TYPE_CHECKING:
    from pyspec.drafters.base import Draft
    from pyspec.speculation.chain import Chain, Member
    from pyspec.speculation.cost_table import CostTable

    #: A text draft with its tokens' chances and what asking for it cost in milliseconds.
    Offer = tuple[Member, Draft, list[float], float]
    #: What to verify: so many tokens of a draft.
    Choice = tuple[Member, Draft, int]
    #: A choice, and the tokens per millisecond expected of it without the time of drafting.
    RatedChoice = tuple[Member, Draft, int, float]

log = logging.getLogger("pyspec")

#: Longest draft considered.
MAX_DRAFT = 31
#: The rate of the last rounds: sums that forget at this rate per round (about 64 rounds).
RATE_MEMORY = 1 - 1 / 64
#: Tokens by which a draft has to beat plain decoding: estimates are not better than that.
MARGIN_TOKENS = 0.03
#: A model drafter is asked when it promises this part of what the best text draft does. Below one: that draft was
#: chosen for its high estimate, so the estimate is more likely too high than too low.
LEAD = 0.92
#: Tokens of an answer that are expected when nothing is known, for deciding whether a draft model should read the
#: prompt. Its reading has to be earned back with interest.
EXPECTED_TOKENS = 128.0
EARN_BACK = 1.5
#: Rounds of a generation before that is decided: what text drafters make of it, and how sure the target is, has to be
#: seen first.
ROUNDS_BEFORE_READING = 6
#: Beside text drafters, which may yet find something: the dearer the reading, the longer the wait. Rounds, as a part of
#: the plain tokens that reading would take.
WAIT_SHARE = 1.0
#: What a text draft may lose, in plain tokens, before any has gained something on this text. (What was learnt of another
#: text is a guess, and a long draft is a large stake.) Twice what drafts gain is added, a loss halves it.
FIRST_TRUST = 1.5
#: How fast the text's certainty follows, per round, and how many rounds its first value is worth.
CERTAINTY_MEMORY, CERTAINTY_SHRINK = 0.93, 1.0
UNLIMITED = 10**9
#: A drafter that has so few tokens to read first reads them along with the last one, at hardly any cost.
FEW_MISSING = 3
#: Tokens for which a drafter that is chosen again is expected to stay useful.
STAY = 32.0
#: Part of the time since the last try that trying a drafter again may cost.
TRY_SHARE = 0.02


@dataclass(slots=True)
class Choices:
    """What the controller decided in one generation, for statistics. Times in milliseconds.

    lengths[k]: rounds with k drafted tokens. rests: rounds in which a drafter was left out because it had lost.
    saved: estimated time saved against plain decoding, in the times that were believed.
    """

    lengths: dict[int, int] = field(default_factory=dict)
    rests: int = 0
    saved: float = 0.0


class Controller:
    """Decides for one session. One thread. costs: T(n), updated by every round. clock: seconds.

    counted_cost: a round's time is taken from the table instead of the clock. quiet: without warnings about drafters.
    """

    def __init__(
        self,
        costs: CostTable,
        *,
        clock: Callable[[], float] = perf_counter,
        counted_cost: bool = False,
        quiet: bool = False,
    ) -> None:
        self.costs = costs
        self.bank = LossBank()
        self.choices = Choices()
        self._clock = clock
        self._counted = counted_cost
        self._quiet = quiet
        self._records: dict[str, DrafterRecord] = {}
        self._opened = False
        self._emitted = 1.0  # discounted sums: the global rate
        self._spent = 0.0
        self._answer_tokens = EXPECTED_TOKENS
        self._n_emitted = 0
        self.limit = UNLIMITED
        self._certainty = [0.0, 0.0]  # of this text: rounds, and their sum; discounted
        self._trust = FIRST_TRUST
        #: Wider decodes were never timed, here or before: somebody should, once.
        self.wants_measurement = not costs.measured
        self._rounds = 0
        # of the round being decided
        self._drafting = 0.0
        self._spender: DrafterRecord | None = None
        self._begun = 0.0

    def record(self, name: str) -> DrafterRecord:
        """What is known about a drafter of this name."""
        found = self._records.get(name)
        if found is None:
            found = self._records[name] = DrafterRecord()
        return found

    def begin(self) -> None:
        """A generation starts. `limit`, the most tokens it may emit, can be set when it is known."""
        self.choices = Choices()
        self._n_emitted = 0
        self.limit = UNLIMITED
        self._rounds = 0
        self._certainty = [0.0, 0.0]
        self._trust = FIRST_TRUST
        if self.costs.known:
            self._emitted, self._spent = 1.0, self.costs.time(1)  # this text is another one
        for record in self._records.values():
            record.forget_proposal()
            record.calibration.new_text()
            if record.seconds_matter:
                record.calibration.expect(HOPE)

    def end(self) -> None:
        """It has ended; how long it was is a guess for the next."""
        if self._n_emitted:
            self._answer_tokens += 0.3 * (self._n_emitted - self._answer_tokens)
        self._n_emitted = 0

    def draft(self, chain: Chain, history: list[int], last: int, limit: int) -> Draft | None:
        """The draft of this round, and its owner in the chain. None: decode plainly."""
        chain.owner = -1
        self._spender = None
        self._drafting = 0.0
        self._begun = self._clock()
        if not self.costs.known:
            return None
        plain = self.costs.time(1)
        if not self._opened:
            self._opened = True
            self._emitted, self._spent = 1.0, plain
        if limit < 1 or self.costs.doubtful:
            return None
        limit = min(limit, MAX_DRAFT)
        offers = self._ask_text_drafters(chain, history, last, limit)
        best = self._best(offers, plain, limit)
        chosen = self._ask_model_drafters(chain, history, last, limit, best and best[3], plain)
        if chosen is None and best is not None:
            chosen = best[:3]
        if chosen is None:
            return None
        member, draft, k = chosen
        chain.owner = member.index
        draft.cut(k)
        return draft

    def settle(
        self, chain: Chain, n_drafted: int, emitted: list[int], certainty: float | None = None
    ) -> None:
        """The round is over: n_drafted tokens were verified (cut, perhaps, since `draft`), these came out.

        certainty: see Round; of the first of them, if somebody asked.
        """
        if certainty is not None and not 0 <= certainty <= 1:
            certainty = None  # of a row that is not finite
        took = 1e3 * (self._clock() - self._begun)
        n_rows = n_drafted + 1
        plain, expected = (
            self.costs.time(1),
            self.costs.time(n_rows) + self._drafting,
        )  # before this round's time is learnt
        if self._counted:
            took = expected
        else:
            self.costs.observe(n_rows, max(took - self._drafting, 1e-3))
        self._n_emitted += len(emitted)
        self._rounds += 1
        for member in chain.members:
            record = self._records.get(member.name)
            if record is not None:
                record.follow(emitted, certainty)
                if record.seconds_matter and record.is_strange and not (record.warned or self._quiet):
                    record.warned = True
                    log.warning(
                        "%s drafts for another model or another kind of text: %d of its %d drafts began with the right "
                        "token (%.0f %%); it mostly rests, the text is not affected",
                        member.name, record.right, record.judged, 100.0 * record.right / record.judged,
                    )  # fmt: skip
        if certainty is not None:
            text = self._certainty
            text[:] = [CERTAINTY_MEMORY * text[0] + 1.0, CERTAINTY_MEMORY * text[1] + certainty]
        choices = self.choices
        choices.lengths[n_drafted] = choices.lengths.get(n_drafted, 0) + 1
        if self._opened:
            # A spike of the machine is no loss of speculation's.
            believed = min(took, 2.0 * expected)
            self._emitted = RATE_MEMORY * self._emitted + len(emitted)
            self._spent = RATE_MEMORY * self._spent + believed
            if n_drafted or self._drafting > 0.02 * plain:
                self.bank.settle(len(emitted), believed, plain)
                gained = len(emitted) - believed / plain
                if n_drafted and chain.members[chain.owner].is_text:
                    trust = self._trust + 2.0 * gained if gained > 0 else 0.5 * self._trust
                    self._trust = max(FIRST_TRUST, trust)
                choices.saved += plain * len(emitted) - believed
                if self._spender is not None:
                    self._spender.judge(gained)
            else:
                self.bank.rest()

    # --- inside

    def _ask_text_drafters(self, chain: Chain, history: list[int], last: int, limit: int) -> list[Offer]:
        offers = []
        for member in chain.live:
            if not member.is_text:
                continue
            started = self._clock()
            draft = chain.ask(member, history, last, limit)
            ms = 1e3 * (self._clock() - started)
            record = self.record(member.name)
            if draft is None:
                continue
            offers.append((member, draft, record.proposed(draft), 0.0 if self._counted else ms))
        return offers

    def _best(self, offers: list[Offer], plain: float, limit: int) -> RatedChoice | None:
        """The offer and length with the largest E - lambda C that the bank covers; None: plain decoding."""
        time = self.costs.time
        times = [time(k + 1) for k in range(limit + 1)]
        rated = []
        best_ratio = 1.0 / plain
        for number, (_, draft, chances, cost) in enumerate(offers):
            gain = survival = 1.0
            for k in range(1, min(len(draft.tokens), limit) + 1):
                survival *= chances[k - 1]
                gain += survival
                spent = times[k] + cost
                if not self.bank.covers(spent, plain) or spent > (1.0 + self._trust) * plain:
                    break
                rated.append((gain, spent, number, k))
                best_ratio = max(best_ratio, gain / spent)
        rate = self._lambda(best_ratio, plain)
        best, best_value = None, 1.0 - rate * plain + MARGIN_TOKENS
        for gain, spent, number, k in rated:
            value = gain - rate * spent
            if value > best_value:
                best, best_value = (number, k, gain / times[k]), value
        if best is None:
            return None
        number, k, ratio = best
        member, draft, _, _ = offers[number]
        return member, draft, k, ratio

    def _lambda(self, best_ratio: float, plain: float) -> float:
        return 0.5 * (best_ratio + max(self._emitted / self._spent, 1.0 / plain))

    def _ask_model_drafters(
        self,
        chain: Chain,
        history: list[int],
        last: int,
        limit: int,
        text_ratio: float | None,
        plain: float,
    ) -> Choice | None:
        """A draft of a drafter to whom each token costs time; None when none promises more than the best text draft.

        text_ratio: what that one promises, in tokens per millisecond; None: there is none.
        """
        bar = 1.0 / plain if text_ratio is None else LEAD * text_ratio
        for member in chain.live:
            if member.is_text:
                continue
            record = self.record(member.name)
            record.seconds_matter = True
            if not record.is_timed:  # by today's plain token: a stored table may be far off at first
                record.expect(member.cost_hint, plain)
            longest = min(limit, member.max_draft)
            record.expect_of(self._sureness())
            promise = self._promise(record, longest)
            if record.resting or promise < bar:
                if text_ratio is not None:
                    continue
                self.choices.rests += 1
                cost = self._unread(member, history) * record.ms_per_read_token + record.ms_per_token
                if not record.may_try(cost, TRY_SHARE * plain) or not self.bank.covers(plain + cost, plain):
                    continue
                self._run(chain, member, record, history, last, 1, plain, invest=False)
                continue
            if not self._worth_reading(chain, member, record, history, promise, plain):
                continue
            invest = not record.has_read
            reading = 0.0 if invest else self._unread(member, history) * record.ms_per_read_token
            if not self.bank.covers(self.costs.time(2) + record.ms_per_token + reading, plain):
                continue
            self._spender = record
            found = self._run(chain, member, record, history, last, longest, plain, invest=invest)
            if found is not None:
                return found
        return None

    def _sureness(self) -> float | None:
        """How sure the target has been of its tokens lately; None: nobody says."""
        n, total = self._certainty
        return (total + CERTAINTY_SHRINK * HOPE) / (n + CERTAINTY_SHRINK) if n else None

    def _unread(self, member: Member, history: list[int]) -> int:
        """Tokens it has to read first. Counted costs know nothing of earlier calls, which may have left it anywhere."""
        return 0 if self._counted else member.n_unread(history)

    def _promise(self, record: DrafterRecord, limit: int) -> float:
        """Tokens per millisecond of its best length, by what it has shown."""
        best = 0.0
        gain = survival = 1.0
        for k, chance in enumerate(record.calibration.expected(limit), 1):
            survival *= chance
            gain += survival
            best = max(best, gain / (self.costs.time(k + 1) + k * record.ms_per_token))
        return best

    def _worth_reading(
        self,
        chain: Chain,
        member: Member,
        record: DrafterRecord,
        history: list[int],
        promise: float,
        plain: float,
    ) -> bool:
        """Is it worth the time to let the drafter catch up with the history?"""
        missing = self._unread(member, history)
        if missing < 16:
            return True
        cost = missing * record.ms_per_read_token
        wait = float(ROUNDS_BEFORE_READING)
        if any(other.is_text for other in chain.live):
            wait = max(wait, WAIT_SHARE * cost / plain)
        if self._rounds < wait:
            return False
        # Reading the prompt is for the rest of the answer; catching up again is for as long as a turn of the text lasts.
        expected = STAY if record.has_read else max(STAY, self._answer_tokens - self._n_emitted)
        expected = min(expected, float(self.limit - self._n_emitted))
        saved = expected * (min(plain, self._spent / self._emitted) - 1.0 / promise)
        return saved > EARN_BACK * cost

    def _run(
        self,
        chain: Chain,
        member: Member,
        record: DrafterRecord,
        history: list[int],
        last: int,
        limit: int,
        plain: float,
        *,
        invest: bool,
    ) -> Choice | None:
        """Let a model drafter draft while another token is worth its time, then cut what is not worth
        verifying. invest: reading a history it has missed is not this round's cost but was decided to be worth it.
        """
        time, per_token = self.costs.time, record.ms_per_token
        survival = 1.0
        expected = record.calibration.expected(limit)
        rate = self._lambda(max(self._promise(record, limit), 1.0 / plain), plain)

        def proceed(n: int, confidence: float) -> bool:
            nonlocal survival
            survival *= record.calibration.corrected(n - 1, confidence)
            gain, chance = 0.0, survival
            for m in range(n + 1, limit + 1):
                chance *= expected[m - 1]
                gain += chance
                spent = time(m + 1) - time(n + 1) + (m - n) * per_token
                if gain > rate * spent:
                    return self.bank.covers(time(n + 2) + (n + 2) * per_token, plain)
            return False

        missing = self._unread(member, history)
        started = self._clock()
        draft = chain.ask(member, history, last, limit, proceed)
        ms = 1e3 * (self._clock() - started)
        n = 0 if draft is None else len(draft.tokens)
        record.has_read = record.has_read or invest
        if self._counted:
            ms = (n + 1) * per_token
        elif missing >= 16 and invest:
            reading = max(ms - (n + 1) * per_token, 0.0)
            record.ms_per_read_token += 0.5 * (reading / missing - record.ms_per_read_token)
            self._begun += 1e-3 * reading
            self.choices.saved -= reading
            ms -= reading
        elif missing <= FEW_MISSING:
            record.timed(ms, max(n, 1))
        self._drafting += ms
        if draft is None or not n:
            return None
        chances = record.proposed(draft)
        if draft.distributions is not None:
            return member, draft, n  # a cut now could depend on what was drawn, and the law would be another
        # Drafting is paid; only the rows still cost.
        gain = survival_now = 1.0
        best_k, best_value = 0, 1.0 - rate * plain + MARGIN_TOKENS
        for k in range(1, n + 1):
            survival_now *= chances[k - 1]
            gain += survival_now
            value = gain - rate * time(k + 1)
            if value > best_value and self.bank.covers(time(k + 1) + ms, plain):
                best_k, best_value = k, value
        return (member, draft, best_k) if best_k else None
