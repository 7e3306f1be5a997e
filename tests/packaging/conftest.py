"""Where the build is, and running tools on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def headers(repository: Path) -> list[Path]:
    """pyspec.h and its parts."""
    return sorted((repository / "csrc/include").glob("*.h"))


@pytest.fixture(scope="session")
def interface(headers: list[Path]) -> str:
    """The text of all headers."""
    return "".join(header.read_text() for header in headers)


@pytest.fixture(scope="session")
def build_dir() -> Path:
    """The CMake build of `make build`, test programs included. $PYSPEC_BUILD_DIR names another one."""
    path = Path(os.environ.get("PYSPEC_BUILD_DIR", REPOSITORY / "build" / "dev"))
    if not (path / "native" / "libpyspec.so").is_file():
        pytest.fail(f"there is no build in {path}: run `make build`, or set PYSPEC_BUILD_DIR")
    return path


@pytest.fixture(scope="session")
def ggml_source(build_dir: Path) -> Path:
    """The ggml tree that the build used."""
    for line in (build_dir / "CMakeCache.txt").read_text().splitlines():
        name, _, value = line.partition("=")
        if name.startswith(("GGML_SOURCE_DIR:", "ggml_SOURCE_DIR:")):
            return Path(value)
    raise AssertionError("ggml's source folder is not in CMakeCache.txt")


@pytest.fixture(scope="session")
def run() -> Run:
    """Run a program with its output captured as text; fails the test when it fails, unless `ok` says otherwise."""

    def call(
        arguments: Sequence[str | Path],
        *,
        ok: bool = True,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 1800,
    ) -> subprocess.CompletedProcess[str]:
        # cmake and ninja of the environment that runs the tests come first
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        # A build tried without installing it (PYSPEC_NATIVE_DIR) comes with the sources of this folder.
        sources = {"PYTHONPATH": str(REPOSITORY)} if os.environ.get("PYSPEC_NATIVE_DIR") else {}
        result = subprocess.run(
            [str(argument) for argument in arguments],
            env={**os.environ, "PATH": path, **sources, **(env or {})},
            cwd=cwd,
            timeout=timeout,
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if ok:
            assert result.returncode == 0, f"{arguments} gave {result.returncode}:\n{result.stdout[-6000:]}"
        return result

    return call
