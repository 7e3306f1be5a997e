"""Where the user's messages come from: a line editor in a terminal, plain lines otherwise."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

#: Commands of the chat, for completion and /help: name, arguments, what it does.
COMMANDS: Sequence[tuple[str, str, str]] = (
    ("/help", "", "this list"),
    ("/stats", "[session]", "numbers of the last answer, or of all together"),
    ("/system", "[TEXT]", "set the system message (- removes it) or show it"),
    ("/drafters", "[LIST]", "set the drafters (LIST may be default) or show them"),
    ("/format", "[FILE|json|off]", "answer in JSON (after a schema), or freely; or show it"),
    ("/reset", "", "forget the conversation, keep the system message"),
    ("/quit", "", "leave (also Ctrl-D)"),
)


class Reader(Protocol):
    """Gives one message at a time."""

    def read(self) -> str | None:
        """The next message; None at the end of the input. KeyboardInterrupt: Ctrl-C on an empty line."""
        ...


def make_reader(*, keep_history: bool) -> Reader:
    """The line editor when a person sits at both ends, else a reader of plain lines."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        return TerminalReader(history_file() if keep_history else None)
    return LineReader()


class LineReader:
    """Messages from a pipe or file, one a line; empty lines are skipped."""

    def read(self) -> str | None:
        for line in sys.stdin:
            if line.strip():
                return line.strip()
        return None


class TerminalReader:
    """A line editor with history, completion of commands, and Alt-Enter for a line break."""

    def __init__(self, history: Path | None) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.formatted_text import ANSI
        from prompt_toolkit.history import FileHistory, InMemoryHistory

        mark = "› " if _can_encode("›") else "> "
        self._session: Any = PromptSession(
            ANSI(f"\x1b[1;36m{mark}\x1b[0m"),
            history=FileHistory(str(history)) if history is not None else InMemoryHistory(),
            completer=_command_completer(),
            complete_while_typing=False,
            key_bindings=_line_break_binding(),
            prompt_continuation=lambda width, number, wrapped: " " * width,
        )

    def read(self) -> str | None:
        while True:
            try:
                return str(self._session.prompt()).strip()
            except EOFError:
                return None
            except KeyboardInterrupt:
                if not self._session.default_buffer.text:
                    raise
                # Ctrl-C on a line that was begun throws the line away, as in a shell.


def history_file() -> Path | None:
    """The private file of typed messages, made when missing; None where it cannot be."""
    base = os.environ.get("XDG_STATE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state"
    path = root / "pyspec" / "chat-history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    except OSError:
        return None
    return path


def _can_encode(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _command_completer() -> Any:
    from prompt_toolkit.completion import Completer, Completion

    class Commands(Completer):
        def get_completions(self, document: Any, event: Any) -> Any:
            text = document.text_before_cursor
            if text.startswith("/") and " " not in text:
                for name, arguments, meaning in COMMANDS:
                    if name.startswith(text):
                        yield Completion(
                            name, -len(text), display=f"{name} {arguments}", display_meta=meaning
                        )

    return Commands()


def _line_break_binding() -> Any:
    from prompt_toolkit.key_binding import KeyBindings

    bindings = KeyBindings()

    @bindings.add("escape", "enter")
    def _(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    return bindings
