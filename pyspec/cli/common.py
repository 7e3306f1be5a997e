"""What the verbs share: the runtime they are built on, exit codes, errors in one line, files and models that they are given."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspec.fetch import ManifestEntry

PROGRAM = "pyspec-cli"

FAILED = 1
USAGE = 2
MODEL = 3
INTERRUPTED = 130
BROKEN_PIPE = 141


def _open_llm(path: Path, **options: Any) -> Any:
    from pyspec.llm.llm import LLM

    return LLM(path, **options)


@dataclass
class Runtime:
    """What the verbs are built on; tests and other front ends pass their own.

    llm_factory(path, draft=…, drafters=…, …) makes the object with `stream` and `chat` (default: pyspec.LLM).
    """

    llm_factory: Callable[..., Any] = _open_llm
    debug: bool = False


def report(message: str, kind: str = "error") -> None:
    """One line on stderr, also for a message that was a list."""
    with suppress(OSError):
        print(f"{PROGRAM}: {kind}: {one_line(message)}", file=sys.stderr, flush=True)


def one_line(message: str) -> str:
    """The lines of a message, list marks dropped, as one: `these rules fail: size …; text …`."""
    joined = ""
    for line in message.splitlines():
        piece = line.strip().removeprefix("- ")
        if piece:
            joined += ("" if not joined else " " if joined[-1] in ":.;," else "; ") + piece
    return joined


def note(message: str) -> None:
    """Something on stderr that is no error; words are wrapped for a terminal."""
    if sys.stderr.isatty():
        import shutil
        import textwrap

        message = textwrap.fill(message, shutil.get_terminal_size().columns, break_on_hyphens=False)
    with suppress(OSError):
        print(message, file=sys.stderr, flush=True)


def show_log(runtime: Runtime) -> None:
    """Warnings of the library as lines on stderr; with --debug everything it says."""
    import logging

    class LevelFirst(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return f"{PROGRAM}: {record.levelname.lower()}: {record.getMessage()}"

    logger = logging.getLogger("pyspec")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(LevelFirst())
        logger.addHandler(handler)
        logger.propagate = False
    logger.setLevel(logging.DEBUG if runtime.debug else logging.WARNING)


def end_with(error: BaseException, runtime: Runtime) -> int:
    """Say what went wrong and return the exit code for it."""
    if runtime.debug:
        import traceback

        traceback.print_exception(type(error), error, error.__traceback__)
    if isinstance(error, BrokenPipeError):
        with suppress(OSError):  # the interpreter would complain about unwritten output while it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":  # click's name for Ctrl-C
        report("interrupted", kind="stopped")
        return INTERRUPTED
    code, message = _explain(error)
    report(message)
    return code


def _explain(error: BaseException) -> tuple[int, str]:
    from pyspec import errors

    text = str(error).strip() or type(error).__name__
    if isinstance(error, errors.CancelledError):
        return INTERRUPTED, text
    if isinstance(error, errors.OptionError):
        return USAGE, text
    model_errors = (
        errors.FileFormatError,
        errors.UnsupportedError,
        errors.PairMismatchError,
        errors.TemplateError,
    )
    if isinstance(error, model_errors) or _is_fetch_error(error):
        return MODEL, text
    if isinstance(error, errors.PyspecError):
        return FAILED, text
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return FAILED, f"{name}{error.strerror or text}"
    if isinstance(error, ImportError):
        return FAILED, f"{text} (is the installation complete?)"
    if isinstance(error, MemoryError):
        return FAILED, "out of memory"
    hint = "this is a defect of pyspec; please report it with the output of --debug"
    return FAILED, f"{type(error).__name__}: {' '.join(text.split())} ({hint})"


def _is_fetch_error(error: BaseException) -> bool:
    from pyspec.fetch.errors import FetchError

    return isinstance(error, FetchError)


def existing_files(names: Sequence[str], what: str) -> list[Path]:
    """The paths of files that are to be read later; OptionError, before any work, for one that is none."""
    from pyspec.errors import OptionError

    paths = [Path(name).expanduser() for name in names]
    for path in paths:
        if not path.exists():
            raise OptionError(f"no such file: {path} (expected a {what})")
        if path.is_dir():
            raise OptionError(f"{path} is a folder (expected a {what})")
    return paths


def find_model(text: str, *, offline: bool, accept_licence: bool) -> Path:
    """The file of a path or manifest name; fetches it when needed, with progress and licence on stderr."""
    from pyspec.cli.fetch_progress import FetchDisplay
    from pyspec.fetch import resolve_model

    def accepted(entry: ManifestEntry) -> bool:
        return accept_licence or ask_licence(entry)

    with FetchDisplay() as display:
        return resolve_model(
            text, offline=offline, accept_licence=accepted, progress=display.update, announce=announce
        )


def announce(entry: ManifestEntry) -> None:
    """Size and licence of a model that is about to be downloaded."""
    from pyspec.fetch.cache import format_bytes

    note(
        f"fetching {entry.title}: {format_bytes(entry.download_bytes)}, licence {entry.licence} ({entry.licence_note})"
    )


def ask_licence(entry: ManifestEntry) -> bool:
    """Ask on the terminal whether the terms are accepted; False when nobody can answer."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    note(f"{entry.title} comes under the {entry.licence} ({entry.licence_note}).")
    print("Do you accept them? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def short_name(text: str) -> str:
    """A manifest name as it is, a path without its directories and ending."""
    return Path(text).stem if text.lower().endswith(".gguf") else text
