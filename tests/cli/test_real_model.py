"""The command line on a real model."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_terminal import ENTERED, PROMPT, leave, plain

pytestmark = pytest.mark.real

Run = Callable[..., "subprocess.CompletedProcess[str]"]
REPEAT = (
    "Repeat this sentence two times: The old harbour bridge was closed on Tuesday morning for three weeks."
)
#: One thread: these tests share the machine, and two spinning threads on a busy one take far longer than one.
OPTIONS = ("--threads", "1", "--temperature", "0", "--max-tokens", "40")


@pytest.fixture
def smollm2(real_model: Callable[[str], Path]) -> str:
    return str(real_model("smollm2"))


@pytest.mark.parametrize("drafter", ["ngram-simple:n=3,m=16", "draft-simple:n_draft=4,p_min=0"])
def test_drafts_are_accepted_in_later_turns(terminal: Callable[..., Any], smollm2: str, drafter: str) -> None:
    """C110, ikawrakow/ik_llama.cpp#2081: conversation mode speculates; each turn has its line with tok/s and
    acceptance. The draft model is the target's own file, so all of its drafts are accepted."""
    name = drafter.split(":")[0]
    draft = ["--draft", smollm2] if name == "draft-simple" else []
    child = terminal(
        "chat", smollm2, *draft, "--drafters", drafter, "--controller", "fixed", *OPTIONS, fake=False
    )
    child.expect(PROMPT)
    for turn in range(3):
        child.send(REPEAT + "\r")
        child.expect(ENTERED)
        child.expect(PROMPT, timeout=300)
        text = plain(child.before)
        found = re.search(rf"\d+ tokens · [\d.]+ tok/s · {name} ([\d.]+) per round, (\d+) % accepted", text)
        assert found or turn == 0, text
        if found and turn > 0:
            assert float(found[1]) > 1
            assert int(found[2]) > (99 if draft else 30)
    leave(child)


def test_ctrl_c_mid_answer_and_mid_prompt(terminal: Callable[..., Any], smollm2: str) -> None:
    """C106, shakfu/cyllama#8; C111, mozilla-ai/llamafile#1008: SIGINT while the prompt is processed and while the answer
    comes; the prompt is back at once, and the session goes on."""
    options = ["--threads", "1", "--temperature", "0", "--max-tokens", "400"]
    child = terminal("chat", smollm2, "--system", "harbour bridge " * 1500, *options, fake=False)
    child.expect(PROMPT)
    child.send("Hello\r")
    child.expect(ENTERED)
    time.sleep(1.0)  # 3,000 tokens of prompt take longer than this
    child.sendintr()
    begin = time.monotonic()
    child.expect(PROMPT)
    assert time.monotonic() - begin < 1.0
    assert "0 tokens" in plain(child.before)
    for command in ("/system -", "/reset"):
        child.send(command + "\r")
        child.expect(ENTERED)
        child.expect(PROMPT)
    child.send("Tell me a long story about a cat.\r")
    child.expect(ENTERED)
    child.expect("[a-z]{2,} ", timeout=120)  # the answer has begun
    child.sendintr()
    begin = time.monotonic()
    child.expect(PROMPT)
    assert time.monotonic() - begin < 1.0
    assert "stopped" in plain(child.before)
    child.send("Say yes.\r")
    child.expect(ENTERED)
    child.expect(PROMPT, timeout=300)
    assert re.search(r"\d+ tokens? · ", plain(child.before))
    assert "Traceback" not in plain(child.before)
    leave(child)


def test_generate_gives_the_same_text_with_a_drafter(run: Run, smollm2: str) -> None:
    plainly = run("generate", smollm2, REPEAT, *OPTIONS, "--json", fake=False)
    drafted = run(
        "generate", smollm2, REPEAT, *OPTIONS, "--json", "--drafters", "ngram-simple:n=2,m=8", "--controller", "fixed",
        fake=False,
    )  # fmt: skip
    one, two = json.loads(plainly.stdout), json.loads(drafted.stdout)
    assert one["tokens"] == two["tokens"]
    assert one["text"] == two["text"] != ""
    assert two["stats"]["drafted"] > 0
    assert plainly.stderr == drafted.stderr == ""


