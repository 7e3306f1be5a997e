"""`python -m tools.bench`: wrong arguments, and the JSON of the smallest run of every benchmark. No time decides."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.bench import native_program
from tools.bench.__main__ import BENCHMARKS, main

ROOT = Path(__file__).resolve().parents[2]

SMALLEST = {
    "decode": ["--tokens", "3", "--fill", "4"],
    "prefill": ["--prompt-tokens", "12"],
    "tn": ["--widths", "1-3,5", "--fill", "4"],
    "load": [],
    "round": ["--tokens", "24", "--kinds", "code"],
    "spec": [
        "--tokens",
        "12",
        "--kinds",
        "prose,code",
        "--drafters",
        "ngram-simple:n=1,m=4",
        "--controller",
        "fixed",
    ],
    "chain": ["--tokens", "12", "--kinds", "prose"],
    "acceptance": ["--tokens", "12", "--kinds", "prose"],
}
SPEC_KEYS = {"tok_s", "drafted", "accepted", "rounds", "same_text", "emitted", "plain_tok_s", "gain"}


def run(what: str, model: Path, tmp_path: Path, *more: str) -> dict[str, Any]:
    """Exit code 0, and the JSON file."""
    file = tmp_path / "result.json"
    options = [*SMALLEST[what], "--model", str(model), "--threads", "1", "--repeat", "1", "--json", str(file)]
    assert main([what, *options, *more]) == 0
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


@pytest.fixture(autouse=True)
def small_roofline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_program, "ROOFLINE_OPTIONS", ("--span", "1", "--passes", "1"))


@pytest.mark.parametrize("what", list(BENCHMARKS))
def test_the_json_contract(what: str, tiny: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny.path("llama")
    data = run(what, model, tmp_path, *(["--draft", str(model)] if what in ("acceptance", "chain") else []))
    assert set(data) == {"what", "model", "threads", "pyspec", "peer", "ratio", "details"}
    assert (data["what"], data["model"], data["threads"]) == (what, str(model), 1)
    ours, peer, ratio, details = data["pyspec"], data["peer"], data["ratio"], data["details"]
    if what in ("decode", "prefill"):
        assert set(ours) == set(peer) == set(ratio) == {"tok_s"}
        assert ratio["tok_s"] == pytest.approx(ours["tok_s"] / peer["tok_s"])
    elif what == "tn":
        assert list(ours) == list(peer) == list(ratio) == ["1", "2", "3", "5"]
        assert all(ratio[n] == pytest.approx(peer[n] / ours[n]) for n in ours)
        roofline = data["details"]["roofline"]
        assert list(roofline["share"]) == ["1", "2", "3", "5"]
        assert roofline["macs"] > 0 and all(share > 0 for share in roofline["share"].values())
    elif what == "load":
        assert set(ours) == set(peer) == set(ratio) >= {"load_s", "first_token_s", "rss_mib"}
        assert ours["first_token_s"] > ours["load_s"] and peer["first_token_s"] > peer["load_s"]
    elif what == "round":
        assert set(ours) >= {"median_us", "p95_us", "rounds"} and peer == ratio == {}
        assert 0 < ours["median_us"] <= ours["p95_us"] and ours["median_us"] < ours["wall_us"]
        assert ours["accepted"] == ours["drafted"] > 0
    elif what == "chain":
        assert list(ours) == ["prose"] and peer == ratio == {}
        found = ours["prose"]
        assert set(found) == SPEC_KEYS | {"alone", "best", "share"} and found["same_text"] is True
        assert list(found["alone"]) == ["suffix", "draft-simple"] == details["settings"]["active_drafters"]
        assert found["share"] == pytest.approx(found["tok_s"] / found["alone"][found["best"]]["tok_s"])
    elif what == "acceptance":
        assert len(ours) == 9 and peer == ratio == {}
        assert all(found["emitted"] > 0 and 0 <= found["acceptance"] <= 1 for found in ours.values())
        # the same model with the same temperature: what it draws for itself is never rejected
        assert ours["1.0 rejection"]["accepted"] == ours["1.0 rejection"]["drafted"] > 0
    else:
        assert set(ours) == set(peer) == set(ratio) == {"code", "prose"}
        for kind, found in ours.items():
            assert set(found) == SPEC_KEYS
            assert found["same_text"] is True and 2 <= found["emitted"] <= 24
            assert ratio[kind] == pytest.approx(found["tok_s"] / peer[kind]["tok_s"])
        assert sum(found["drafted"] for found in ours.values()) > 0
    assert details["settings"]["repeat"] == 1
    assert details["files"]["model"]["bytes"] == model.stat().st_size
    assert len(details["files"]["model"]["sha256"]) == 64
    assert details["machine"]["cpu"]
    assert ("llama-cpp-python" in details["versions"]) == (what not in ("round", "chain", "acceptance"))
    assert "pyspec" in details["versions"]
    table = capsys.readouterr().out
    assert table.startswith(f"{what}: {model}, 1 threads")
    assert details["files"]["model"]["sha256"] in table


def test_alone_and_with_a_draft_model(tiny: Any, tmp_path: Path) -> None:
    """--peer none leaves peer and ratio empty; a target that drafts for itself is accepted."""
    model = tiny.path("llama")
    options = [
        "--peer",
        "none",
        "--draft",
        str(model),
        "--drafters",
        "draft-simple:p_min=0",
        "--n-draft",
        "2",
    ]
    data = run("spec", model, tmp_path, *options)
    assert data["peer"] == data["ratio"] == {}
    assert data["details"]["settings"]["active_drafters"] == ["draft-simple"]
    assert set(data["details"]["files"]) == {"model", "draft"}
    for found in data["pyspec"].values():
        assert found["same_text"] is True
        assert 0 < found["accepted"] <= found["drafted"] <= 2 * found["rounds"]


def test_json_on_stdout_moves_the_table(tiny: Any, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["decode", "--model", str(tiny.path("llama")), "--tokens", "2", "--fill", "2"]
    assert main([*options, "--threads", "1", "--repeat", "1", "--peer", "none", "--json", "-"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["what"] == "decode"
    assert printed.err.startswith("decode: ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sprint"], "invalid choice: 'sprint'"),
        (["tn", "--draft", "x.gguf"], "--draft belongs to spec, chain, acceptance, not to tn"),
        (
            ["load", "--tokens", "9"],
            "--tokens belongs to decode, round, spec, chain, acceptance, not to load",
        ),
        (["tn", "--widths", "4-2"], "'4-2' is not a width"),
        (["tn", "--widths", "1,,2"], "'' is not a width"),
        (["tn", "--widths", "0"], "'0' is not a width"),
        (["spec", "--kinds", "code,poem"], "unknown kind 'poem'; known kinds are edit, code"),
        (["decode", "--repeat", "0"], "'0' is not a whole number from 1"),
        (["decode", "--threads", "two"], "'two' is not a whole number from 0"),
        (["decode", "--peer", "other"], "invalid choice: 'other'"),
        (["tn", "--types", "Q4_K"], "--types belongs to kernels, not to tn"),
        (["load", "--warm"], "--warm belongs to kernels, not to load"),
        (
            ["kernels", "--model", "smollm2"],
            "--model belongs to decode, prefill, tn, load, round, spec, chain, acceptance, not to kernels",
        ),
        (["kernels", "--offline"], "--offline belongs to decode"),
        (["kernels", "--columns", "0"], "'0' is not a width"),
        (["kernels", "--shapes", "large"], "invalid choice: 'large'"),
    ],
)
def test_wrong_arguments(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_widths_and_kinds_are_put_in_order() -> None:
    from tools.bench.__main__ import _kinds, _widths

    assert _widths("1-4,8,2") == (1, 2, 3, 4, 8)
    assert _kinds("prose,edit") == ("edit", "prose")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "absent.gguf"], "absent.gguf"),
        (["--model", "smollm"], "unknown model"),
        (["--model", "."], "is not a file"),
        (["--fill", "4000"], "this needs a context of 4129 tokens, and the context has 2048"),
        (["--n-ctx", "32"], "this needs a context of 257 tokens, and the context has 32"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], words: str, tiny: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    model = [] if "--model" in arguments else ["--model", str(tiny.path("llama"))]
    assert main(["decode", *model, "--peer", "none", "--threads", "1", *arguments]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ") and words in printed.err
    assert len(printed.err.splitlines()) == 1


def test_a_bad_drafter_is_one_line(tiny: Any, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--model", str(tiny.path("llama")), "--kinds", "code", "--tokens", "4", "--peer", "none"]
    assert main(["spec", *options, "--drafters", "ngram-simpel"]) == 1
    assert "did you mean 'ngram-simple'?" in capsys.readouterr().err


def test_the_module_runs_from_the_root() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "tools.bench", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for what in (*BENCHMARKS, "kernels"):
        assert what in found.stdout
