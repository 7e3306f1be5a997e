"""How far a drafter's confidence can be believed, learnt from what the target then chose.

A drafter says with which probability it thinks a token right. Observed positions are collected by decile of that
number (two halves of the draft apart: later positions of a copied span are better than they look); each decile
has a shift in log-odds from predicted to observed, shrunk towards none. Drafters that say nothing are judged by
position: their prediction is a constant, and the deciles become positions.

Only positions that were reached count: after a first wrong token the rest of the draft was never put to the test,
and a draft that a limit cut short was not wrong.
"""

from __future__ import annotations

from math import exp, log

#: A decile forgets at this rate per observation.
MEMORY = 0.98
#: Observations that "no shift" is worth.
SHRINK = 4.0
#: The text's own deviation from all that: observations at the first place follow it within a dozen or two.
TOPIC_MEMORY = 0.9
TOPIC_SHRINK = 2.0
#: What is expected of a place before anything is drafted follows the text faster, and starts from the place before.
RECENT_MEMORY = 0.9
#: Observations that what is expected of the first place is worth when it is a guess; and of a later place, what the one
#: before it is worth: little more, for a drafter can be good at first tokens only.
GUESS_WEIGHT, LATER_WEIGHT = 3.0, 6.0
#: What recent drafts tell fades while there are none, for the text goes on; and of another text it tells little.
FADING, CARRIED = 0.97, 0.1
#: What is assumed of a drafter that gives no confidence.
UNKNOWN = 0.6
#: Positions of such a drafter are told apart up to here.
LAST_POSITION = 8


class Calibration:
    """Corrected acceptance probabilities of one drafter."""

    __slots__ = ("_bins", "_recent", "_topic", "_weight", "prior")

    def __init__(self) -> None:
        #: What is expected of the first place as far as recent drafts do not tell, and observations that this is worth.
        self.prior = UNKNOWN
        self._weight = GUESS_WEIGHT
        #: key -> [observations, sum predicted, sum accepted], discounted
        self._bins: dict[int, list[float]] = {}
        #: by place: [observations, sum accepted], discounted faster
        self._recent = [[0.0, 0.0] for _ in range(LAST_POSITION + 1)]
        #: at the first place, and behind it: observations, sum corrected by bins, sum accepted
        self._topic = ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0])

    def corrected(self, position: int, confidence: float | None) -> float:
        """Probability that the token at this place (from 0) is accepted when those before were."""
        predicted = UNKNOWN if confidence is None else min(max(confidence, 0.001), 0.999)
        return _sigmoid(_logit(self._by_bin(position, confidence, predicted)) + self._topic_shift(position))

    def expect(self, chance: float, weight: float = GUESS_WEIGHT) -> None:
        """What is expected of the first place before any draft, and how many of the last ten or so it counts as."""
        self.prior, self._weight = chance, weight

    def new_text(self) -> None:
        """What follows is another text: the last one's deviation says little about it."""
        for seen in self._topic:
            seen[:] = [0.25 * value for value in seen]
        for seen in self._recent:
            seen[:] = [CARRIED * value for value in seen]

    def fade(self) -> None:
        """A round without a draft to judge: what is expected before anything is drafted returns to `prior`."""
        for seen in self._recent:
            seen[:] = [FADING * value for value in seen]

    def _by_bin(self, position: int, confidence: float | None, predicted: float) -> float:
        found = self._bins.get(_key(position, confidence))
        if found is None:
            return predicted
        n, sum_predicted, accepted = found
        mean = sum_predicted / n
        observed = (accepted + SHRINK * mean) / (n + SHRINK)
        return _sigmoid(_logit(predicted) + _logit(observed) - _logit(mean))

    def _topic_shift(self, position: int) -> float:
        n, predicted, accepted = self._topic[position > 0]
        if not n:
            return 0.0
        mean = predicted / n
        return _logit((accepted + TOPIC_SHRINK * mean) / (n + TOPIC_SHRINK)) - _logit(mean)

    def observe(self, position: int, confidence: float | None, accepted: bool) -> None:
        """The target reached this place and chose the drafted token, or not."""
        predicted = UNKNOWN if confidence is None else min(max(confidence, 0.001), 0.999)
        topic = self._topic[position > 0]
        topic[0] = TOPIC_MEMORY * topic[0] + 1.0
        topic[1] = TOPIC_MEMORY * topic[1] + self._by_bin(position, confidence, predicted)
        topic[2] = TOPIC_MEMORY * topic[2] + (1.0 if accepted else 0.0)
        found = self._bins.setdefault(_key(position, confidence), [0.0, 0.0, 0.0])
        found[0] = MEMORY * found[0] + 1.0
        found[1] = MEMORY * found[1] + predicted
        found[2] = MEMORY * found[2] + (1.0 if accepted else 0.0)
        recent = self._recent[min(position, LAST_POSITION)]
        recent[0] = RECENT_MEMORY * recent[0] + 1.0
        recent[1] = RECENT_MEMORY * recent[1] + (1.0 if accepted else 0.0)

    def expected(self, n: int) -> list[float]:
        """Probabilities at the first n places before anything is drafted, by what drafts were worth lately."""
        found, before, weight = [], self.prior, self._weight
        for place in range(n):
            seen, accepted = self._recent[min(place, LAST_POSITION)]
            before = (accepted + weight * before) / (seen + weight)
            found.append(before)
            weight = LATER_WEIGHT
        return found


def _key(position: int, confidence: float | None) -> int:
    if confidence is None:
        return 100 + min(position, LAST_POSITION)
    return min(int(10.0 * confidence), 9) + (10 if position > 0 else 0)


def _logit(p: float) -> float:
    p = min(max(p, 1e-4), 1 - 1e-4)
    return log(p / (1 - p))


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + exp(-x)) if x > -700 else 0.0
