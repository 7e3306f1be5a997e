"""The command line for scripts: exit codes, one line per error, what goes to which stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def one_line(text: str) -> str:
    """The only line of stderr."""
    assert text.count("\n") == 1, text
    assert "Traceback" not in text
    assert text.startswith("pyspec-cli: ")
    return text.strip()


def test_only_the_answer_is_on_stdout(run: Run, some_file: str) -> None:
    result = run("generate", some_file, "hello world", "--stats")
    assert result.returncode == 0
    assert result.stdout == "[u] you said: hello world\n"
    assert "mean acceptance length 3.70" in result.stderr
    assert "seed 7" in result.stderr


def test_quiet_without_stats(run: Run, some_file: str) -> None:
    assert run("generate", some_file, "hello").stderr == ""


def test_prompt_from_stdin(run: Run, some_file: str) -> None:
    assert run("generate", some_file, "-", stdin="from a pipe é").stdout == "[u] you said: from a pipe é\n"


def test_raw_and_system(run: Run, some_file: str) -> None:
    assert run("generate", some_file, "hello", "--raw").stdout == "<raw> hello\n"
    assert run("generate", some_file, "hello", "--system", "s").stdout == "[su] you said: hello\n"
    result = run("generate", some_file, "hello", "--raw", "--system", "s")
    assert result.returncode == 2
    assert "--raw" in one_line(result.stderr)


def test_without_template_the_prompt_is_plain_text(run: Run, some_file: str) -> None:
    assert run("generate", some_file, "hello", FAKE_NO_TEMPLATE="1").stdout == "<raw> hello\n"
    result = run("generate", some_file, "hello", "--system", "s", FAKE_NO_TEMPLATE="1")
    assert result.returncode == 2
    assert "no chat template" in one_line(result.stderr)
    assert run("generate", some_file, "hi", "--template", "chatml", FAKE_NO_TEMPLATE="1").stdout.startswith(
        "[u]"
    )


def test_chat_without_template_says_what_to_do(run: Run, some_file: str) -> None:
    """C050, containers/ramalama#1890: what is missing and the fallback, in one line."""
    result = run("chat", some_file, FAKE_NO_TEMPLATE="1")
    assert result.returncode == 3
    assert "tokenizer.chat_template is missing" in one_line(result.stderr)
    assert "chatml" in result.stderr


def test_an_answer_that_was_cut_is_marked(run: Run, some_file: str) -> None:
    result = run("generate", some_file, "hello", "--max-tokens", "2")
    assert result.stdout == "[u] you \n"
    assert "cut" in result.stderr
    assert result.returncode == 0


def test_json(run: Run, some_file: str) -> None:
    result = run("generate", some_file, "hello", "--json", "--drafters", "ngram-simple")
    data = json.loads(result.stdout)
    assert data["text"] == "[u] you said: hello"
    assert data["finish_reason"] == "stop"
    assert data["usage"] == {"prompt": 1, "completion": 4, "total": 5}
    assert data["stats"]["drafters"]["ngram-simple"]["accepted"] == 27
    assert data["stats"]["mean_acceptance_length"] == pytest.approx(3.7)
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["generate", "smolm2", "x"], 3, "did you mean smollm2?"),
        (["chat", "nothing.gguf"], 3, "no such file: nothing.gguf"),
        (["fetch", "smollm3"], 3, "did you mean smollm2?"),
        (
            ["generate", "FILE", "x", "--draft", "qwen"],
            3,
            "did you mean qwen2.5-coder-0.5b or qwen2.5-coder-1.5b?",
        ),
        (["generate", "smollm2", "x", "--offline"], 3, "not in the cache"),
        (["generate", "gemma3-270m", "x"], 3, "--accept-licence"),
        (["generate", "FILE", "x", "--drafters", "ngram"], 2, "valid names"),
        (["generate", "FILE", "x", "--drafters", "ngram-simple:n=0"], 2, "out of range"),
        (["generate", "FILE", "x", "--n-ctx", "-5"], 2, "n_ctx"),
        (["generate", "FILE", "x", "--max-tokens", "many"], 2, "--max-tokens"),
        (["generate", "FILE", "x", "--frobnicate"], 2, "--frobnicate"),
        (["generate", "FILE"], 2, "PROMPT"),
        (["frobnicate"], 2, "frobnicate"),
        (["generate", "FILE", "please fail"], 1, "ValueError: something unexpected"),
    ],
)
def test_mistakes_are_one_line_and_an_exit_code(
    run: Run, some_file: str, arguments: list[str], code: int, message: str
) -> None:
    result = run(*[some_file if word == "FILE" else word for word in arguments])
    assert message in one_line(result.stderr)
    assert result.returncode == code
    assert result.stdout == ""


def test_debug_shows_the_traceback(run: Run, some_file: str) -> None:
    for arguments in (["--debug", "generate", some_file, "fail"], ["generate", some_file, "fail", "--debug"]):
        result = run(*arguments)
        assert result.returncode == 1
        assert "Traceback" in result.stderr
        assert result.stderr.strip().splitlines()[-1].startswith("pyspec-cli: error: ValueError")


