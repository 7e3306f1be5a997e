"""Fixtures every test may use: tiny models by family, real models by manifest name, and the count of
checked cases."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# NumPy references are small; a second pool of spinning threads only disturbs what is measured and tested
# here.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Read by the oracle when it makes a context, see tests/oracle.
os.environ.setdefault("LLAMA_ATTN_ROT_DISABLE", "1")

_CASES: Counter[str] = Counter()  # area -> cases inside tests, beyond one per test


def pytest_configure(config: pytest.Config) -> None:
    """Some ways of starting a test run leave SIGINT ignored, and every child would inherit that: tests of Ctrl-C would
    wait for an interrupt that never comes."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class TinyFiles:
    """Tiny models on disk, each written once per test run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths: dict[str, Path] = {}

    def path(self, family: str, **options: Any) -> Path:
        """Path of a tiny model; options are those of tests.tiny.make_model. Types that need rows of 256
        elements get the wide sizes by themselves."""
        from tests.tiny import make_model, needs_wide, wide

        dtype = options.get("dtype", "f32")
        sizes = wide(family, dtype) if needs_wide(dtype) else {}
        options["overrides"] = {**sizes, **options.get("overrides", {})}
        key = repr((family, sorted(options.items(), key=lambda item: item[0])))
        if key not in self._paths:
            kind = f"{dtype}-{options.get('perturb') or 'plain'}"
            name = f"{len(self._paths):04d}-{family}-{kind}.gguf"
            self._paths[key] = make_model(family, self._folder / name, **options)
        return self._paths[key]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyFiles:
    return TinyFiles(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def real_model() -> Callable[[str], Path]:
    """Function from a manifest name to the model's file. SmolLM2 is fetched when absent; the others are
    skipped, with the reason. $PYSPEC_TEST_MODELS names another directory than the user's cache."""

    def path(name: str) -> Path:
        from pyspec.fetch import cached_path, resolve_model

        folder = os.environ.get("PYSPEC_TEST_MODELS")
        directory = Path(folder) if folder else None
        found = cached_path(name, directory)
        if found is not None:
            return found
        if name == "smollm2":
            return resolve_model(name, directory=directory)
        pytest.skip(f"{name} is not in the model cache; `pyspec-cli fetch {name}` puts it there")

    return path


@pytest.fixture
def count_cases(request: pytest.FixtureRequest) -> Callable[[int], None]:
    """Add to the case count printed at the end, for tests that check many cases in one."""
    area = _area(request.node.nodeid)

    def add(n: int) -> None:
        _CASES[area] += n

    return add


def _area(nodeid: str) -> str:
    parts = nodeid.split("::", 1)[0].split("/")
    return parts[1] if len(parts) > 2 else parts[-1]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    tests: Counter[str] = Counter()
    for outcome in ("passed", "failed", "xfailed", "xpassed"):
        for report in terminalreporter.stats.get(outcome, []):
            if report.when == "call":
                tests[_area(report.nodeid)] += 1
    if not tests:
        return
    areas = ", ".join(
        f"{area} {n} tests" + (f"/{_CASES[area]} cases" if _CASES[area] else "")
        for area, n in sorted(tests.items())
    )
    total = sum(tests.values())
    terminalreporter.write_line(
        f"case counts: {total} tests, {sum(_CASES.values())} cases inside them ({areas})"
    )


@pytest.fixture(autouse=True)
def _no_numpy_surprises() -> Iterator[None]:
    """Overflow or NaN in a reference is a defect of the test."""
    import numpy as np

    with np.errstate(over="raise", invalid="raise", divide="raise"):
        yield
