"""The seeded faults of tools/faults: the list fits the code, and a run tells what was caught from what was not."""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tools.faults import __main__ as command
from tools.faults.catalogue import FAULTS
from tools.faults.fault import Fault, FaultError
from tools.faults.workshop import Outcome, Workshop

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PYSPEC_BUILD_DIR", REPOSITORY / "build" / "dev"))


def test_every_fault_fits_the_code() -> None:
    """The text that a fault replaces occurs exactly once, whatever has happened to the code since."""
    assert len(FAULTS) >= 24
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        assert fault.applied_to(REPOSITORY) != (REPOSITORY / fault.file).read_text(encoding="utf-8")


def test_every_selection_exists() -> None:
    for fault in FAULTS:
        assert fault.tests, fault.name
        for test in fault.tests:
            file, *names = test.split("::")
            text = (REPOSITORY / file).read_text(encoding="utf-8")
            for name in names:
                what = name.partition("[")[0]
                assert re.search(rf"^ *(def|class) {what}\b", text, re.MULTILINE), (fault.name, test)
        for program in fault.native_programs:
            assert (REPOSITORY / "tests" / "native" / f"{program}.cpp").is_file(), fault.name


def a_fault(old: str, new: str, test: str = "test_add", file: str = "pyspec/__init__.py") -> Fault:
    return Fault("a fault", file, old, new, (f"tests/test_sums.py::{test}",))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A project with one function and two tests."""
    root = tmp_path / "repository"
    for name in ("pyspec", "tests", "csrc", "models"):
        (root / name).mkdir(parents=True)
    shutil.copytree(REPOSITORY / "tools" / "faults", root / "tools" / "faults")
    (root / "tools" / "__init__.py").touch()
    (root / "pyspec" / "__init__.py").write_text("def add(a, b):\n    c = a + b\n    return c\n")
    (root / "tests" / "test_sums.py").write_text(
        "from pyspec import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n\n\ndef test_zero():\n"
        "    assert add(0, 0) == 0\n"
    )
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    return root


class NoBuild:
    def borrow(self, into: Path) -> None:
        (into / "native").mkdir(parents=True, exist_ok=True)


def workshop(repository: Path, folder: Path, limit: float = 60.0) -> Workshop:
    return Workshop(folder, repository, NoBuild(), limit)  # type: ignore[arg-type]


def test_caught_and_not_caught(repository: Path, tmp_path: Path) -> None:
    """Each fault is alone, the copy is sound afterwards, and the real tree is never touched."""
    shop = workshop(repository, tmp_path / "shop")
    before = (repository / "pyspec" / "__init__.py").read_bytes()
    minus, none = a_fault("a + b", "a - b"), a_fault("a + b", "a - b", "test_zero")
    shop.check([minus, none])
    assert shop.try_fault(minus).caught_by == "tests/test_sums.py::test_add"
    assert shop.try_fault(none).caught_by == ""
    assert shop.try_fault(minus).caught_by == "tests/test_sums.py::test_add"
    shop.check([minus, none])
    crash = a_fault("c = a + b", "import os; os.kill(os.getpid(), 11)")
    assert shop.try_fault(crash).caught_by.startswith("crash")
    assert (repository / "pyspec" / "__init__.py").read_bytes() == before
    assert (shop.tree / "pyspec" / "__init__.py").read_bytes() == before


def test_a_hang_is_caught(repository: Path, tmp_path: Path) -> None:
    shop = workshop(repository, tmp_path / "shop", limit=5.0)
    assert shop.try_fault(a_fault("c = a + b", "while True: pass")).caught_by == "hang"


def test_a_run_can_be_stopped(repository: Path, tmp_path: Path) -> None:
    """Ctrl-C ends the run in progress at once, and a stopped workshop begins no other."""
    shop = workshop(repository, tmp_path / "shop", limit=300.0)
    threading.Timer(2.0, shop.stop).start()
    started = time.perf_counter()
    shop.try_fault(a_fault("c = a + b", "while True: pass"))
    shop.try_fault(a_fault("c = a + b", "while True: pass"))
    assert time.perf_counter() - started < 60


@pytest.mark.parametrize("old", ["no such text", "c"])
def test_a_fault_that_no_longer_fits_is_an_error(repository: Path, old: str) -> None:
    with pytest.raises(FaultError, match="expected once"):
        a_fault(old, "d").applied_to(repository)
    with pytest.raises(FaultError, match="no file"):
        a_fault(old, "d", file="pyspec/gone.py").applied_to(repository)


def test_a_run_that_says_nothing_is_an_error(repository: Path, tmp_path: Path) -> None:
    """Not caught: tests that do not exist, and tests that fail without a fault."""
    shop = workshop(repository, tmp_path / "shop")
    with pytest.raises(FaultError, match="could not be run"):
        shop.try_fault(a_fault("a + b", "a - b", "test_gone"))
    (shop.tree / "pyspec" / "__init__.py").write_text("def add(a, b):\n    return 7\n")
    with pytest.raises(FaultError, match="without a fault the tests do not pass"):
        shop.check([a_fault("a + b", "a - b")])


def test_exit_codes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    caught = ""

    def run(faults: Any, folder: Path, **options: Any) -> list[Outcome]:
        return [Outcome(caught, 1.0)] * len(faults)

    monkeypatch.setattr(command, "run", run)
    assert command.main(["--list"]) == 0
    assert FAULTS[0].name in capsys.readouterr().out
    assert command.main(["--only", "no such fault"]) == 2
    assert command.main(["--only", FAULTS[0].name]) == 1
    assert f"not caught: {FAULTS[0].name}" in capsys.readouterr().out
    caught = "a test"
    assert command.main(["--only", FAULTS[0].name]) == 0


@pytest.mark.long
def test_every_fault_is_caught(capsys: pytest.CaptureFixture[str]) -> None:
    """Break-it check: every seeded fault turns a test red."""
    with capsys.disabled():
        print()
        assert command.main(["--build", str(BUILD)]) == 0
