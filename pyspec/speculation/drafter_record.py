"""What the controller knows about one drafter: how right it is, what it costs, and whether it rests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspec.speculation.calibration import Calibration

if TYPE_CHECKING:
    from pyspec.drafters.base import Draft

#: Certainty, and acceptance of a drafter that costs time, before anything was seen.
HOPE = 0.8
#: A drafter's part of the target's certainty is learnt for each text, forgetting at this rate per judged draft; before that
#: it is, for so much certainty, what it was on other texts. Those are forgotten at a rate per text, and before the first of
#: them it is one.
SKILL_MEMORY, SKILL_SHRINK = 0.97, 10.0
USUAL_MEMORY, USUAL_SHRINK = 0.9, 4.0
#: What that lets expect of a draft's first token counts as so many drafts. (Over 28 texts of all kinds Qwen2.5-Coder 0.5B
#: agreed with 1.5B 1.02 times as often as that was sure, and on 24 of them within 0.08 of it: a few drafts say less.)
SKILL_WEIGHT = 16.0
#: A drafted token's cost as a part of a plain one, before anything was measured, of drafters that say nothing about it.
UNKNOWN_COST = 0.3
#: Pauses of a drafter that is not worth its time, in rounds.
FIRST_PAUSE, LONGEST_PAUSE = 4, 64
#: A drafter with a model is strange to its target when of its first tokens fewer are right than this part of what the
#: target's certainty lets expect, once so many were to be expected. (Honest drafters have about all of them.)
STRANGE_AFTER, STRANGE_RATE = 5.0, 0.25
#: It rests when the last rounds with its drafts lost so many plain tokens together, older ones counting less and less.
PATIENCE = 1.5
#: How fast the measured cost follows.
COST_RATE = 0.2


class DrafterRecord:
    """One drafter. Proposals are judged by the tokens that the target emits afterwards, whoever drafted them."""

    __slots__ = (
        "_at",
        "_confidence",
        "_pause",
        "_pending",
        "_rest",
        "_score",
        "_since_try",
        "_skill",
        "_timed",
        "_trying",
        "_usual",
        "calibration",
        "has_read",
        "judged",
        "ms_per_read_token",
        "ms_per_token",
        "right",
        "seconds_matter",
        "sure",
        "warned",
    )  # fmt: skip

    def __init__(self) -> None:
        self.calibration = Calibration()
        #: Drafts whose first token was put to the test, those where it was right, and the target's certainty added up.
        self.judged = self.right = 0
        self.sure = 0.0
        #: The user was told that it is strange.
        self.warned = False
        #: Its tokens cost time: it is judged by time, and may have to rest.
        self.seconds_matter = False
        #: It has read this generation's prompt, as an investment.
        self.has_read = False
        self.ms_per_token = self.ms_per_read_token = 0.0
        self._timed = False
        self._pending: list[int] = []
        self._confidence: list[float] | None = None
        self._at = 0
        #: At first places: how often it was right, and how sure the target was; discounted. Of this text, and of others.
        self._skill, self._usual = [0.0, 0.0], [0.0, 0.0]
        self._score = 0.0
        self._pause = 0
        self._rest = 0
        self._trying = False
        self._since_try = 0

    def proposed(self, draft: Draft) -> list[float]:
        """A new proposal; returns the corrected probability of each of its tokens.

        It is followed until it is judged, unless an older one is still being followed.
        """
        confidence = draft.confidence
        corrected = self.calibration.corrected
        chances = [
            corrected(position, None if confidence is None else confidence[position])
            for position in range(len(draft.tokens))
        ]
        if self._at >= len(self._pending):
            self._pending, self._confidence, self._at = list(draft.tokens), confidence, 0
        return chances

    def follow(self, emitted: list[int], certainty: float | None = None) -> None:
        """The target emitted these next: judge the proposal that is being followed. certainty: of the first of them."""
        pending, at = self._pending, self._at
        if at >= len(pending):
            if self.seconds_matter:
                self.calibration.fade()
            return
        confidence = self._confidence
        for token in emitted:
            right = pending[at] == token
            if at == 0:
                self.judged += 1
                self.right += right
                self.sure += HOPE if certainty is None else certainty
                if certainty is not None:
                    skill = self._skill
                    skill[:] = [SKILL_MEMORY * skill[0] + right, SKILL_MEMORY * skill[1] + certainty]
            self.calibration.observe(at, None if confidence is None else confidence[at], right)
            if self._trying:
                self._trying = False
                if right:
                    self._pause = self._rest = 0
            at += 1
            if not right or at == len(pending):
                self._pending, at = [], 0
                break
        self._at = at

    def forget_proposal(self) -> None:
        """The text goes on elsewhere."""
        self._pending, self._at = [], 0
        self.has_read = False
        skill, usual = self._skill, self._usual
        usual[:] = [USUAL_MEMORY * usual[0] + skill[0], USUAL_MEMORY * usual[1] + skill[1]]
        skill[:] = [0.0, 0.0]

    @property
    def is_timed(self) -> bool:
        """Was its drafting ever timed?"""
        return self._timed

    def expect(self, hint: float | None, plain: float) -> None:
        """Before anything was measured: a drafted token costs this part of a plain one, reading a token a fifth of it."""
        self.calibration.expect(HOPE)
        self.ms_per_token = (UNKNOWN_COST if hint is None else hint) * plain
        self.ms_per_read_token = 0.2 * self.ms_per_token

    def expect_of(self, certainty: float | None) -> None:
        """What to expect of it on a text of whose tokens the target is that sure."""
        if certainty is not None:
            usual = (self._usual[0] + USUAL_SHRINK) / (self._usual[1] + USUAL_SHRINK)
            right, sure = self._skill
            skill = (right + SKILL_SHRINK * usual) / (sure + SKILL_SHRINK)
            self.calibration.expect(min(0.98, certainty * skill), SKILL_WEIGHT)

    def timed(self, ms: float, n_tokens: int) -> None:
        """Drafting n_tokens tokens took this long."""
        per_token = ms / n_tokens
        if self._timed:
            self.ms_per_token += COST_RATE * (min(per_token, 3.0 * self.ms_per_token) - self.ms_per_token)
        else:
            self._timed = True
            self.ms_per_token = per_token
            self.ms_per_read_token = 0.2 * per_token

    @property
    def is_strange(self) -> bool:
        """Its drafts are so rarely right that it was hardly made for this target."""
        return self.sure >= STRANGE_AFTER and self.right <= STRANGE_RATE * self.sure

    @property
    def pause(self) -> int:
        """Rounds between two tries while it is not worth its time; 0 when it is."""
        return self._pause

    def may_try(self, cost: float, allowance: float) -> bool:
        """It lost, or promises too little: is it time to try it with a single token? After pauses that double until a
        try turns out right, and when a try's cost in milliseconds is within the allowance of the rounds since the last.
        """
        self._since_try += 1
        if self._rest > 0:
            self._rest -= 1
            return False
        if cost > allowance * self._since_try:
            return False
        self._since_try = 0
        self._pause = min(LONGEST_PAUSE, 2 * self._pause if self._pause else FIRST_PAUSE)
        self._rest = self._pause
        self._trying = True
        return True

    @property
    def resting(self) -> bool:
        return self._rest > 0

    def judge(self, gained: float) -> None:
        """A round with its draft gained so many plain tokens, or lost them. Losing over several rounds means a rest."""
        self._score = 0.8 * self._score + gained
        if self._score < -PATIENCE and gained < 0:
            self._pause = min(LONGEST_PAUSE, 2 * self._pause if self._pause else FIRST_PAUSE)
            self._rest = self._pause
            self._score = 0.0
        elif self._score > 0 and gained > 0:
            self._pause = 0
