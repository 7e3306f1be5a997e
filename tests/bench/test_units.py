"""Seconds of the contestants become the units that the report promises."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools.bench import speed
from tools.bench.contest import Settings
from tools.bench.machine import file_record, machine
from tools.bench.pyspec_runner import PyspecContestant
from tools.bench.result import Result


class FixedContest:
    """Both sides answer with fixed seconds: ours 0.002, the peer's 0.004."""

    def __init__(self, settings: Settings, result: Result) -> None:
        self.ours = self.peer = SimpleNamespace(ask=lambda do, **arguments: {})
        self.chosen: list[str] = []
        self.model: dict[str, Any] = {}

    def __enter__(self) -> FixedContest:
        return self

    def __exit__(self, *error: object) -> None: ...

    def open(self, **options: int) -> None: ...

    def ids(self, n: int) -> list[int]:
        return list(range(n))

    def choose(self, kind: str, ids: list[int], fill: int = 0) -> None: ...

    def seconds(self, label: str, measure: object) -> tuple[list[float], list[float]]:
        return [0.002] * 3, [0.004] * 3


@pytest.mark.parametrize(
    ("benchmark", "ours", "peer"),
    [
        (speed.decode, {"tok_s": 5000.0}, {"tok_s": 2500.0}),
        (speed.prefill, {"tok_s": 10000.0}, {"tok_s": 5000.0}),
        (speed.tn, {"1": 2.0, "4": 2.0}, {"1": 4.0, "4": 4.0}),
    ],
)
def test_units(
    benchmark: Callable[[Settings], Result],
    ours: dict[str, float],
    peer: dict[str, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(speed, "Contest", FixedContest)
    monkeypatch.setattr(speed, "add_roofline", lambda result, model: None)
    result = benchmark(Settings("", "m", Path("m"), tokens=10, prompt_tokens=20, widths=(1, 4)))
    assert result.pyspec == pytest.approx(ours)
    assert result.peer == pytest.approx(peer)
    assert result.ratio == dict.fromkeys(ours, pytest.approx(2.0))


@pytest.mark.parametrize(("stopped_by", "tokens"), [(9, [4, 5, 9]), ("stop string", [4, 5]), (None, [4, 5])])
def test_an_end_token_counts_as_emitted(stopped_by: object, tokens: list[int]) -> None:
    """It took a decode like any other token, and the peer's loop counts it too."""
    stats = SimpleNamespace(generation_ms=250.0, drafted=3, accepted=1, rounds=2)
    answer = SimpleNamespace(tokens=[4, 5], stopped_by=stopped_by, stats=stats)
    contestant = PyspecContestant.__new__(PyspecContestant)
    contestant._llm = SimpleNamespace(generate=lambda ids, **options: answer)
    found = contestant.answer([1], max_tokens=8)
    assert found == {"tokens": tokens, "seconds": 0.25, "drafted": 3, "accepted": 1, "rounds": 2}
    assert answer.tokens == [4, 5]


def test_file_record(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF" * 1000)
    assert file_record(file) == {
        "name": "model.gguf",
        "bytes": 4000,
        "sha256": hashlib.sha256(b"GGUF" * 1000).hexdigest(),
    }


def test_machine_reads_name_and_features(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu sse4_2 avx2 avx512f fma ht amx_int8\n"
    )
    found: dict[str, Any] = machine(cpuinfo)
    assert found["cpu"] == "Some CPU"
    assert found["cpu_features"] == ["sse4_2", "avx2", "avx512f", "fma", "amx_int8"]
    assert found["cpus"] >= 1
    assert machine(tmp_path / "absent")["cpu_features"] == []
