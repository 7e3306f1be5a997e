"""Statistics on the command line: the table, the JSON objects, and the session."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pyspec.cli import main
from pyspec.cli.common import Runtime
from pyspec.cli.output import bar, duration
from pyspec.cli.statistics import answer_json, answer_line, stats_json
from pyspec.cli.stats_table import WIDTH, length_lines, row, session_lines, session_summary, stats_lines
from pyspec.cli.verb import with_stats_value
from pyspec.llm.results import GenerationResult, Usage
from pyspec.speculation.stats import ControllerStats, DrafterStats, Stats
from tests.cli.fake_llm import FakeLLM

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """The program on the stand-in, in this process: (exit code, stdout, stderr)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments), runtime=Runtime(llm_factory=FakeLLM))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def a_result() -> GenerationResult:
    stats = Stats(
        rounds=51,
        verifications=40,
        drafted=120,
        accepted=90,
        chosen=39,
        active_drafters=["suffix", "draft-simple"],
        rollback_mode="positions",
        prompt_tokens_reused=380,
        prompt_tokens_evaluated=32,
        prompt_ms=210.0,
        draft_ms=100.0,
        verify_ms=2800.0,
        accept_ms=40.0,
        generation_ms=3100.0,
        tokens_per_second=41.24,
    )
    stats.drafters["suffix"] = DrafterStats(
        51, 30, 100, 80, [30] * 4 + [20] * 16, [27, 25, 20, 8] + [0] * 16, 12.0, 1.5, 0.5, 27
    )
    stats.drafters["draft-simple"] = DrafterStats(11, 10, 20, 10, [10, 6, 4], [6, 3, 1], 88.0, 30.0, 2.5, 6)
    stats.parked_drafters["a drafter with quite a long name"] = "it raised ValueError: " + "words " * 30
    costs = {1: 20.0, **{n: 20.0 + n for n in range(2, 33)}}
    stats.controller = ControllerStats(costs, {0: 11, 1: 4, 3: 20, 4: 9, 31: 7}, 3, 1200.0, 400.0)
    return GenerationResult("text", list(range(129)), None, "stop", Usage(412, 129), stats, 7, "\nUser:")


def test_the_table_has_every_number_and_fits_eighty_columns() -> None:
    lines = list(stats_lines(a_result()))
    assert max(map(len, lines)) <= WIDTH, lines
    text = "\n".join(lines)
    for words in (
        "412 tokens · 380 of them reused · 210 ms · 152.4 tok/s",
        "129 tokens · 3.10 s · 41.2 tok/s · finished: stop by '\\nUser:' · seed 7",
        "51, 40 with a draft · mean acceptance length 3.25",
        "120 · accepted 90 (75.0 %) · 39 tokens chosen by the model itself",
        "prompt 210 ms · draft 100 ms (3 %) · verify 2.80 s · accept 40.0 ms",
        "rollback positions",
        "saved about 1.20 s (28 %) · may still lose 400 ms",
        "drafters rested in 3 rounds",
        "T(1) 20.0 T(2) 22.0 T(4) 24.0 T(8) 28.0 T(16) 36.0",
    ):
        assert words in " ".join(text.split()), (words, text)
    cells = [line.split() for line in lines]
    assert ["suffix", "51", "30", "27", "100", "80", "80.0", "%", "3.67"] in cells
    assert ["suffix", "12.0", "1.5", "0.5"] in cells
    assert ["draft-simple", "60", "50", "33"] in cells, "conditional: 6 of 10, 3 of 6, 1 of 3"
    assert any(line.split()[:5] == ["suffix", "90", "93", "80", "40"] for line in lines)
    assert sum("words" in line for line in lines) > 1, "a long reason takes several lines"


def test_the_histogram_of_lengths() -> None:
    lines = list(length_lines({0: 11, 1: 4, 3: 20, 4: 9, 31: 8}))
    shown = {line[14:].split()[0]: line.rsplit(" ", 2)[-2] for line in lines}
    assert shown == {"0": "11", "1": "4", "2": "0", "3-4": "29", "5-8": "0", "9-16": "0", "17+": "8"}
    assert lines[3].count("█") == 36
    assert list(length_lines({})) == []


def test_without_drafters_the_table_is_short() -> None:
    result = a_result()
    result.stats = Stats(rounds=128, chosen=129)
    text = "\n".join(stats_lines(result))
    assert "drafters      none" in text
    for word in ("controller", "draft length", "accepted"):
        assert word not in text


