"""`import pyspec` is cheap and loads nothing heavy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .conftest import Run

HEAVY = [
    "numpy",
    "tokenizers",
    "sentencepiece",
    "jinja2",
    "llguidance",
    "typer",
    "rich",
    "prompt_toolkit",
    "cffi",
    "_cffi_backend",
    "logging",
]


def modules_after(run: Run, statement: str) -> set[str]:
    code = f"{statement}\nimport sys; print(' '.join(sys.modules))"
    return set(run([sys.executable, "-S", "-c", code], env={"PYTHONPATH": ":".join(sys.path)}).stdout.split())


def test_import_loads_nothing_heavy(run: Run) -> None:
    assert not modules_after(run, "import pyspec").intersection(HEAVY)
    assert not modules_after(run, "import pyspec; pyspec.UnsupportedError").intersection(HEAVY)


def test_import_takes_less_than_50_ms(run: Run) -> None:
    code = "import time; t = time.perf_counter(); import pyspec; print(time.perf_counter() - t)"
    times = [float(run([sys.executable, "-c", code]).stdout) for _ in range(7)]
    assert min(times) < 0.05  # other work on the machine only adds


def test_every_public_name_exists() -> None:
    import pyspec

    for name in pyspec.__all__:
        assert getattr(pyspec, name) is not None
    assert set(pyspec.__all__) - {"__version__"} == set(pyspec._HOMES)
    assert set(dir(pyspec)) >= set(pyspec.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = pyspec.nonsense


def test_types_are_marked(repository: Path) -> None:
    assert (repository / "pyspec/py.typed").is_file()
