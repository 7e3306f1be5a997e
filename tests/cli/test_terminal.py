"""The chat in a pseudo-terminal."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest
from wcwidth import wcswidth

# The line editor switches bracketed paste on when it begins and off when it ends: marks that redrawing does not repeat.
PROMPT = re.escape("\x1b[?2004h")
ENTERED = re.escape("\x1b[?2004l")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x1b\].*?\x07|\r")


def plain(text: str) -> str:
    """Terminal output without control sequences."""
    return CONTROL.sub("", text)


def leave(child: Any) -> None:
    """Ctrl-D on an empty line, and everything is over with exit code 0."""
    child.send("\x04")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert child.signalstatus is None


def ask(child: Any, text: str) -> str:
    """Type a message; the answer up to the next prompt, without the echo of the message."""
    child.send(text + "\r")
    child.expect(ENTERED)
    child.expect(PROMPT)
    return plain(child.before)


def test_answers_stream(terminal: Callable[..., Any], some_file: str) -> None:
    child = terminal("chat", some_file)
    child.expect(PROMPT)
    assert "/help" in plain(child.before)
    child.send("a long one\r")
    child.expect("word3 ")
    early = time.monotonic()
    child.expect("word60 ")
    assert time.monotonic() - early > 0.5, (
        "57 words at 20 ms each cannot come at once unless they were held back"
    )
    child.expect("word299")
    child.expect(r"300 tokens · 41\.2 tok/s")
    child.expect(PROMPT)
    leave(child)


def test_ctrl_c_stops_the_answer_and_keeps_the_session(terminal: Callable[..., Any], some_file: str) -> None:
    """C111, mozilla-ai/llamafile#1008: SIGINT mid-answer, then another question, then Ctrl-D: prompt, no traceback, exit 0.

    The partial answer is kept in the conversation, as /help says.
    """
    child = terminal("chat", some_file)
    child.expect(PROMPT)
    child.send("a long one\r")
    child.expect("word10 ")
    child.sendintr()
    child.expect(PROMPT)
    cut = plain(child.before)
    assert "tok/s · stopped" in cut
    assert "word299" not in cut
    assert "Traceback" not in cut
    answer = ask(child, "still there?")
    assert "[uau] you said: still there?" in answer
    assert "Traceback" not in answer
    leave(child)


def test_ctrl_c_while_nothing_runs(terminal: Callable[..., Any], some_file: str) -> None:
    child = terminal("chat", some_file)
    child.expect(PROMPT)
    child.send("\x03")
    child.expect("Ctrl-D or /quit leaves")
    child.expect(PROMPT)
    child.send("half a li")
    child.expect("li")
    child.send("\x03")
    child.expect(PROMPT)
    assert "leaves" not in plain(child.before), "a line that was begun is only thrown away"
    assert "you said: hello" in ask(child, "hello")
    leave(child)


@pytest.mark.parametrize("columns", [80, 140, 40])
@pytest.mark.parametrize("kind", ["many", "wide"])
def test_lines_fit(terminal: Callable[..., Any], some_file: str, columns: int, kind: str) -> None:
    """Words are wrapped, wide characters count two; prose does not get wider than 100 columns."""
    child = terminal("chat", some_file, columns=columns)
    child.expect(PROMPT)
    child.send(f"{kind}\r")
    child.expect(ENTERED)
    child.expect(r"tok/s")
    lines = plain(child.before).split("\n")[:-1]
    assert len(lines) > 1
    widths = [wcswidth(line.rstrip()) for line in lines]
    assert max(widths) <= min(columns, 100), lines
    assert max(widths) > min(columns, 100) - 12, "the width is used"
    if kind == "many":
        assert re.findall(r"word\d+", " ".join(lines)) == [f"word{number}" for number in range(300)]


def test_code_is_not_wrapped_by_us(terminal: Callable[..., Any], some_file: str) -> None:
    child = terminal("chat", some_file, columns=60)
    child.expect(PROMPT)
    text = ask(child, "code please")
    assert (
        "print('a line of code that is far longer than eighty columns and must not be wrapped by the chat')"
        in text
    )


def test_a_model_cannot_control_the_terminal(terminal: Callable[..., Any], some_file: str) -> None:
    child = terminal("chat", some_file)
    child.expect(PROMPT)
    child.send("escape\r")
    child.expect("tok/s")
    assert "\x1b[2J" not in child.before
    assert "\x07" not in child.before
    assert "before [2J]0;title after" in plain(child.before)


def test_commands(terminal: Callable[..., Any], some_file: str) -> None:
    child = terminal("chat", some_file, "--system", "Be kind.")
    child.expect(PROMPT)
    help_text = ask(child, "/help")
    for word in (
        "/help",
        "/stats",
        "/reset",
        "/system",
        "/drafters",
        "/format",
        "/quit",
        "Ctrl-C",
        "Ctrl-D",
        "Alt-Enter",
    ):
        assert word in help_text
    assert max(map(len, help_text.splitlines())) <= 80
    assert "no answer yet" in ask(child, "/stats")
    assert "[su] you said: hi" in ask(child, "hi")
    stats = ask(child, "/stats")
    assert "1 answer · 4 tokens" in stats
    assert "drafters      none" in stats
    assert max(map(len, stats.splitlines())) <= 80
    assert "system message: Be kind." in ask(child, "/system")
    assert "no system message" in ask(child, "/system -")
    assert "[uau] you said: again" in ask(child, "again")
    assert "conversation forgotten" in ask(child, "/reset")
    assert "[u] you said: anew" in ask(child, "anew")
    assert "drafters: none" in ask(child, "/drafters")
    assert "did you mean 'ngram-simple'" in ask(child, "/drafters ngram-simpel")
    assert "draft-simple needs a draft model" in ask(child, "/drafters draft-simple")
    assert "drafters: ngram-simple:n=4" in ask(child, "/drafters ngram-simple:n=4")
    assert "ngram-simple 3.1 per round, 87 % accepted" in ask(child, "with drafts")
    assert "did you mean /stats" in ask(child, "/stat")
    child.send("/quit\r")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_each_turn_says_how_the_drafter_did(terminal: Callable[..., Any], some_file: str) -> None:
    """C110, ikawrakow/ik_llama.cpp#2081: speculation in conversation mode, a line after each of three turns."""
    child = terminal("chat", some_file, "--draft", some_file)
    child.expect(PROMPT)
    assert "drafters: draft-simple" in plain(child.before)
    for turn in range(3):
        assert "4 tokens · 41.2 tok/s · draft-simple 3.1 per round, 87 % accepted" in ask(
            child, f"turn {turn}"
        )
    leave(child)


