"""`python -m tools.bench drafters`: what it counts, its table and its JSON. No time decides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspec.drafters.registry import DRAFTER_KINDS
from tools.bench import drafters
from tools.bench.__main__ import main
from tools.bench.report import as_text

KEYS = {
    "prompt_ns", "commit_ns", "draft_ns", "bytes_per_token", "bytes", "rounds", "drafts", "drafted", "right",
}  # fmt: skip


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafters, "ROUNDS", 40)


def test_the_json_and_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "result.json"
    assert main(["drafters", "--sizes", "200,3000", "--repeat", "2", "--json", str(file)]) == 0
    data = json.loads(file.read_text(encoding="utf-8"))
    assert set(data) == {"what", "model", "threads", "pyspec", "peer", "ratio", "details"}
    assert (data["what"], data["model"], data["peer"], data["ratio"]) == ("drafters", "", {}, {})
    names = [kind.name for kind in DRAFTER_KINDS if not kind.needs_draft_model]
    assert list(data["pyspec"]) == [f"{name} {size}" for name in names for size in (200, 3000)]
    for key, found in data["pyspec"].items():
        assert set(found) == KEYS
        assert found["rounds"] == 80 and 0 <= found["right"] <= found["drafted"] <= 16 * found["drafts"]
        assert all(found[name] > 0 for name in ("prompt_ns", "commit_ns", "draft_ns"))
        if key.startswith("ngram"):
            assert found["bytes"] > 4 * int(key.split()[1])
    assert sum(found["right"] for found in data["pyspec"].values()) > 0
    table = capsys.readouterr().out
    assert table.startswith("drafters: 1 threads")
    assert [line.split()[:2] for line in table.splitlines() if line.startswith("ngram-mod")] == [
        ["ngram-mod", "200"], ["ngram-mod", "3000"],
    ]  # fmt: skip
    assert "No peer" not in table and "pairs" not in table


def test_one_of_them_with_options() -> None:
    settings = drafters.DrafterSettings("ngram-simple:n=2,m=3,ngram-mod", (500,), 1)
    result = drafters.drafters(settings)
    assert list(result.pyspec) == ["ngram-simple 500", "ngram-mod 500"]
    assert result.pyspec["ngram-simple 500"]["drafted"] <= 3 * result.pyspec["ngram-simple 500"]["drafts"]
    assert "ngram-mod" in as_text(result)


@pytest.mark.parametrize(
    ("request_", "message"),
    [("draft-simple", "draft-simple needs a model"), ("ngram-none", "unknown drafter 'ngram-none'")],
)
def test_what_cannot_be_measured(request_: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drafters", "--drafters", request_, "--sizes", "10", "--repeat", "1"]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["drafters", "--model", "x"], "--model belongs to"),
        (["drafters", "--sizes", "10,0"], "'0' is not a whole number from 1"),
        (["tn", "--sizes", "10"], "--sizes belongs to drafters, not to tn"),
    ],
)
def test_wrong_arguments(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_the_text_is_always_the_same_and_repeats_itself() -> None:
    text = drafters.made_text(5000)
    assert text == drafters.made_text(9000)[:5000] and len(set(text)) > 300
    assert all(0 <= token < drafters.N_VOCAB for token in text)
    seen = {tuple(text[i : i + 8]) for i in range(2500)}
    assert sum(tuple(text[i : i + 8]) in seen for i in range(2500, 4992)) > 300
