"""README and the other documents: what they show works, and they promise nothing that is not ours to promise."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import REPOSITORY, Run

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
CLI = [sys.executable, "-c", "import sys; from pyspec.cli import main; sys.exit(main())"]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def cli_commands() -> list[str]:
    """Every pyspec-cli command line of the README, on one line each."""
    found = []
    for text in blocks("sh"):
        for line in text.replace("\\\n", " ").splitlines():
            found += [
                part.strip() for part in line.split("&&") if "pyspec-cli" in part and not line.startswith("#")
            ]
    return found


def table(first_heading: str) -> list[list[str]]:
    """Rows of the README table whose first column is called so, cells stripped of backticks and spaces."""
    found = re.search(rf"^\| {first_heading} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", README, flags=re.MULTILINE)
    assert found, f"no table of {first_heading} in the README"
    return [[cell.strip(" `") for cell in row.strip("|").split("|")] for row in found[1].splitlines()]


def test_architectures_are_the_registry_s() -> None:
    registry = (REPOSITORY / "csrc/families/registry.cpp").read_text(encoding="utf-8")
    registered = re.findall(r'\{"(\w+)", make_\w+\}', registry)
    assert registered
    assert [row[0] for row in table("architecture")] == registered


def test_drafters_are_the_registry_s() -> None:
    from pyspec.drafters.registry import drafter_kind, drafter_names

    rows = table("drafter")
    assert [row[0] for row in rows] == drafter_names()
    for name, _, options in rows[1:]:
        defaults = [option.text(option.default) for option in drafter_kind(name).options]
        assert options == ",".join(defaults)


def test_models_are_the_manifest_s() -> None:
    from pyspec.fetch import load_manifest

    entries = load_manifest().values()
    assert table("name") == [
        [entry.name, entry.title, f"{entry.download_bytes / 1e6:.0f} MB", entry.licence] for entry in entries
    ]
    size = f"{load_manifest()['smollm2'].download_bytes / 1e6:.0f} MB"
    assert f"it is fetched once, {size}" in README


def test_two_commands_come_first() -> None:
    """The first two commands: install and answer; install what tests need and test."""
    first, second = blocks("sh")[:2]
    assert first.strip().startswith(
        "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/pyspec-cli generate smollm2 "
    )
    assert len(first.strip().splitlines()) == 1
    assert second.strip() == "make test"
    assert "make --no-print-directory test" in (REPOSITORY / ".ci/run").read_text()


@pytest.mark.parametrize("code", blocks("python"))
def test_python_blocks_run(code: str, run: Run, real_model: Callable[[str], Path], tmp_path: Path) -> None:
    """With SmolLM2 in the place of every model file."""
    for name in set(re.findall(r'"([\w.-]+\.gguf)"', code)):
        (tmp_path / name).symlink_to(real_model("smollm2"))
    assert run([sys.executable, "-c", code], cwd=tmp_path, timeout=300).stdout.strip()


@pytest.mark.parametrize("command", cli_commands())
def test_cli_options_exist(command: str, run: Run) -> None:
    """Every option shown is known to the program, which parses them all before --help is obeyed."""
    words = shlex.split(command)
    assert Path(words[0]).name == "pyspec-cli"
    result = run([*CLI, *words[1:], "--help"])
    assert "Usage" in result.stdout


def test_cli_options_test_can_fail(run: Run) -> None:
    assert run([*CLI, "generate", "--no-such-option", "--help"], ok=False).returncode == 2


@pytest.mark.parametrize("name", DOCUMENTS)
def test_nobody_is_sent_to_the_index(name: str) -> None:
    """The name on the public index belongs to another project."""
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    assert not re.search(r"pip3? install (-\S+ )*['\"]?pyspec", text)


def test_no_source_sends_people_to_the_index() -> None:
    pattern = re.compile("pip3? install " + r"(-\S+ )*['\"]?pyspec\b")
    bad = []
    for folder in ("pyspec", "csrc", "cmake", "tools", "models"):
        for path in (REPOSITORY / folder).rglob("*"):
            if path.suffix in {".py", ".cpp", ".h", ".cmake", ".in", ".toml", ".md"} and pattern.search(
                path.read_text(encoding="utf-8")
            ):
                bad.append(str(path.relative_to(REPOSITORY)))
    assert not bad


def test_links_inside_the_repository_exist() -> None:
    for name in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#:]+)\)", (REPOSITORY / name).read_text(encoding="utf-8")):
            assert (REPOSITORY / target).exists(), f"{name}: {target}"


def test_makefile_has_the_habits() -> None:
    targets = set(re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(), flags=re.MULTILINE))
    assert {"build", "test", "test-long", "lint", "bench"} <= targets
    assert os.access(REPOSITORY / ".ci/run", os.X_OK)
