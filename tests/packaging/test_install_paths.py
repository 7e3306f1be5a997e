"""The slow ways to install: isolated from the clone, offline from the source distribution. Each compiles ggml."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from pathlib import Path

import pytest

from pyspec import __version__

from .conftest import Run
from .test_cmake_messages import OFFLINE
from .test_wheel import clean

pytestmark = pytest.mark.long

IGNORED = shutil.ignore_patterns(
    ".git", ".venv*", "build", "dist", "third_party", "__pycache__", ".*_cache", ".hypothesis"
)


@pytest.fixture(scope="module")
def clone(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources without builds."""
    path = tmp_path_factory.mktemp("clone") / "pyspec"
    shutil.copytree(repository, path, ignore=IGNORED)
    return path


@pytest.fixture(scope="module")
def sdist(clone: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    run([sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", folder, "."], cwd=clone)
    shutil.rmtree(clone / "third_party")
    [path] = folder.glob("*.tar.gz")
    return path


def make_environment(folder: Path, run: Run, *requirements: str) -> Path:
    run([sys.executable, "-m", "venv", folder])
    if requirements:
        run(
            [
                folder / "bin/python",
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                *requirements,
            ]
        )
    return folder / "bin"


def loads(python: Path, run: Run, cwd: Path) -> None:
    code = "import pyspec._native as n; f, l = n.lib(); print(f.string(l.pyspec_version()).decode(), n.native_dir())"
    version, folder = run([python, "-c", code], cwd=cwd, env=clean(cwd)).stdout.split(" ", 1)
    assert version == __version__
    assert Path(folder.strip()).is_relative_to(python.parent.parent)


def test_sdist_content(sdist: Path, headers: list[Path]) -> None:
    """The source distribution holds ggml's tree and licence, and nothing that was built."""
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    for name in (
        "third_party/ggml/LICENSE",
        "third_party/ggml/CMakeLists.txt",
        "third_party/ggml/src/ggml-cpu/ggml-cpu.c",
    ):
        assert name in names
    for name in (
        "LICENSE",
        "README.md",
        "Makefile",
        *(f"csrc/include/{header.name}" for header in headers),
        "models/manifest.toml",
        "tests/conftest.py",
    ):
        assert name in names
    assert "third_party/ggml/src/ggml-vulkan" not in names
    assert not [name for name in names if name.endswith((".so", ".o", ".a", ".pyc", ".gguf"))]
    assert sdist.stat().st_size < 8e6


def test_sdist_installs_offline(sdist: Path, run: Run, tmp_path: Path) -> None:
    """C115 (abetlen/llama-cpp-python#1125): requirements preinstalled, no ggml in the cache, no index within reach."""
    requirements = ["scikit-build-core", "cffi", "pip", "cmake", "ninja"]
    bin_folder = make_environment(tmp_path / "environment", run, *requirements)
    environment = {
        **OFFLINE,
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
    }
    command = [bin_folder / "python", "-m", "pip", "install", "--no-build-isolation", "--no-deps", sdist]
    run(command, env=environment, cwd=tmp_path)
    assert not (tmp_path / "cache/pyspec").exists()
    loads(bin_folder / "python", run, tmp_path)


def test_clone_installs_without_cmake(clone: Path, run: Run, tmp_path: Path) -> None:
    """README's first command on a machine without CMake and Ninja: both come with the isolated build."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for tool in Path(folder).iterdir():
            if (
                not tool.name.startswith(("cmake", "ctest", "cpack", "ninja"))
                and not (tools / tool.name).exists()
            ):
                (tools / tool.name).symlink_to(tool)
    bin_folder = make_environment(tmp_path / "environment", run)
    environment = {"PATH": str(tools)}
    run(["/usr/bin/env", "sh", "-c", "! command -v cmake"], env={"PATH": str(tools)})
    run([bin_folder / "python", "-m", "pip", "install", clone], env=environment, cwd=tmp_path)
    loads(bin_folder / "python", run, tmp_path)