def test_after_two_dashes_debug_is_a_word(run: Run, some_file: str) -> None:
    result = run("generate", some_file, "--", "--debug")
    assert result.stdout == "[u] you said: --debug\n"


def test_a_reader_that_goes_away(environment: dict[str, str], some_file: str) -> None:
    from tests.cli.conftest import FAKE

    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, FAKE, "generate", some_file, "hello"]
    result = subprocess.run(
        command, stdout=write, stderr=subprocess.PIPE, env=environment, text=True, check=False
    )
    os.close(write)
    assert result.stderr == ""
    assert result.returncode == 141


def test_version_and_help(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    from pyspec import __version__
    from pyspec.cli import main

    assert run("--version").stdout == f"pyspec-cli {__version__}\n"
    assert main([]) == 0
    bare = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert bare.split() == capsys.readouterr().out.split()
    for verb in ("chat", "generate", "inspect", "check-pair", "corpus", "fetch", "bench"):
        assert verb in bare
        assert main([verb, "--help"]) == 0
        text = capsys.readouterr().out
        assert len(text.splitlines()) > 5
        assert max(map(len, text.splitlines())) <= 110


def test_help_starts_quickly(environment: dict[str, str]) -> None:
    """Half a second, counted as processor time so that a busy machine does not decide; nothing heavy is imported."""
    code = (
        "import sys, resource, pyspec.cli; code = pyspec.cli.main(['--help']);"
        "heavy = {'numpy', 'tokenizers', 'jinja2', 'sentencepiece', 'prompt_toolkit', 'cffi', 'rich'} & set(sys.modules);"
        "used = resource.getrusage(resource.RUSAGE_SELF); print(used.ru_utime + used.ru_stime, sorted(heavy), code)"
    )
    command = [sys.executable, "-c", code]
    subprocess.run(command, env=environment, capture_output=True, check=True)  # byte code is written once
    last = subprocess.run(
        command, env=environment, capture_output=True, check=True, text=True
    ).stdout.splitlines()[-1]
    seconds, rest = last.split(" ", 1)
    assert rest == "[] 0"
    assert float(seconds) < 0.5


def test_chat_without_a_terminal(run: Run, some_file: str) -> None:
    """Each line of stdin is a message; stdout has the answers only."""
    result = run("chat", some_file, stdin="one\n\n/stats\ntwo\n")
    assert result.returncode == 0
    assert result.stdout == "[u] you said: one\n[uau] you said: two\n"
    assert "4 tokens · 41.2 tok/s" in result.stderr


def test_forty_turns_in_a_small_context(run: Run, some_file: str) -> None:
    """C061, abetlen/llama-cpp-python#1139: the oldest exchanges go, in pairs, the system message stays; the user is told.

    A question and its answer have 11 tokens here, and a quarter of the context is left for the answer.
    """
    turns = [f"this is turn {turn}" for turn in range(40)]
    result = run("chat", some_file, "--n-ctx", "128", "--system", "be short", stdin="\n".join(turns) + "\n")
    assert result.returncode == 0
    answers = result.stdout.splitlines()
    assert [answer.split("said: ")[1] for answer in answers] == turns
    roles = [answer.split("]")[0].lstrip("[") for answer in answers]
    assert roles[1] == "suau"
    for shape in roles:
        assert shape.startswith("s")
        assert shape[1:-1] == "ua" * ((len(shape) - 2) // 2)
        assert shape.endswith("u")
    assert {len(shape) for shape in roles[10:]} == {2 + 2 * 8}, (
        "eight exchanges fit: no more is forgotten than has to be"
    )
    assert "oldest exchange was forgotten" in result.stderr


def test_a_message_that_cannot_fit(run: Run, some_file: str) -> None:
    """C061, simonw/llm-llama-cpp#30: counts in the message, and the chat goes on."""
    result = run("chat", some_file, "--n-ctx", "64", stdin="word " * 100 + "\nshort\n")
    said = "this message does not fit: the prompt has 100 tokens, the context holds n_ctx=64"
    assert said in result.stderr
    assert result.stdout == "[u] you said: short\n"
    assert result.returncode == 0


def test_fetch_lists_what_there_is(run: Run) -> None:
    result = run("fetch", fake=False)
    for word in (
        "smollm2",
        "the default",
        "gemma3-270m",
        "qwen2.5-coder-0.5b",
        "92.9 MB",
        "Apache-2.0",
        "no",
    ):
        assert word in result.stdout
    assert result.returncode == 0


def test_fetch_of_what_is_there_prints_its_path(run: Run, environment: dict[str, str]) -> None:
    from pyspec.fetch import load_manifest

    entry = load_manifest()["smollm2"]
    path = Path(environment["XDG_CACHE_HOME"]) / "pyspec" / "models" / entry.file
    path.parent.mkdir(parents=True)
    with open(path, "wb") as file:
        file.truncate(entry.size)  # a sparse file of the right size
    result = run("fetch", "smollm2", fake=False)
    assert result.stdout == f"{path}\n"
    assert "licence Apache-2.0" in result.stderr
    damaged = run("fetch", "smollm2", "--verify", fake=False)
    assert damaged.returncode == 3
    assert "damaged" in damaged.stderr
