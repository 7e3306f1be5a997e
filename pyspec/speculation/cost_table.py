"""T(n): milliseconds of a round that decodes n rows, learnt from a few measurements and then from every round.

The table keeps a time for each n that was observed and interpolates between them. A common factor follows the
machine (other programs, temperature, a growing context slows all widths alike); each n besides has its own
slow correction. Times never fall with n: a wider decode that seems cheaper is noise. Single rounds that are far off
are ignored; several of one width move that width when others are as expected meanwhile, else the common factor, which
the next plain round then has to confirm.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

#: T(n) in plain tokens where nothing is known: that of a small model on a few cores.
NOMINAL = ((1, 1.0), (4, 1.3), (8, 2.0), (16, 3.5), (32, 6.5), (64, 12.5))
#: How fast the common factor follows, per round.
DRIFT_RATE = 0.1
#: How fast one n's own time follows once it has been seen often.
CELL_RATE = 0.05
#: A round that is this many times slower or faster than expected is a stray and changes nothing. A width that is seen
#: for the first time is believed up to this, too.
CLIP = 2.0
#: So many strays in a row of one width are no accident: the width, or the whole table, is another one than was thought.
STRAYS = 3


class CostTable:
    """Times by number of rows. times: known ones, {n: ms}; without any, T is unknown (`known` is False).

    frozen: observations are ignored, so that decisions depend on tokens alone.
    """

    __slots__ = ("_alone", "_cells", "_counts", "_doubt", "_flat", "_strays", "_widths", "drift", "frozen")

    def __init__(self, times: Mapping[int, float] | None = None, *, frozen: bool = False) -> None:
        self._cells: dict[int, float] = {}
        self._counts: dict[int, int] = {}
        self._widths: list[int] = []
        self._flat: list[float] = []
        #: By width: ratios of its last rounds, all much slower or all much faster than expected.
        self._strays: dict[int, list[float]] = {}
        #: Widths with strays during which no other width was as expected.
        self._alone: set[int] = set()
        #: (width, factor, ms) of the last jump of the scale, until a plain round was timed.
        self._doubt: tuple[int, float, float] | None = None
        self.drift = 1.0
        self.frozen = frozen
        for n, ms in sorted((times or {}).items()):
            if n < 1 or not 0 < ms < float("inf"):
                raise ValueError(f"a cost table needs times above 0 for 1 row or more, not {ms} for {n}")
            self._cells[n] = float(ms)
            self._counts[n] = 3
        self._refresh()

    @property
    def known(self) -> bool:
        """Is there anything to decide by? One row at least has to have been timed."""
        return 1 in self._cells

    @property
    def measured(self) -> bool:
        """Were wider decodes timed, too?"""
        return len(self._cells) > 1 and 1 in self._cells

    def time(self, n: int) -> float:
        """Milliseconds of a decode of n rows now."""
        return self.drift * self._at(n)

    def times(self) -> dict[int, float]:
        """What was measured, as it would be now; for storing and showing."""
        return {n: self.drift * flat for n, flat in zip(self._widths, self._flat, strict=True)}

    @property
    def doubtful(self) -> bool:
        """The scale has just jumped because of one width: a plain round should say whether all widths did."""
        return self._doubt is not None

    def observe(self, n: int, ms: float) -> None:
        """A round with n rows took this long."""
        if self.frozen or ms <= 0:
            return
        count, seen = self._counts.get(n, 0), n in self._cells
        if not self._cells or (n == 1 and not seen):
            self._cells[n] = ms / self.drift
            self._doubt = None
        else:
            if n == 1 and self._doubt is not None:
                self._settle_doubt(ms)
            expected = self.drift * self._cells[n] if seen else self.time(n)
            ratio = ms / expected
            if not 1 / CLIP <= ratio <= CLIP and (count >= 3 or (not seen and ratio < 1 and self.measured)):
                self._strayed(n, ratio, ms)
                self._refresh()
                return
            if not seen:
                self._cells[n] = min(max(ms, expected / CLIP), expected * CLIP) / self.drift
            elif count < 3:
                # The first times of a width include building its graph: the least of three is the width's own.
                self._cells[n] *= min(1.0, max(ratio, 1 / CLIP))
            else:
                self.drift *= 1 + DRIFT_RATE * (ratio - 1)
                self._cells[n] *= 1 + CELL_RATE * (ratio - 1)
            self._strays.pop(n, None)
            self._alone.clear()
        self._counts[n] = count + 1
        self._refresh()

    def _strayed(self, n: int, ratio: float, ms: float) -> None:
        """A round took `ratio` times as long as expected."""
        strays = self._strays.setdefault(n, [])
        if strays and (strays[0] > 1) != (ratio > 1):
            strays.clear()
        if not strays:
            self._alone.add(n)
        strays.append(ratio)
        if len(strays) < STRAYS:
            return
        least = min(strays) if ratio > 1 else max(strays)
        if n in self._alone:  # no other width was as expected meanwhile
            self.drift *= least
            self._strays.clear()
            self._doubt = None if n == 1 else (n, least, ms)
        else:
            self._move(n, least, ms)
            del self._strays[n]

    def _settle_doubt(self, ms: float) -> None:
        assert self._doubt is not None
        n, factor, there = self._doubt
        self._doubt = None
        ratio = ms / (self.drift * self._cells[1])
        if not 1 / CLIP <= ratio <= CLIP:  # plain rounds take what they did: it was that width alone
            self.drift /= factor
            self._move(n, factor, there)

    def _move(self, n: int, factor: float, ms: float) -> None:
        if n in self._cells:
            self._cells[n] *= factor
        else:
            self._cells[n] = ms / self.drift
            self._counts[n] = 1

    def _at(self, n: int) -> float:
        widths, flat = self._widths, self._flat
        at = bisect_left(widths, n)
        if at < len(widths) and widths[at] == n:
            return flat[at]
        if at == 0:
            return flat[0] if flat else float("inf")
        if at == len(widths):
            # Beyond what is known the last slope goes on; with a single point, the usual shape.
            last, time = widths[-1], flat[-1]
            if len(widths) == 1:
                return time * nominal(n) / nominal(last)
            return time + max((time - flat[-2]) / (last - widths[-2]), 0.0) * (n - last)
        low, high = widths[at - 1], widths[at]
        share = (n - low) / (high - low)
        return flat[at - 1] + share * (flat[at] - flat[at - 1])

    def _refresh(self) -> None:
        """Sorted widths, and their times made non-decreasing (pool adjacent violators, weighted by counts)."""
        self._widths = sorted(self._cells)
        blocks: list[list[float]] = []  # [weight, mean, number of widths]
        for n in self._widths:
            blocks.append([min(self._counts.get(n, 1), 20), self._cells[n], 1])
            while len(blocks) > 1 and blocks[-2][1] > blocks[-1][1]:
                weight, mean, number = blocks.pop()
                before = blocks[-1]
                total = before[0] + weight
                before[1] = (before[0] * before[1] + weight * mean) / total
                before[0] = total
                before[2] += number
        self._flat = [mean for _, mean, number in blocks for _ in range(int(number))]


def nominal(n: int) -> float:
    """T(n) / T(1) by NOMINAL, linear in between and beyond."""
    low, before = NOMINAL[0]
    for high, value in NOMINAL[1:]:
        if n <= high:
            break
        low, before = high, value
    else:
        (low, before), (high, value) = NOMINAL[-2:]
    return before + (value - before) * (n - low) / (high - low)
