"""Whole builds of other kinds: portable, and with sanitizers. Each compiles ggml, minutes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from .conftest import Run

pytestmark = pytest.mark.long


def build(
    folder: Path,
    repository: Path,
    ggml_source: Path,
    run: Run,
    *options: str,
    targets: Sequence[str] = ("all",),
) -> Path:
    command = [
        "cmake",
        "-S",
        repository,
        "-B",
        folder,
        "-G",
        "Ninja",
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    run([*command, f"-DPYSPEC_GGML_DIR={ggml_source}", "-DPYSPEC_BUILD_TESTS=ON", *options])
    run(["cmake", "--build", folder, "--target", *targets])
    return folder


@pytest.fixture(scope="module")
def portable(repository: Path, ggml_source: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("portable"), repository, ggml_source, run, "-DPYSPEC_PORTABLE=ON")


@pytest.fixture(scope="module")
def sanitized(
    repository: Path, ggml_source: Path, run: Run, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return build(tmp_path_factory.mktemp("sanitized"), repository, ggml_source, run, "-DPYSPEC_SANITIZE=ON")


VECTOR_INSTRUCTION = re.compile(r"\s*[0-9a-f]+:\s+v(?!err|erw|mcall|mfunc|mlaunch|mmcall|mrun)\w+")
KERNEL = re.compile(r"pyspec::(avx2|avx2_vnni|avx512_vnni)::\(anonymous namespace\)::")


def functions_with_vectors(run: Run, library: Path) -> set[str]:
    """Functions with instructions of AVX and later, which are those encoded with VEX or EVEX: their names start with
    v.
    """
    functions, function = set(), ""
    for line in run(["objdump", "-d", "-C", "--no-show-raw-insn", library]).stdout.splitlines():
        if head := re.fullmatch(r"[0-9a-f]+ <(.*)>:", line):
            function = head.group(1)
        elif VECTOR_INSTRUCTION.match(line):
            functions.add(function)
    return functions


def test_portable_build_has_no_avx(portable: Path, build_dir: Path, run: Run) -> None:
    """C114 (JamePeng/llama-cpp-python#19): no AVX opcode anywhere in the portable library but in the kernels that are
    chosen by asking the processor.
    """
    found = functions_with_vectors(run, portable / "native/libpyspec.so")
    assert {name for name in found if not KERNEL.search(name)} == set()
    assert {KERNEL.search(name).group(1) for name in found} == {"avx2", "avx2_vnni", "avx512_vnni"}  # type: ignore[union-attr]
    record = json.loads((build_dir / "native/build_info.json").read_text())
    if "avx" in record["instruction_sets"]:  # the search finds them where they are
        elsewhere = functions_with_vectors(run, build_dir / "native/libpyspec.so")
        assert {name for name in elsewhere if not KERNEL.search(name)}


def test_portable_build_works(portable: Path, run: Run) -> None:
    programs = sorted((portable / "tests/native").iterdir())
    assert programs
    for program in programs:
        run([program])


def test_native_programs_under_sanitizers(sanitized: Path, run: Run) -> None:
    """Memory errors, leaks and undefined behaviour in the core's own tests."""
    programs = sorted((sanitized / "tests/native").iterdir())
    assert programs
    for program in programs:
        run([program], env={"ASAN_OPTIONS": "detect_leaks=1"})


def test_c_program_under_sanitizers(sanitized: Path, run: Run, tiny: object, tmp_path: Path) -> None:
    """A whole life of model, context and sampler leaks nothing; a failed load neither."""
    from tests.tiny import FAMILIES

    program = sanitized / "tests/capi/generate"
    for family in FAMILIES:
        run(
            [program, tiny.path(family), "16", *map(str, range(3, 40))],
            env={"ASAN_OPTIONS": "detect_leaks=1"},
        )  # type: ignore[attr-defined]
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + b"\xff" * 64)
    result = run([program, tmp_path / "bad.gguf", "1", "1"], ok=False)
    assert result.returncode == 1
    assert "Sanitizer" not in result.stdout


def test_python_tests_under_sanitizers(sanitized: Path, repository: Path, run: Run) -> None:
    """Damaged files and the binding, from Python, with the sanitized library. Leaks are Python's business here."""

    def library(name: str) -> str:
        return run(["g++", f"-print-file-name={name}"]).stdout.strip()

    environment = {
        # The runtime looks for the C++ library's throw when it starts, and Python itself does not load that library.
        "LD_PRELOAD": f"{library('libasan.so')} {library('libstdc++.so.6')}",
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "PYSPEC_NATIVE_DIR": str(sanitized / "native"),
        "PYSPEC_BUILD_DIR": str(sanitized),
    }
    files = ["tests/files", "tests/packaging/test_binding.py"]
    arguments = ["-q", "-p", "no:cacheprovider", "-m", "not long and not real"]
    result = run([sys.executable, "-m", "pytest", *arguments, *files], env=environment, cwd=repository)
    assert " passed" in result.stdout
    assert "runtime error" not in result.stdout
