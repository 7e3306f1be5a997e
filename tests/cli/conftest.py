"""The command line as a child process, on the stand-in model or the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FAKE = str(Path(__file__).with_name("fake_llm.py"))
PROGRAM = "import sys, pyspec.cli; sys.exit(pyspec.cli.main())"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Own cache and history; a plain, wide character, terminal without colours."""
    import pyspec

    variables = dict(os.environ)
    variables.update(
        PYTHONPATH=str(Path(pyspec.__file__).parents[1]),  # the child runs the package that is tested here
        XDG_CACHE_HOME=str(tmp_path / "cache"),
        XDG_STATE_HOME=str(tmp_path / "state"),
        NO_COLOR="1",
        TERM="xterm",
        LC_ALL="C.UTF-8",
        PROMPT_TOOLKIT_NO_CPR="1",  # no terminal answers the question where the cursor is
        PIP_NO_INDEX="1",
    )
    for name in ("COLUMNS", "LINES", "PYTEST_CURRENT_TEST"):
        variables.pop(name, None)
    return variables


@pytest.fixture
def some_file(tmp_path: Path) -> str:
    """A path that exists; the stand-in does not read it."""
    path = tmp_path / "some.gguf"
    path.write_bytes(b"GGUF")
    return str(path)


@pytest.fixture
def run(environment: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """run(*arguments, stdin="", fake=True) without a terminal."""

    def call(
        *arguments: str, stdin: str = "", fake: bool = True, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        start = [sys.executable, FAKE] if fake else [sys.executable, "-c", PROGRAM]
        return subprocess.run(
            [*start, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={**environment, **variables},
            timeout=120,
            check=False,
        )

    return call


@pytest.fixture
def terminal(environment: dict[str, str]) -> Iterator[Callable[..., Any]]:
    """terminal(*arguments, columns=80, fake=True) in a pseudo-terminal: a pexpect.spawn."""
    import pexpect

    children = []

    def start(*arguments: str, columns: int = 80, fake: bool = True, **variables: str) -> Any:
        words = [FAKE, *arguments] if fake else ["-c", PROGRAM, *arguments]
        child = pexpect.spawn(
            sys.executable,
            words,
            env={**environment, **variables},
            dimensions=(40, columns),
            encoding="utf-8",
            timeout=60,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.close(force=True)
