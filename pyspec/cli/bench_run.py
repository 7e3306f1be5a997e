"""The measurements of `pyspec-cli bench`: plain and drafted answers in turns, by kind of workload."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import geometric_mean, median
from typing import TYPE_CHECKING, Any

from pyspec.cli.bench_workloads import FILLER, WORKLOADS
from pyspec.cli.session import has_template
from pyspec.cli.statistics import drafter_json

if TYPE_CHECKING:
    from pyspec.llm.results import GenerationResult
    from pyspec.speculation.stats import DrafterStats

#: Called after each answer: (kind, "plain" or "drafters", pass from 1, result).
Seen = Callable[[str, str, int, "GenerationResult"], None]


@dataclass
class Workload:
    """One kind of answers. Speeds in tokens per second, in the order of the passes."""

    plain: list[float] = field(default_factory=list)
    drafted: list[float] = field(default_factory=list)
    tokens: int = 0
    same_text: bool = True
    last: GenerationResult | None = None

    @property
    def speedup(self) -> float | None:
        """Median of the ratios of neighbouring runs; None without drafters."""
        pairs = [b / a for a, b in zip(self.plain, self.drafted, strict=False) if a > 0]
        return median(pairs) if pairs else None

    def json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"tokens": self.tokens, "plain": {"tok_s": median(self.plain)}}
        if self.last is not None:
            stats = self.last.stats
            data["with_drafters"] = {
                "tok_s": median(self.drafted),
                "speedup": self.speedup,
                "same_text": self.same_text,
                "mean_acceptance_length": stats.mean_acceptance_length,
                "acceptance": stats.acceptance,
            }
        return data


@dataclass
class BenchResult:
    """drafters: counters of all drafted answers together, by name; empty for a plain benchmark."""

    model: str
    load_s: float = 0.0
    prompt_tokens: int = 0
    prompt_tok_s: float = 0.0
    workloads: dict[str, Workload] = field(default_factory=dict)
    drafters: dict[str, DrafterStats] = field(default_factory=dict)

    @property
    def speedup(self) -> float | None:
        """Geometric mean over the kinds; None without drafters."""
        found = [one.speedup for one in self.workloads.values() if one.speedup]
        return geometric_mean(found) if found else None

    def json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "load_s": self.load_s,
            "prompt": {"tokens": self.prompt_tokens, "tok_s": self.prompt_tok_s},
            "workloads": {kind: one.json() for kind, one in self.workloads.items()},
            "speedup": self.speedup,
            "drafters": {name: drafter_json(one) for name, one in self.drafters.items()},
        }


def measure(
    open_model: Callable[[], Any],
    model: str,
    kinds: Iterable[str],
    *,
    tokens: int,
    prompt_tokens: int,
    repeat: int,
    drafted: bool,
    seen: Seen,
) -> BenchResult:
    """`repeat` passes over the kinds. Each pass opens the model anew, so that no drafter has seen an answer before; which of
    plain and drafted comes first alternates.
    """
    kinds = list(kinds)
    result = BenchResult(model, workloads={kind: Workload() for kind in kinds})
    loads = []
    for turn in range(repeat):
        begin = time.perf_counter()
        with open_model() as llm:
            loads.append(time.perf_counter() - begin)
            if turn == 0:
                result.prompt_tokens, result.prompt_tok_s = _prompt_speed(llm, prompt_tokens, repeat)
            for place, kind in enumerate(kinds):
                _pair(llm, kind, result, turn, place, tokens, drafted, seen)
    result.load_s = median(loads)
    return result


def _pair(
    llm: Any, kind: str, result: BenchResult, turn: int, place: int, tokens: int, drafted: bool, seen: Seen
) -> None:
    one = result.workloads[kind]
    answers = {}
    ways = ["plain", "drafters"] if drafted else ["plain"]
    for way in ways if (turn + place) % 2 == 0 else reversed(ways):
        answer = answers[way] = _answer(llm, kind, tokens, {"drafters": "none"} if way == "plain" else {})
        (one.plain if way == "plain" else one.drafted).append(answer.stats.tokens_per_second)
        seen(kind, way, turn + 1, answer)
    one.tokens = answers["plain"].usage.completion
    if drafted:
        from pyspec.speculation.stats import DrafterStats

        one.last = answers["drafters"]
        one.same_text = one.same_text and answers["drafters"].tokens == answers["plain"].tokens
        for name, drafter in one.last.stats.drafters.items():
            result.drafters.setdefault(name, DrafterStats()).add(drafter)


def _answer(llm: Any, kind: str, tokens: int, options: dict[str, Any]) -> GenerationResult:
    call = {"max_tokens": tokens, "temperature": 0.0, **options}
    answer: GenerationResult
    if has_template(llm, None):
        answer = llm.chat([{"role": "user", "content": WORKLOADS[kind]}], **call)
    else:
        answer = llm.generate(WORKLOADS[kind], **call)
    return answer


def _prompt_speed(llm: Any, prompt_tokens: int, repeat: int) -> tuple[int, float]:
    base = llm.tokenize(FILLER)
    room = min(prompt_tokens, llm.n_ctx - 1)
    body = (base * (room // len(base) + 1))[:room]
    speeds = []
    for run in range(repeat):
        shifted = body[run + 1 :] + body[: run + 1]  # another beginning each time, so that nothing is reused
        stats = llm.generate(shifted, max_tokens=1, temperature=0.0, drafters="none").stats
        speeds.append(1000 * stats.prompt_tokens_evaluated / stats.prompt_ms if stats.prompt_ms else 0.0)
    return room, median(speeds)