def test_other_rules_of_acceptance_are_marked() -> None:
    result = a_result()
    result.stats.acceptance_rule = "synthetic"
    assert "SYNTHETIC" in "\n".join(stats_lines(result))
    assert "SYNTHETIC" in answer_line(result)
    result.stats.acceptance_rule = "rejection"
    assert "same distribution" in "\n".join(stats_lines(result))


def test_a_loss_is_called_a_loss() -> None:
    result = a_result()
    assert result.stats.controller is not None
    result.stats.controller.saved_ms = -25.0
    assert "lost about 25.0 ms ·" in "\n".join(stats_lines(result))


def test_the_session_adds_up() -> None:
    session = Stats(generations=0)
    for _ in range(3):
        session.add(a_result().stats)
    text = "\n".join(session_lines(session))
    assert "1236 tokens · 1140 of them reused" in text
    assert "387 tokens · 9.30 s" in text
    assert "3 answers" in text
    assert max(map(len, text.splitlines())) <= WIDTH
    summary = " ".join(session_summary(session))
    assert "3 answers · 387 tokens" in summary
    assert "75 % of drafts accepted" in summary
    assert "saved about 3.60 s" in summary


def test_rows_break_between_parts() -> None:
    lines = list(row("label", ["x" * 30, "y" * 30, "z" * 30]))
    assert lines == ["label".ljust(14) + "x" * 30 + " · " + "y" * 30 + " ·", " " * 14 + "z" * 30]
    assert list(row("", [])) == [""]


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0.0 ms"), (99.96, "100 ms"), (999.6, "1.00 s"), (9996, "10.0 s"), (99_960, "100 s")],
)
def test_durations(ms: float, text: str) -> None:
    assert duration(ms) == text


def test_bars() -> None:
    assert [bar(share, 4) for share in (0.0, 0.03125, 0.5, 1.0, 7.0)] == ["", "▏", "██", "████", "████"]


def test_json_has_counters_and_what_follows_from_them() -> None:
    data = json.loads(json.dumps(stats_json(a_result().stats)))
    assert data["drafters"]["draft-simple"]["conditional_acceptance"] == [0.6, 0.5, pytest.approx(1 / 3)]
    assert data["drafters"]["draft-simple"]["acceptance_per_position"] == [0.6, 0.3, 0.1]
    assert data["drafters"]["suffix"]["accepted_drafts"] == 27
    assert data["mean_acceptance_length"] == 3.25
    assert data["per_position"][:3] == [33, 28, 21]
    assert data["controller"]["lengths"]["31"] == 7
    assert data["controller"]["cost_ms"]["2"] == 22.0
    assert data["controller"]["rests"] == 3
    one = answer_json(a_result(), a_result().stats)
    assert "text" not in one
    assert one["usage"]["total"] == 541
    assert one["session"]["accepted"] == 90


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--stats"], ["--stats=table"]),
        (["m", "--stats", "json", "x"], ["m", "--stats=json", "x"]),
        (["m", "--stats", "hello"], ["m", "--stats=table", "hello"]),
        (["m", "--stats", "--json"], ["m", "--stats=table", "--json"]),
        (["m", "--stats", "--", "json"], ["m", "--stats=table", "--", "json"]),
        (["m", "--", "--stats"], ["m", "--", "--stats"]),
        (["m", "--stats=json"], ["m", "--stats=json"]),
    ],
)
def test_the_value_of_stats_is_optional(words: list[str], expected: list[str]) -> None:
    assert with_stats_value(words) == expected


def test_generate_keeps_stdout_for_the_answer(call: Call, some_file: str) -> None:
    code, out, err = call("generate", some_file, "--stats", "json", "hello", "--drafters", "suffix")
    assert (code, out) == (0, "[u] you said: hello\n")
    assert err.count("\n") == 1
    data = json.loads(err)
    assert data["stats"]["drafters"]["suffix"]["accepted"] == 27
    assert data["seed"] == 7
    code, out, err = call("generate", some_file, "hello", "--stats", "--json")
    assert json.loads(out)["text"] == "[u] you said: hello"
    assert err.startswith("prompt ")
    code, out, err = call("generate", some_file, "hello", "--stats=csv")
    assert code == 2
    assert "--stats is table or json, not 'csv'" in err


def test_chat_prints_an_object_per_answer(
    call: Call, some_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("one\ntwo\n"))
    code, out, err = call("chat", some_file, "--stats", "json", "--drafters", "suffix")
    assert code == 0
    assert out == "[u] you said: one\n[uau] you said: two\n"
    objects: list[Any] = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert [one["session"]["generations"] for one in objects] == [1, 2]
    assert [one["stats"]["drafted"] for one in objects] == [31, 31]
    assert objects[1]["session"]["drafted"] == 62
