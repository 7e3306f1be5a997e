"""What the build says when something is missing, and what it does with ggml's archive. Compiles nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from .conftest import Run

Configure = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def configure(run: Run, repository: Path, ggml_source: Path, tmp_path: Path) -> Configure:
    """Configure pyspec into a new folder: `configure(*arguments, ggml=True, ok=True, env={})`."""

    def call(
        *arguments: str, ggml: bool = True, ok: bool = True, env: dict[str, str] | None = None
    ) -> CompletedProcess[str]:
        tree = [f"-DPYSPEC_GGML_DIR={ggml_source}"] if ggml else []
        command = [
            "cmake",
            "-S",
            repository,
            "-B",
            tmp_path / "build",
            "-G",
            "Ninja",
            f"-DPython_EXECUTABLE={sys.executable}",
        ]
        return run([*command, *tree, *arguments], ok=ok, env=env)

    return call


def pyspec_lines(result: CompletedProcess[str], word: str) -> str:
    """The message that holds `word`, on one line as CMake's own line breaks are not ours."""
    text = " ".join(result.stdout.split())
    assert word in text, result.stdout
    return text


def test_missing_compiler_is_one_line(configure: Configure) -> None:
    """C115 (abetlen/llama-cpp-python#1947): no wall of compiler text; the missing tool is named."""
    nowhere = "/usr/bin;/bin;/usr/local/bin;/usr/sbin;/sbin;/usr/local/sbin;" + os.environ["PATH"].replace(
        ":", ";"
    )
    ninja = shutil.which("ninja") or str(Path(sys.executable).parent / "ninja")
    result = configure(f"-DCMAKE_IGNORE_PATH={nowhere}", f"-DCMAKE_MAKE_PROGRAM={ninja}", ok=False)
    assert result.returncode != 0
    text = pyspec_lines(result, "pyspec needs a C and a C++20 compiler")
    assert "none of these was found: c++, g++, clang++" in text
    assert result.stdout.count("CMake Error") == 1


def test_named_compiler_that_is_missing(configure: Configure) -> None:
    """C115: the same for a compiler named in the environment."""
    result = configure(ok=False, env={"CXX": "no-such-compiler -m64"})
    assert result.returncode != 0
    assert "none of these was found: no-such-compiler." in pyspec_lines(result, "C++20 compiler")


def test_old_compiler_is_one_line(configure: Configure, tmp_path: Path) -> None:
    """C115: a compiler that claims to be GCC 9."""
    real = shutil.which("g++")
    if real is None:
        pytest.skip("needs GCC")
    old = tmp_path / "old-g++"
    macros = "-U__GNUC__ -D__GNUC__=9 -U__GNUC_MINOR__ -D__GNUC_MINOR__=4"
    old.write_text(f'#!/bin/sh\nexec {real} {macros} "$@"\n')
    old.chmod(0o755)
    result = configure(f"-DCMAKE_CXX_COMPILER={old}", ok=False)
    assert result.returncode != 0
    text = pyspec_lines(result, "GCC 11 or newer")
    assert "is GNU 9.4" in text


def test_missing_cuda_toolkit(configure: Configure) -> None:
    result = configure("-DPYSPEC_CUDA=ON", ok=False, env={"CUDACXX": "/nowhere/nvcc"})
    assert result.returncode != 0
    text = pyspec_lines(result, "PYSPEC_CUDA=ON needs the CUDA toolkit")
    assert "CUDACXX" in text
    assert "without -DPYSPEC_CUDA=ON" in text


def test_cuda_toolkit_is_found_or_missed(configure: Configure, tmp_path: Path) -> None:
    """With a toolkit the option reaches ggml and the build record; without one there is the message."""
    result = configure("-DPYSPEC_CUDA=ON", "-DCMAKE_CUDA_ARCHITECTURES=80", ok=False)
    if result.returncode == 0:
        record = json.loads((tmp_path / "build/native/build_info.json").read_text())
        assert record["backends"] == ["cpu", "cuda"]
        assert "ggml-cuda" in (tmp_path / "build/build.ninja").read_text()
    else:
        assert "PYSPEC_CUDA=ON" in result.stdout
        assert result.stdout.count("CMake Error") == 1


