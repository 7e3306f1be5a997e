"""The measured loops, the same for every contestant, over the few operations in which they differ.

A contestant lives in a process of its own (see worker). Its methods listed in `COMMANDS` are called by name, with plain data
in and out. Times are seconds of the monotonic clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from time import perf_counter
from typing import Any

#: Repetitions of one width within a visit go on until this many seconds are spent, or WIDTH_RUNS are done.
WIDTH_SECONDS = 0.1
WIDTH_RUNS = 5


class Contestant(ABC):
    """One model with one context of one sequence."""

    COMMANDS: tuple[str, ...] = ("about", "open", "decode", "prefill", "hold", "width", "answer", "load")

    def __init__(self) -> None:
        start = perf_counter()
        self.import_library()
        self.import_s = perf_counter() - start

    # ---- what differs

    @abstractmethod
    def import_library(self) -> None:
        """Import the package and load its shared library; RuntimeError says how to get it."""

    @abstractmethod
    def about(self) -> dict[str, str]:
        """Versions and build, without opening anything."""

    @abstractmethod
    def open(self, path: str, *, threads: int, n_ctx: int, n_outputs: int) -> dict[str, Any]:
        """Load the model. Returns {"threads", "n_ctx"} as they came out."""

    @abstractmethod
    def append(self, tokens: Sequence[int], rows: str) -> None:
        """Decode tokens behind those in memory and wait until logits are there: rows is "none", "last" or "all"."""

    @abstractmethod
    def drop(self, position: int) -> None:
        """Remove everything from this position on; 0 empties the memory."""

    @abstractmethod
    def best(self) -> int:
        """The most likely token of the last decode's last row."""

    @abstractmethod
    def is_end(self, token: int) -> bool:
        """Does this token end an answer?"""

    @abstractmethod
    def load(self, path: str, *, threads: int, n_ctx: int, text: str, **options: Any) -> dict[str, float]:
        """In a fresh process: the quantities that loading.KEYS names, and "threads" and "n_ctx"."""

    # ---- what is measured

    def decode(self, ids: list[int], fill: int) -> dict[str, float]:
        """Time to decode the ids behind the first `fill` + 1 one by one. One token after the prompt is warm-up."""
        self.drop(0)
        self.append(ids[:fill], "none")
        self.append(ids[fill : fill + 1], "last")
        start = perf_counter()
        for token in ids[fill + 1 :]:
            self.append((token,), "last")
        return {"seconds": perf_counter() - start}

    def prefill(self, ids: list[int]) -> dict[str, float]:
        """Time to process a prompt, with the logits of its last token."""
        self.drop(0)
        self.append(ids[:8], "last")  # wakes the threads and brings code and tables back
        self.drop(0)
        start = perf_counter()
        self.append(ids, "last")
        return {"seconds": perf_counter() - start}

    def hold(self, ids: list[int]) -> dict[str, float]:
        """Make the memory hold exactly these ids, for `width`."""
        self.drop(0)
        self.append(ids, "none")
        self._held = len(ids)
        return {}

    def width(self, ids: list[int]) -> dict[str, float]:
        """Median time to decode all ids together with all their logits rows, behind what is held; warm."""
        from .stats import quantile

        held = self._held
        self.append(ids, "all")
        self.drop(held)
        times: list[float] = []
        while not times or (sum(times) < WIDTH_SECONDS and len(times) < WIDTH_RUNS):
            start = perf_counter()
            self.append(ids, "all")
            times.append(perf_counter() - start)
            self.drop(held)
        return {"seconds": quantile(times, 0.5)}

    def answer(self, ids: list[int], max_tokens: int) -> dict[str, Any]:
        """A greedy answer, end token included. "seconds" go from the first token to the last, prompt time apart."""
        self.drop(0)
        self.append(ids, "last")
        token = self.best()
        start = last = perf_counter()
        tokens = [token]
        while len(tokens) < max_tokens and not self.is_end(token):
            self.append((token,), "last")
            token = self.best()
            last = perf_counter()
            tokens.append(token)
        return {"tokens": tokens, "seconds": last - start}

    _held = 0


def memory_in_use() -> dict[str, float]:
    """Resident memory of this process in MiB: all of it, and the part that is no file's."""
    found = {"VmRSS": 0.0, "RssAnon": 0.0}
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name in found:
                found[name] = int(value.split()[0]) / 1024
    return {"rss_mib": found["VmRSS"], "anonymous_mib": found["RssAnon"]}
