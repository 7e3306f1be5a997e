"""The check that runs before the library is loaded."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from pyspec import errors
from pyspec._native.cpu import cpu_flags, refuse_foreign_cpu

from .conftest import Run


def write_cpuinfo(path: Path, flags: str) -> Path:
    path.write_text(f"processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: {flags}\nbugs\t\t:\n\n" * 2)
    return path


def test_missing_sets_are_named(tmp_path: Path) -> None:
    """C114 (JamePeng/llama-cpp-python#19): a build for a newer CPU is refused in one sentence."""
    cpuinfo = write_cpuinfo(tmp_path / "cpuinfo", "fpu sse sse2 pni ssse3 sse4_1 sse4_2 popcnt avx")
    with pytest.raises(errors.UnsupportedError) as caught:
        refuse_foreign_cpu(["sse4_2", "avx", "avx2", "fma", "avx512f"], cpuinfo)
    message = str(caught.value)
    assert "avx2, fma, avx512f" in message
    assert "PYSPEC_PORTABLE" in message
    assert "\n" not in message
    assert "avx," not in message.replace("avx2, fma", "")


def test_enough_is_enough(tmp_path: Path) -> None:
    refuse_foreign_cpu(["avx"], write_cpuinfo(tmp_path / "cpuinfo", "sse4_2 avx"))
    refuse_foreign_cpu([], write_cpuinfo(tmp_path / "cpuinfo", "sse2"))


def test_prefix_is_not_enough(tmp_path: Path) -> None:
    """avx512f in the list does not make avx present, and avx does not make avx2 present."""
    cpuinfo = write_cpuinfo(tmp_path / "cpuinfo", "avx512f avx2x")
    for name in ("avx", "avx2", "avx512"):
        with pytest.raises(errors.UnsupportedError):
            refuse_foreign_cpu([name], cpuinfo)


def test_unknown_cpu_is_let_through(tmp_path: Path) -> None:
    assert cpu_flags(tmp_path / "none") is None
    refuse_foreign_cpu(["avx2"], tmp_path / "none")


def test_refusal_comes_before_loading(build_dir: Path, run: Run, tmp_path: Path) -> None:
    """C114: with a CPU that lacks a set, the library is never opened: here it is not even a library."""
    native = tmp_path / "native"
    native.mkdir()
    shutil.copy(build_dir / "native" / "_binding.py", native)
    (native / "libpyspec.so").write_bytes(b"not a library")
    (native / "build_info.json").write_text(json.dumps({"instruction_sets": ["sse4_2", "avx2"]}))
    write_cpuinfo(tmp_path / "cpuinfo", "sse2 sse4_2")
    code = f"""
import pathlib
import pyspec._native as native, pyspec._native.cpu as cpu
cpu.CPUINFO = pathlib.Path({str(tmp_path / "cpuinfo")!r})
try:
    native.lib()
except native.UnsupportedError as error:
    print(error)
cpu.CPUINFO = pathlib.Path("/none")
try:
    native.lib()
except native.UnsupportedError as error:
    print(error)
"""
    lines = run([sys.executable, "-c", code], env={"PYSPEC_NATIVE_DIR": str(native)}).stdout.splitlines()
    assert len(lines) == 2
    assert "CPU with avx2" in lines[0]
    assert "cannot be loaded" in lines[1]


def test_record_matches_this_build(build_dir: Path) -> None:
    """The record beside the library is the one inside it, and this machine satisfies it."""
    from pyspec._native import lib

    ffi, library = lib()
    inside = json.loads(ffi.string(library.pyspec_build_info()))
    beside = json.loads((build_dir / "native" / "build_info.json").read_text())
    assert inside == beside
    assert set(inside) >= {
        "version",
        "ggml",
        "compiler",
        "instruction_sets",
        "backends",
        "portable",
        "build_type",
    }
    assert ffi.string(library.pyspec_version()).decode() == inside["version"]
    refuse_foreign_cpu(inside["instruction_sets"])
    assert "sse4_2" in inside["instruction_sets"]


def test_missing_library_says_what_to_do(run: Run, tmp_path: Path) -> None:
    code = "import pyspec._native as n\ntry: n.lib()\nexcept n.UnsupportedError as e: print(e)"
    text = run([sys.executable, "-c", code], env={"PYSPEC_NATIVE_DIR": str(tmp_path)}).stdout
    assert "pip install ." in text
    assert "pip install pyspec" not in text