def test_inspect(run: Run, smollm2: str) -> None:
    text = run("inspect", smollm2, "--n-ctx", "1024", fake=False).stdout
    for word in (
        "llama",
        "135M",
        "tokenizer.ggml.pre",
        "smollm",
        "q4_1",
        "210",
        "1024 tokens",
        "ngram-simple",
    ):
        assert word in text
    data = json.loads(run("inspect", smollm2, "--json", "--draft", smollm2, fake=False).stdout)
    assert data["info"]["n_layer"] == 30
    assert len(data["tensors"]) == 272
    assert data["metadata"]["tokenizer.ggml.tokens"]["length"] == 49152
    assert data["memory"]["cache_bytes"] > 0
    assert {row["fits"] for row in data["drafters"]} == {"yes"}


def test_check_pair(run: Run, smollm2: str) -> None:
    good = run("check-pair", smollm2, smollm2, fake=False)
    assert good.returncode == 0
    assert "can draft for" in good.stdout


def test_check_pair_of_strangers(run: Run, smollm2: str, real_model: Callable[[str], Path]) -> None:
    bad = run("check-pair", str(real_model("qwen2.5-coder-0.5b")), smollm2, "--json", fake=False)
    assert bad.returncode == 3
    report = json.loads(bad.stdout)
    assert not report["ok"]
    assert any("151936" in failure["target"] for failure in report["failures"])
    one_line = run("generate", str(real_model("qwen2.5-coder-0.5b")), "x", "--draft", smollm2, fake=False)
    assert one_line.returncode == 3
    assert "cannot draft for" in one_line.stderr
    assert one_line.stderr.count("\n") == 1
    assert "Traceback" not in one_line.stderr


@pytest.mark.parametrize("content", [b"", b"GGU", b"<!DOCTYPE html><html></html>", b"ggjt" + bytes(64)])
@pytest.mark.parametrize("place", ["target", "draft"])
def test_files_that_are_no_models(run: Run, smollm2: str, tmp_path: Path, content: bytes, place: str) -> None:
    """C097, abetlen/llama-cpp-python#755: empty, three bytes, a web page, an old format; as target and as draft. One line
    with the path."""
    file = tmp_path / "bad.gguf"
    file.write_bytes(content)
    models = [str(file)] if place == "target" else [smollm2]
    draft = [] if place == "target" else ["--draft", str(file)]
    result = run("generate", *models, "x", *draft, "--threads", "1", fake=False)
    assert result.returncode == 3
    assert result.stderr.count("\n") == 1, result.stderr
    assert str(file) in result.stderr
    assert str(len(content)) in result.stderr or not content


def test_a_directory_is_no_model(run: Run, tmp_path: Path) -> None:
    """C097, ggml-org/llama.cpp#2629"""
    result = run("inspect", str(tmp_path), fake=False)
    assert result.returncode == 3
    assert "directory" in result.stderr
    assert result.stderr.count("\n") == 1


def test_bench(run: Run, smollm2: str) -> None:
    options = [
        "--threads",
        "1",
        "--tokens",
        "24",
        "--prompt-tokens",
        "16",
        "--repeat",
        "1",
        "--workloads",
        "quote",
    ]
    result = run("bench", smollm2, "--drafters", "ngram-simple:n=2", *options, "--json", fake=False)
    data = json.loads(result.stdout)
    assert data["prompt"]["tok_s"] > 0
    quote = data["workloads"]["quote"]
    assert quote["tokens"] > 8
    assert quote["plain"]["tok_s"] > 0
    assert quote["with_drafters"]["same_text"] is True
    assert data["drafters"]["ngram-simple"]["calls"] > 0


def test_answers_follow_a_schema(run: Run, smollm2: str, tmp_path: Path) -> None:
    file = tmp_path / "cat.json"
    file.write_text(
        json.dumps({"type": "object", "properties": {"legs": {"enum": [3, 4]}}, "required": ["legs"],
                    "additionalProperties": False})
    )  # fmt: skip
    one = run("generate", smollm2, "A cat.", *OPTIONS, "--format", str(file), "--stats", "json", fake=False)
    assert json.loads(one.stdout)["legs"] in (3, 4)
    assert json.loads(one.stderr)["stats"]["drafters"]["grammar"]["calls"] > 0
    turns = f"/format {file}\nA cat.\n/format off\nSay hello.\n/stats\n/stats session\n"
    talk = run("chat", smollm2, *OPTIONS, stdin=turns, fake=False)
    first, rest = talk.stdout.split("\n", 1)
    assert json.loads(first)["legs"] in (3, 4)
    assert not rest.startswith("{")
    assert "2 answers" in talk.stderr