def test_the_history_file_is_private(terminal: Callable[..., Any], some_file: str, tmp_path: Path) -> None:
    file = tmp_path / "state" / "pyspec" / "chat-history"
    child = terminal("chat", some_file, "--no-history")
    child.expect(PROMPT)
    ask(child, "secret")
    leave(child)
    assert not file.exists()
    child = terminal("chat", some_file)
    child.expect(PROMPT)
    ask(child, "remember me")
    leave(child)
    assert "remember me" in file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o077 == 0


def test_generate_streams_to_a_terminal(terminal: Callable[..., Any], some_file: str) -> None:
    child = terminal("generate", some_file, "a long one")
    child.expect("word3 ")
    early = time.monotonic()
    child.expect("word60 ")
    assert time.monotonic() - early > 0.5
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert "stopped: interrupted" in plain(child.before)
    assert "Traceback" not in plain(child.before)
    assert child.exitstatus == 130


def test_the_licence_question(terminal: Callable[..., Any]) -> None:
    """Terms that have to be accepted are asked about on a terminal; no is a clear answer."""
    child = terminal("fetch", "gemma3-270m", fake=False)
    child.expect("Gemma Terms of Use")
    child.expect(r"accept them\? \[y/N\]")
    child.send("n\r")
    child.expect(pexpect.EOF)
    child.close()
    assert "--accept-licence" in plain(child.before)
    assert child.exitstatus == 3
