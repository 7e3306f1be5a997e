"""What a benchmark hands to the report: numbers of both sides and how they were come by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .stats import Summary, pair_ratios, summary


@dataclass(slots=True)
class Result:
    """One benchmark.

    pyspec, peer, ratio: the JSON contract, medians only. ratio is the median over pairs, above 1 = pyspec is faster.
    spread: quartiles of the same numbers, by side and key. samples: everything measured, in order. notes: sentences a
    reader of the numbers has to know. roofline: what the machine can do at most and how close this comes (tn, kernels).
    """

    what: str
    model: str
    threads: int = 0
    unit: str = ""
    pyspec: dict[str, Any] = field(default_factory=dict)
    peer: dict[str, Any] = field(default_factory=dict)
    ratio: dict[str, Any] = field(default_factory=dict)
    spread: dict[str, dict[str, Summary]] = field(
        default_factory=lambda: {"pyspec": {}, "peer": {}, "ratio": {}}
    )
    samples: dict[str, dict[str, list[float]]] = field(default_factory=lambda: {"pyspec": {}, "peer": {}})
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    roofline: dict[str, Any] = field(default_factory=dict)

    def add(self, key: str, ours: list[float], peers: list[float], *, rates: bool) -> None:
        """Pairs of measurements of one quantity. peers is empty without a peer. Fills spread and samples only."""
        self.samples["pyspec"][key] = ours
        self.spread["pyspec"][key] = summary(ours)
        if peers:
            self.samples["peer"][key] = peers
            self.spread["peer"][key] = summary(peers)
            self.spread["ratio"][key] = summary(pair_ratios(ours, peers, rates=rates))

    def median(self, side: str, key: str) -> float | None:
        """The median of what `add` was given, None when there was nothing."""
        found = self.spread[side].get(key)
        return None if found is None else found.median

    def publish(self) -> None:
        """Medians of all keys become the contract's numbers, as they are."""
        for side, numbers in (("pyspec", self.pyspec), ("peer", self.peer), ("ratio", self.ratio)):
            numbers.update({key: found.median for key, found in self.spread[side].items()})
