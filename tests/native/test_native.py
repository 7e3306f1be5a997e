"""Runs the C++ test programs of this folder, one test each."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("PYSPEC_BUILD_DIR", HERE.parents[1] / "build" / "dev"))
SOURCES = sorted(HERE.glob("*.cpp"))


@pytest.mark.parametrize("name", [source.stem for source in SOURCES])
def test_native(name: str, count_cases: Callable[[int], None]) -> None:
    program = BUILD / "tests" / "native" / name
    if not program.is_file():
        pytest.fail(f"{program} is not built: run `make build`, or set PYSPEC_BUILD_DIR")
    result = subprocess.run([str(program)], capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    if counted := re.search(r"(\d+) checks", result.stdout):
        count_cases(int(counted[1]))


def test_there_are_native_tests() -> None:
    assert SOURCES
