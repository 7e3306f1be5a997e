"""drafters: what text drafters cost by themselves: time per committed token and per draft, and memory. No model, no peer.

The text is made, always the same: words of natural frequency, in passages that come back with edits, as code and documents
in a conversation do. Calls are those of a round, through Python.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from .contest import progress
from .process import BenchError
from .result import Result

N_VOCAB = 50_000
#: Longest draft that is asked for.
LIMIT = 16
#: Rounds of one token each in a pass.
ROUNDS = 500
SIZES = (1_000, 10_000, 100_000, 1_000_000)

#: What is measured, and how the table calls it.
COLUMNS = {
    "prompt_ns": "prompt ns/token",
    "commit_ns": "commit ns/token",
    "draft_ns": "draft ns",
    "bytes_per_token": "bytes/token",
}


@dataclass(frozen=True, slots=True)
class DrafterSettings:
    """What the command line said. drafters None: every registered one that reads tokens only. repeat: passes."""

    drafters: str | None = None
    sizes: tuple[int, ...] = SIZES
    repeat: int = 7


def made_text(n: int, seed: int = 1) -> list[int]:
    """n token ids below N_VOCAB: new sentences, and earlier passages again with one token in twenty changed."""
    rng = random.Random(seed)
    text: list[int] = []
    while len(text) < n:
        length = rng.randrange(20, 120)
        if len(text) > 500 and rng.random() < 0.5:
            start = rng.randrange(len(text) - length)
            passage = text[start : start + length]
            text += [_word(rng) if rng.random() < 0.05 else token for token in passage]
        else:
            word = _word(rng)
            for _ in range(length):
                text.append(word)
                # Few words follow a word, so that short n-grams come back.
                word = _word(rng) if rng.random() < 0.4 else (word * 31 + rng.randrange(4)) % N_VOCAB
    return text[:n]


def _word(rng: random.Random) -> int:
    return int(rng.paretovariate(0.6)) % N_VOCAB


def drafters(settings: DrafterSettings) -> Result:
    """All drafters at all sizes. BenchError for one that needs more than tokens."""
    result = Result("drafters", "", threads=1)
    result.settings.update(limit=LIMIT, rounds=ROUNDS)
    text = made_text(max(settings.sizes) + settings.repeat * ROUNDS + LIMIT + 1)
    for spec in _wanted(settings.drafters):
        for size in settings.sizes:
            progress(f"drafters: {spec.name}, {size} tokens")
            _measure(result, f"{spec.name} {size}", _build(spec), text, size, settings.repeat)
    return result


def _wanted(drafters: str | None) -> list[Any]:
    from pyspec.drafters.registry import DRAFTER_KINDS, DrafterSpec, parse_drafters
    from pyspec.errors import OptionError

    if drafters is None:
        return [DrafterSpec(kind.name) for kind in DRAFTER_KINDS if not kind.needs_draft_model]
    try:
        found = parse_drafters(drafters)
    except OptionError as error:
        raise BenchError(str(error)) from None
    for spec in found:
        if isinstance(spec, DrafterSpec) and spec.kind.needs_draft_model:
            raise BenchError(f"{spec.name} needs a model: `spec` measures it")
    return found


def _build(spec: Any) -> Any:
    from pyspec.drafters.registry import DrafterParts

    def never(*_: Any, **__: Any) -> Any:
        raise BenchError(f"{spec.name} needs more than tokens")

    parts = DrafterParts(n_vocab=N_VOCAB, draft_context=never, is_end=lambda token: False, choose=never)
    drafter = spec.kind.build(spec.values(), parts)
    if not drafter.is_text:
        raise BenchError(f"{spec.name} needs more than tokens")
    return drafter


def _measure(result: Result, key: str, drafter: Any, text: list[int], size: int, repeat: int) -> None:
    """One drafter at one size: the prompt as a whole, then rounds after it, one token each."""
    samples: dict[str, list[float]] = {name: [] for name in COLUMNS}
    counts = {"drafts": 0, "drafted": 0, "right": 0}
    prompt = text[:size]
    try:
        for _ in range(repeat):
            drafter.begin([])
            started = perf_counter_ns()
            drafter.begin(prompt)
            samples["prompt_ns"].append((perf_counter_ns() - started) / size)
        history = list(prompt)
        for _ in range(repeat):
            commit_ns = draft_ns = 0
            for last, proposed, following, took, kept_ns in _rounds(drafter, text, history):
                history.append(last)
                draft_ns += took
                commit_ns += kept_ns
                counts["drafts"] += bool(proposed)
                counts["drafted"] += len(proposed)
                counts["right"] += next(
                    (i for i, (a, b) in enumerate(zip(proposed, following, strict=False)) if a != b),
                    len(proposed),
                )
            samples["commit_ns"].append(commit_ns / ROUNDS)
            samples["draft_ns"].append(draft_ns / ROUNDS)
        memory = getattr(drafter, "memory_bytes", None)
        samples["bytes_per_token"] = [] if memory is None else [memory / len(history)]
    finally:
        drafter.close()
    for name, values in samples.items():
        if values:
            result.add(f"{key} {name}", values, [], rates=False)
    found = {name: result.median("pyspec", f"{key} {name}") for name in COLUMNS}
    result.pyspec[key] = found | {"bytes": memory, "rounds": repeat * ROUNDS} | counts


def _rounds(
    drafter: Any, text: list[int], history: list[int]
) -> Iterator[tuple[int, list[int], list[int], int, int]]:
    """ROUNDS rounds of plain decoding with a draft each: (token kept, draft, what follows, ns of propose, of commit)."""
    from pyspec.drafters.base import Verdict

    for _ in range(ROUNDS):
        at = len(history)
        last, following = text[at], text[at + 1 : at + 1 + LIMIT]
        verdict = Verdict([last], following[:1], [], 0)
        t0 = perf_counter_ns()
        draft = drafter.propose(history, last, LIMIT)
        t1 = perf_counter_ns()
        drafter.commit(verdict, None, False)
        t2 = perf_counter_ns()
        yield last, draft.tokens if draft is not None else [], following, t1 - t0, t2 - t1
