"""Medians, quartiles and ratios of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Summary:
    """Median and quartiles of n measurements, in the unit of what was summarised."""

    median: float
    q1: float
    q3: float
    n: int


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0..1) of the values lie, interpolated between neighbours. ValueError for none."""
    if not values:
        raise ValueError("no values")
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share is {share}, expected 0..1")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def summary(values: Sequence[float]) -> Summary:
    """Median and quartiles. ValueError for none."""
    return Summary(quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75), len(values))


def pair_ratios(ours: Sequence[float], peers: Sequence[float], *, rates: bool) -> list[float]:
    """How many times faster we were in each pair, above 1 = we are faster.

    rates: the numbers are speeds (more is better), else times (less is better). Pairs were measured one after the other,
    so a machine that slows down for a while slows both halves of a pair and leaves its ratio alone. ValueError when the
    lists have different lengths or a number is not positive.
    """
    if len(ours) != len(peers):
        raise ValueError(f"{len(ours)} measurements of one and {len(peers)} of the other are no pairs")
    if any(value <= 0 for value in (*ours, *peers)):
        raise ValueError("measurements must be positive")
    return [a / b if rates else b / a for a, b in zip(ours, peers, strict=True)]
