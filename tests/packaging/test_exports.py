"""What leaves the library."""

from __future__ import annotations

import re
from pathlib import Path

from .conftest import Run


def exported(run: Run, library: Path) -> set[str]:
    return {line.split()[-1] for line in run(["nm", "-D", "--defined-only", library]).stdout.splitlines()}


def test_only_the_interface_is_exported(build_dir: Path, interface: str, run: Run) -> None:
    """No ggml symbol, no C++ template: another ggml of another version may live in the same process."""
    symbols = exported(run, build_dir / "native" / "libpyspec.so")
    declared = set(
        re.findall(r"\b(pyspec_\w+)\s*\(", re.sub(r"/\*.*?\*/|//[^\n]*", " ", interface, flags=re.DOTALL))
    )
    assert symbols == declared


def test_libraries_needed_are_the_system_s(build_dir: Path, run: Run) -> None:
    needed = re.findall(
        r"NEEDED.*\[(.*?)\]", run(["readelf", "-d", build_dir / "native" / "libpyspec.so"]).stdout
    )
    system = {"libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libc.so.6", "libpthread.so.0", "libdl.so.2"}
    assert needed
    assert set(needed) <= system | {"ld-linux-x86-64.so.2"}
