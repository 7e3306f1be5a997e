"""Options of the verbs: how they reach the library, and how --help shows them."""

from __future__ import annotations

import dataclasses
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pyspec.cli import main
from pyspec.cli.bench_workloads import WORKLOADS
from pyspec.cli.chat_loop import _is_command
from pyspec.cli.sampling import SETTINGS
from pyspec.core.sampling_params import SamplingParams
from tests.cli.test_statistics import Call, call

__all__ = ["call"]

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    def make(name: str, text: str) -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return make


def test_every_setting_of_the_sampler_has_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    fields = {field.name for field in dataclasses.fields(SamplingParams)}
    own = {"temperature", "top_k", "top_p", "min_p", "seed"}
    assert {setting.name for setting in SETTINGS} == fields - own
    for verb in ("chat", "generate"):
        assert main([verb, "--help"]) == 0
        text = capsys.readouterr().out
        for setting in SETTINGS:
            assert (setting.option or "--" + setting.name.replace("_", "-")) in text


def test_help_has_sections(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--help"]) == 0
    text = capsys.readouterr().out
    heads = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert heads == [
        "Arguments:",
        "Options:",
        "Output:",
        "Structured output:",
        "Speculation:",
        "Sampling:",
        "Repetition:",
        "Model and memory:",
    ]


def test_settings_reach_the_call_and_unset_ones_do_not(call: Call, some_file: str) -> None:
    code, out, _ = call(
        "generate", some_file, "options",
        "--dry-multiplier", "0.8", "--dry-sequence-breaker", "x", "--dry-sequence-breaker", "y",
        "--xtc-probability", "0.5", "--top-n-sigma", "1.5", "--mirostat", "0", "--min-keep", "2",
        "--logit-bias", "4=-1.5", "--logit-bias", "5=-inf", "--acceptance", "rejection",
    )  # fmt: skip
    assert code == 0
    assert out == (
        "acceptance='rejection' dry_multiplier=0.8 dry_sequence_breakers=['x', 'y'] logit_bias={4: -1.5, 5: -inf} "
        "max_tokens=1024 min_keep=2 min_p=0.05 mirostat=0 on_full='stop' temperature=0.0 top_k=40 top_n_sigma=1.5 "
        "top_p=0.95 xtc_probability=0.5\n"
    )
    _, out, _ = call("generate", some_file, "options")
    assert out == "max_tokens=1024 min_p=0.05 on_full='stop' temperature=0.0 top_k=40 top_p=0.95\n"


def test_a_text_to_copy_from(
    call: Call, some_file: str, write: Callable[[str, str], str], tmp_path: Path
) -> None:
    predicted = write("old.py", "x = 1\n")
    _, out, _ = call("generate", some_file, "options", "--predicted", predicted)
    assert r"predicted='x = 1\n'" in out
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    for file, message in (("missing.py", "no such file"), ("binary", "is not a text file: it is not UTF-8")):
        code, out, err = call("generate", some_file, "x", "--predicted", str(tmp_path / file))
        assert (code, out) == (2, "") and message in err and err.count("\n") == 1


def test_a_bias_that_is_none(call: Call, some_file: str) -> None:
    code, _, err = call("generate", some_file, "x", "--logit-bias", "often")
    assert code == 2
    assert "--logit-bias takes a token id and a number such as 42=-1.5, not 'often'" in err


def test_formats_and_grammars_reach_the_call(
    call: Call, some_file: str, write: Callable[[str, str], str]
) -> None:
    schema = write("animal.json", json.dumps(SCHEMA))
    _, out, _ = call("generate", some_file, "options", "--format", schema, "--grammar-whitespace")
    expected = {"type": "json_schema", "json_schema": {"name": "animal", "schema": SCHEMA}}
    assert f"response_format={expected!r}" in out
    assert "grammar_whitespace=True" in out
    _, out, _ = call("generate", some_file, "options", "--format", "json")
    assert "response_format={'type': 'json_object'}" in out
    for name, text, kind in (
        ("a.gbnf", 'root ::= "yes" | "no"', "gbnf"),
        ("a.lark", 'start: "yes" | "no"', "lark"),
    ):
        _, out, _ = call("generate", some_file, "options", "--grammar", write(name, text))
        assert f"grammar=Grammar(kind='{kind}'" in out


@pytest.mark.parametrize(
    ("option", "content", "message"),
    [
        ("--format", "{", "is not JSON"),
        ("--format", "[1]", "a JSON schema is an object {…}, and the file has a list"),
        ("--format", '{"type": "object", "not": {}}', "the JSON schema cannot be used"),
        ("--grammar", "yes or no", "the grammar text has no start rule"),
        ("--grammar", 'root ::= "a" missing', "'missing', which is not defined"),
        ("--format", None, "no such file"),
        ("--grammar", None, "no such file"),
    ],
)
def test_files_that_say_no_format(
    call: Call, some_file: str, tmp_path: Path, option: str, content: str | None, message: str
) -> None:
    file = tmp_path / "format.txt"
    if content is not None:
        file.write_text(content)
    code, out, err = call("generate", some_file, "x", option, str(file))
    assert (code, out) == (2, "")
    assert message in err
    assert str(file) in err
    assert err.count("\n") == 1


def test_formats_that_contradict(call: Call, some_file: str) -> None:
    code, _, err = call("generate", some_file, "x", "--format", "json", "--grammar", "y")
    assert code == 2
    assert "--format and --grammar cannot both be given" in err
    code, _, err = call("generate", some_file, "x", "--grammar-whitespace")
    assert code == 2
    assert "needs --format" in err


def test_format_in_a_chat(
    call: Call, some_file: str, write: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = write("animal.json", json.dumps(SCHEMA))
    bad = write("bad.json", '{"type": "object", "not": {}}')
    lines = [
        "/format", "options", "/format json", "options", f"/format {schema}", "/format", "/format nothing.json",
        f"/format {bad}", "options", "/format off", "options", "/help", "/stats both",
    ]  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    code, out, err = call("chat", some_file)
    assert code == 0
    answers = out.splitlines()
    assert ["response_format" in answer for answer in answers] == [False, True, True, False]
    assert "json_object" in answers[1]
    assert "'name': 'animal'" in answers[2], "a bad file leaves the format as it was"
    said = err.splitlines()
    assert said.count(f"format: JSON after the schema {schema}") == 2
    assert said.count("format: none, answers are free") == 2
    assert any(line.startswith("no such file: nothing.json") for line in said)
    assert any(line.startswith(f"{bad}: the JSON schema cannot be used") for line in said)
    assert any(line.startswith("/format [FILE|json|off]") for line in said)
    assert any("'both' is neither" in line for line in said)


def test_drafters_go_back_to_the_default(call: Call, some_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["/drafters suffix", "options", "/drafters default", "options"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    _, out, err = call("chat", some_file)
    assert ["drafters='suffix'" in answer for answer in out.splitlines()] == [True, False]
    assert err.splitlines()[-2] == "drafters: none"


def test_a_pasted_file_is_no_command() -> None:
    assert not _is_command("/* queue.c */\nint main(void) { return 0; }")
    assert not _is_command("// queue.c")
    assert not _is_command("/usr/bin/env is what?")
    assert _is_command("/stat")
    assert _is_command("/stats session")
    assert _is_command("/system Be short.\nBe kind.")
    assert not _is_command("/define this\nand that")


def test_bench_shows_every_workload(call: Call, some_file: str) -> None:
    code, out, err = call(
        "bench", some_file, "--drafters", "suffix", "--repeat", "2", "--prompt-tokens", "16"
    )
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    for kind in WORKLOADS:
        assert kind in out
    assert "1.00 x plain, same text" in out
    assert "suffix: 270 of 310 drafted tokens accepted" in out
    assert "     1    100 %  ██████████████████████████████ of 100" in out
    assert "     2     90 %" in out


def test_bench_in_json(call: Call, some_file: str) -> None:
    _, out, err = call(
        "bench", some_file, "--drafters", "suffix", "--workloads", "json,prose", "--repeat", "1", "--json",
        "--stats", "json",
    )  # fmt: skip
    data = json.loads(out)
    assert list(data["workloads"]) == ["json", "prose"]
    assert data["workloads"]["json"]["with_drafters"]["speedup"] == 1.0
    assert data["workloads"]["json"]["with_drafters"]["same_text"] is True
    assert data["drafters"]["suffix"]["drafted"] == 62
    answers = [json.loads(line) for line in err.splitlines()]
    assert [(one["workload"], one["way"], one["turn"]) for one in answers] == [
        ("json", "plain", 1),
        ("json", "drafters", 1),
        ("prose", "drafters", 1),
        ("prose", "plain", 1),
    ]
    _, out, _ = call(
        "bench", some_file, "--drafters", "none", "--workloads", "json", "--repeat", "1", "--json"
    )
    assert "with_drafters" not in json.loads(out)["workloads"]["json"]


def test_bench_refuses_before_it_measures(call: Call, some_file: str, tmp_path: Path) -> None:
    for words, message in (
        (["--workloads", "edit,poem"], "'poem' is none of edit, code, quote, json, prose"),
        (["--plot", str(tmp_path / "x.pdf")], "its name ends with .png"),
        (["--plot", str(tmp_path / "no" / "x.png")], "no such directory"),
        (["--repeat", "0"], "--repeat has to be at least 1"),
    ):
        code, out, err = call("bench", some_file, *words)
        assert (code, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1


def test_plot_without_matplotlib(
    call: Call, some_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = call("bench", some_file, "--plot", str(tmp_path / "x.png"))
    assert (code, out) == (2, "")
    assert "pip install matplotlib" in err
    assert err.count("\n") == 1


def test_plot(call: Call, some_file: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="--plot needs the extra 'plot'")
    file = tmp_path / "x.png"
    code, _, err = call("bench", some_file, "--drafters", "suffix", "--repeat", "1", "--plot", str(file))
    assert (code, err) == (0, "")
    assert file.read_bytes().startswith(b"\x89PNG")


def test_without_plot_matplotlib_stays_out(call: Call, some_file: str) -> None:
    before = "matplotlib" in sys.modules
    assert call("bench", some_file, "--drafters", "suffix", "--repeat", "1", "--workloads", "json")[0] == 0
    assert ("matplotlib" in sys.modules) == before
