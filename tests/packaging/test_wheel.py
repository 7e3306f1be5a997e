"""The wheel: what is in it, and that it works in a fresh virtual environment."""

from __future__ import annotations

import json
import os
import re
import sys
import zipfile
from collections.abc import Callable
from email.parser import Parser
from pathlib import Path

import pytest

from .conftest import Run


@pytest.fixture(scope="module")
def wheel(build_dir: Path, repository: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel made from what `make build` has already compiled."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--disable-pip-version-check",
    ]
    run([*pip, "-C", f"build-dir={build_dir}", "-w", folder, repository])
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a fresh virtual environment with the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("environment")
    run([sys.executable, "-m", "venv", folder])
    run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel])
    return folder / "bin"


def clean(tmp_path: Path) -> dict[str, str]:
    """Environment variables that keep the source tree and its build out of the way."""
    return {"PYSPEC_NATIVE_DIR": "", "PYTHONPATH": "", "HOME": os.environ.get("HOME", str(tmp_path))}


def test_content(wheel: Path, headers: list[Path]) -> None:
    """One wheel for every Python 3, with the library, the headers, the manifest and both licences."""
    assert re.fullmatch(r"pyspec-[\d.]+-py3-none-linux_x86_64\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
        licences = [n for n in names if "/licenses/" in n]
        texts = [archive.read(n).decode() for n in licences]
        record = json.loads(archive.read("pyspec/_native/build_info.json"))
    for name in ("libpyspec.so", "_binding.py", "build_info.json", "__init__.py"):
        assert f"pyspec/_native/{name}" in names
    assert {f"pyspec/_native/include/{header.name}" for header in headers} == {
        name for name in names if name.startswith("pyspec/_native/include/")
    }
    assert "pyspec/models/manifest.toml" in names
    assert "pyspec/py.typed" in names
    assert len(licences) == 2, licences
    assert any("ggml authors" in text for text in texts)
    assert any("pyspec authors" in text for text in texts)

    roots = {name.split("/")[0] for name in names}
    assert roots == {"pyspec", f"pyspec-{record['version']}.dist-info"}
    assert not [
        n
        for n in names
        if n.endswith((".a", ".cmake", ".pc", ".cpp")) or ("ggml" in n and "licenses" not in n)
    ]

    fields = Parser().parsestr(metadata)
    assert fields["Version"] == record["version"]
    assert fields["Requires-Python"] == ">=3.10"


def test_symbol_versions(wheel: Path, run: Run) -> None:
    """C116 (abetlen/llama-cpp-python#1688): the symbol versions fit a manylinux tag, no newer than this machine."""
    output = " ".join(run([sys.executable, "-m", "auditwheel", "show", wheel]).stdout.split())
    tag = re.search(r'consistent with the following platform tag: "manylinux_2_(\d+)_x86_64"', output)
    assert tag, output
    here = os.confstr("CS_GNU_LIBC_VERSION")
    assert here is not None
    assert int(tag[1]) <= max(35, int(here.split(".")[1]))


def test_library_in_fresh_environment(installed: Path, run: Run, tmp_path: Path) -> None:
    code = """
import pyspec, pyspec._native as native
ffi, lib = native.lib()
print(pyspec.__version__, ffi.string(lib.pyspec_version()).decode(), native.native_dir())
print((native.include_dir() / "pyspec.h").is_file())
from pyspec.fetch import load_manifest
print("smollm2" in load_manifest())
"""
    lines = run([installed / "python", "-c", code], cwd=tmp_path, env=clean(tmp_path)).stdout.splitlines()
    version, library_version, folder = lines[0].split(" ", 2)
    assert version == library_version
    assert Path(folder).is_relative_to(installed.parent)
    assert lines[1:] == ["True", "True"]


def test_c_program_links_with_the_installed_library(
    installed: Path, run: Run, repository: Path, tmp_path: Path
) -> None:
    """A C program outside the source tree: header and library from the package."""
    code = "import pyspec._native as n; print(n.native_dir()); print(n.include_dir())"
    native, include = run(
        [installed / "python", "-c", code], cwd=tmp_path, env=clean(tmp_path)
    ).stdout.split()
    program = tmp_path / "version"
    source = tmp_path / "version.c"
    source.write_text(
        "#include <pyspec.h>\n#include <stdio.h>\nint main(void) { puts(pyspec_version()); return 0; }\n"
    )
    run(
        [
            "cc",
            "-std=c11",
            "-I",
            include,
            source,
            "-o",
            program,
            "-L",
            native,
            "-lpyspec",
            f"-Wl,-rpath,{native}",
        ]
    )
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", run([program]).stdout)


def test_terminal_program_in_fresh_environment(
    installed: Path, run: Run, tmp_path: Path, real_model: Callable[[str], Path]
) -> None:
    """`pyspec-cli generate` answers with SmolLM2, from the wheel alone."""
    command = [
        installed / "pyspec-cli",
        "generate",
        real_model("smollm2"),
        "Say hello.",
        "--max-tokens",
        "8",
        "--temperature",
        "0",
    ]
    assert run(command, cwd=tmp_path, env=clean(tmp_path)).stdout.strip()
