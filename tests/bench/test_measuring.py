"""The measured loops do what they say, whoever runs them: counted on a contestant that only keeps books."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tools.bench.contest import Contest, Settings
from tools.bench.contestant import WIDTH_RUNS, Contestant, memory_in_use
from tools.bench.oracle_drafter import OracleDrafter
from tools.bench.report import as_json, as_text, number
from tools.bench.result import Result
from tools.bench.stats import summary
from tools.bench.workloads import KINDS, PROMPTS

END = 99


class Bookkeeper(Contestant):
    """Memory as a list, decodes as a log; the most likely token is the last one plus one."""

    def import_library(self) -> None:
        self.memory: list[int] = []
        self.log: list[tuple[tuple[int, ...], str]] = []

    def about(self) -> dict[str, str]:
        return {"name": "bookkeeper", "version": "1"}

    def open(self, path: str, *, threads: int, n_ctx: int, n_outputs: int) -> dict[str, Any]:
        return {}

    def append(self, tokens: Sequence[int], rows: str) -> None:
        self.memory += tokens
        self.log.append((tuple(tokens), rows))

    def drop(self, position: int) -> None:
        del self.memory[position:]

    def best(self) -> int:
        return self.memory[-1] + 1

    def is_end(self, token: int) -> bool:
        return token == END

    def load(self, path: str, *, threads: int, n_ctx: int, text: str, **options: Any) -> dict[str, float]:
        return {}


def test_decode_measures_single_tokens_behind_a_prompt_and_a_warm_up() -> None:
    contestant = Bookkeeper()
    contestant.append([7, 7], "none")
    contestant.log.clear()
    assert contestant.decode([1, 2, 3, 4, 5, 6], fill=3)["seconds"] > 0
    assert contestant.log == [((1, 2, 3), "none"), ((4,), "last"), ((5,), "last"), ((6,), "last")]
    assert contestant.memory == [1, 2, 3, 4, 5, 6]


def test_prefill_starts_from_an_empty_memory() -> None:
    contestant = Bookkeeper()
    contestant.prefill(list(range(20)))
    assert contestant.memory == list(range(20))
    assert contestant.log[-1] == (tuple(range(20)), "last")


def test_width_returns_to_what_is_held_and_asks_for_every_row() -> None:
    contestant = Bookkeeper()
    contestant.hold([1, 2, 3])
    contestant.log.clear()
    contestant.width([4, 5])
    assert contestant.memory == [1, 2, 3]
    assert set(contestant.log) == {((4, 5), "all")}
    assert (
        len(contestant.log) == 1 + WIDTH_RUNS
    )  # one warm-up; all runs are far quicker than the time allowed


def test_answer_ends_at_the_limit_or_with_the_end_token() -> None:
    contestant = Bookkeeper()
    assert contestant.answer([1, 2], max_tokens=4)["tokens"] == [3, 4, 5, 6]
    assert contestant.memory == [1, 2, 3, 4, 5]  # the last token is emitted, not decoded
    assert contestant.answer([END - 3], max_tokens=9)["tokens"] == [END - 2, END - 1, END]
    assert contestant.answer([1], max_tokens=1) == {"tokens": [2], "seconds": 0.0}


def test_turns_alternate_who_is_first() -> None:
    contest = Contest.__new__(Contest)
    contest.settings = Settings("decode", "m", path=None, repeat=3)  # type: ignore[arg-type]
    contest.ours, contest.peer = "ours", "peer"  # type: ignore[assignment]
    asked: list[str] = []

    def measure(worker: Any) -> dict[str, Any]:
        asked.append(worker)
        return {"seconds": 1.0 if worker == "ours" else 2.0}

    assert contest.seconds("", measure) == ([1.0] * 3, [2.0] * 3)
    assert asked == ["ours", "peer", "peer", "ours", "ours", "peer"]


def test_the_oracle_is_right_and_times_rounds_without_the_backend() -> None:
    """Drafts replay the record from where the answer is; computing time is the context's own count."""
    computed = [0]
    target = SimpleNamespace(stats=lambda: SimpleNamespace(compute_us=computed[0]))
    recorded = list(range(100, 140))
    oracle = OracleDrafter(recorded, 5, target, random.Random(1), 8)
    history = [0] * 5
    lengths = set()
    at = 0  # tokens of the answer in memory; token `at` is the last sampled one
    while at + 9 < len(recorded):
        draft = oracle.propose(history, recorded[at], 8)
        assert draft is not None and draft.tokens == recorded[at + 1 : at + 1 + len(draft.tokens)]
        lengths.add(len(draft.tokens))
        history += [recorded[at], *draft.tokens]
        at += 1 + len(draft.tokens)
        computed[0] += 50
    assert len(lengths) > 2 and max(lengths) <= 8
    assert set(oracle.compute_us) == {50.0}
    assert len(oracle.wall_us) == len(oracle.compute_us) >= 3
    assert oracle.propose(history, recorded[at], 0).tokens == []  # type: ignore[union-attr]


def test_workloads_are_two_prompts_of_each_kind() -> None:
    assert KINDS == ("edit", "code", "quote", "json", "prose")
    for kind in KINDS:
        assert sum(name == kind for name, _ in PROMPTS) == 2
    assert len({text for _, text in PROMPTS}) == 10


def test_memory_in_use_is_this_process() -> None:
    use = memory_in_use()
    assert 5 < use["anonymous_mib"] < use["rss_mib"] < 100_000


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.12345, "0.123"), (12.345, "12.35"), (123.45, "123.5"), (12345.6, "12346")],
)
def test_numbers_have_about_four_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_the_table_shows_what_the_json_says() -> None:
    result = Result("tn", "model.gguf", threads=2)
    result.add("1", [10.0] * 7, [11.0] * 7, rates=False)
    result.add("8", [25.0] * 7, [50.0] * 7, rates=False)
    result.publish()
    result.notes.append("A note.")
    text = as_text(result)
    assert [line.split() for line in text.splitlines()[-4:-2]] == [
        ["1", "10.00", "10.00..10.00", "11.00", "11.00..11.00", "1.100", "1.100..1.100", "1.000", "1.000"],
        ["8", "25.00", "25.00..25.00", "50.00", "50.00..50.00", "2.000", "2.000..2.000", "2.500", "4.545"],
    ]
    assert text.endswith("A note.")
    data = as_json(result)
    assert data["ratio"] == {"1": 1.1, "8": 2.0}
    assert data["details"]["spread"]["pyspec"]["8"] == {"median": 25.0, "q1": 25.0, "q3": 25.0, "n": 7}
    assert data["details"]["samples"]["peer"]["1"] == [11.0] * 7


def test_without_a_peer_its_columns_are_left_out() -> None:
    result = Result("decode", "model.gguf", threads=2)
    result.add("tok_s", [10.0], [], rates=True)
    result.publish()
    assert as_text(result).splitlines()[-3].split() == ["pyspec", "quartiles"]
    assert result.spread["pyspec"]["tok_s"] == summary([10.0])