def test_portable_record(configure: Configure, tmp_path: Path) -> None:
    """The portable build asks for nothing above x86-64-v2, in our flags, in ggml's and in the record; but for the kernels
    that are chosen by asking the processor.
    """
    configure("-DPYSPEC_PORTABLE=ON")
    record = json.loads((tmp_path / "build/native/build_info.json").read_text())
    assert record["portable"] is True
    assert set(record["instruction_sets"]) == {"pni", "ssse3", "sse4_1", "sse4_2", "popcnt"}
    commands = json.loads((tmp_path / "build/compile_commands.json").read_text())
    for entry in commands:
        assert "-march=native" not in entry["command"]
        if kernel := re.search(
            r"/(?:panel_tile|float_tile|vector_routines|roofline)_(avx\w+)\.cpp$", entry["file"]
        ):
            level = "-march=x86-64-v4" if kernel.group(1).startswith("avx512") else "-march=x86-64-v3"
            assert level in entry["command"]
            continue
        assert "-mavx" not in entry["command"]
        if "/csrc/" in entry["file"]:
            assert "-march=x86-64-v2" in entry["command"]


def test_default_flags(configure: Configure, tmp_path: Path) -> None:
    """Contraction is off in our code, and ggml is built without what makes results depend on the number of rows."""
    configure()
    commands = {
        entry["file"]: entry["command"]
        for entry in json.loads((tmp_path / "build/compile_commands.json").read_text())
    }
    ours = [command for file, command in commands.items() if "/csrc/" in file]
    assert ours
    for command in ours:
        assert "-ffp-contract=off" in command
        assert "-fopenmp" not in command
        assert "-O3" in command
    assert not any("llamafile" in file for file in commands)
    for command in commands.values():
        assert "GGML_USE_CPU_REPACK" not in command
        assert "GGML_USE_LLAMAFILE" not in command
        assert "GGML_USE_OPENMP" not in command


def test_unknown_sanitizer(configure: Configure) -> None:
    result = configure("-DPYSPEC_SANITIZE=memory", ok=False)
    assert result.returncode != 0
    text = pyspec_lines(result, "PYSPEC_SANITIZE")
    assert (
        "PYSPEC_SANITIZE is 'memory', expected OFF, ON (address and undefined behaviour) or thread." in text
    )


def test_wrong_ggml_folder(configure: Configure, tmp_path: Path) -> None:
    result = configure(f"-DPYSPEC_GGML_DIR={tmp_path}", ggml=False, ok=False)
    assert result.returncode != 0
    assert "is not a ggml source tree" in pyspec_lines(result, "ggml source tree")


#: An index that cannot be reached, and no other place to find packages.
OFFLINE = {
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_NO_INDEX": "1",
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_RETRIES": "0",
}


def test_offline_without_archive(configure: Configure, repository: Path, tmp_path: Path) -> None:
    """C115: offline with an empty cache: one message with both ways out."""
    if (repository / "third_party/ggml").exists():
        pytest.skip("this is a source distribution, which contains ggml")
    result = configure(ggml=False, ok=False, env={**OFFLINE, "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert result.returncode != 0
    text = pyspec_lines(result, "could not fetch ggml")
    assert "PYSPEC_GGML_DIR" in text
    assert "source distribution" in text


def test_second_build_fetches_nothing(configure: Configure, repository: Path, tmp_path: Path) -> None:
    """The archive is fetched once; a later build works offline. A damaged or foreign archive is never unpacked."""
    if (repository / "third_party/ggml").exists():
        pytest.skip("this is a source distribution, which contains ggml")
    cache = tmp_path / "cache"
    build = tmp_path / "build"
    environment = {"XDG_CACHE_HOME": str(cache)}
    assert "fetching ggml_python" in configure(ggml=False, env=environment).stdout
    [archive] = (cache / "pyspec/sources").iterdir()

    shutil.rmtree(build)
    second = configure(ggml=False, env={**environment, **OFFLINE})
    assert "fetching" not in second.stdout
    assert "ggml 0.15.3" in second.stdout

    shutil.rmtree(build)
    archive.write_bytes(archive.read_bytes()[:-1] + b"x")
    third = configure(ggml=False, ok=False, env={**environment, **OFFLINE})
    assert third.returncode != 0
    assert "is damaged" in third.stdout
    assert not (build / "ggml-source").exists()
