"""A copy of the tree in which faults are made, and the runs of the tests on it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from tools.faults.core_build import CoreBuild
from tools.faults.fault import Fault, FaultError

#: What the tests need. Everything else of the repository stays where it is.
COPIED = ("csrc", "pyspec", "tests", "tools", "models", "pyproject.toml")


@dataclass(frozen=True, slots=True)
class Outcome:
    """caught_by: a test that failed, or how the run ended otherwise ("hang", "crash"); "" when everything passed."""

    caught_by: str
    seconds: float


class Workshop:
    """One copy. One run at a time. limit: seconds that one run may take; longer ones count as hanging."""

    def __init__(self, folder: Path, repository: Path, build: CoreBuild, limit: float) -> None:
        self.tree = folder.resolve() / "tree"
        self.built = folder.resolve() / "build"
        self._build = build
        self._limit = limit
        self._child: subprocess.Popen[str] | None = None
        self._n_faults = 0
        self._stopped = False
        ignored = shutil.ignore_patterns(
            "__pycache__", ".hypothesis", "*.so", "_binding.py", "build_info.json"
        )
        for name in COPIED:
            source, copy = repository / name, self.tree / name
            if source.is_dir():
                shutil.copytree(source, copy, ignore=ignored)
            else:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, copy)
        build.borrow(self.built)

    def check(self, faults: Sequence[Fault]) -> float:
        """Run the tests of all faults without any. Seconds it took; FaultError when something fails."""
        tests = list(dict.fromkeys(test for fault in faults for test in fault.tests))
        started = perf_counter()
        status, output = self._pytest(tests, self._limit * max(1, len(tests)))
        if status != 0:
            raise FaultError(f"without a fault the tests do not pass (status {status}):\n{output[-4000:]}")
        return perf_counter() - started

    def try_fault(self, fault: Fault) -> Outcome:
        """Break the code, run the tests of this fault, repair."""
        started = perf_counter()
        path = self.tree / fault.file
        sound, times = path.read_bytes(), path.stat()
        self._n_faults += 1
        try:
            path.write_text(fault.applied_to(self.tree), encoding="utf-8")
            # Python takes compiled code for current by time in seconds and size; no two versions may share both.
            os.utime(path, (times.st_atime, times.st_mtime + 3600 + 2 * self._n_faults))
            if fault.in_core:
                self._build.make(
                    fault.file,
                    self.tree,
                    self.built,
                    library=fault.needs_library,
                    programs=fault.native_programs,
                )
            status, output = self._pytest(fault.tests, self._limit)
        except FaultError as error:
            raise FaultError(f"fault {fault.name!r}: {error}") from None
        finally:
            path.write_bytes(sound)
            os.utime(path, (times.st_atime, times.st_mtime))
            if fault.in_core:
                shutil.rmtree(self.built / "objects", ignore_errors=True)
                self._build.borrow(self.built)
        return Outcome(_caught_by(fault, status, output), perf_counter() - started)

    def stop(self) -> None:
        """End a run in progress, from any thread; no other begins."""
        self._stopped = True
        self._end_child()

    def _end_child(self) -> None:
        child = self._child
        if child is not None and child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)

    def _pytest(self, tests: Sequence[str], limit: float) -> tuple[int | None, str]:
        """(status, output); status None: it hung."""
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-x", "-rfE", "--tb=short", "--assert=plain"),
            *("-p", "no:cacheprovider", "-p", "tools.faults.pytest_plugin", "--hypothesis-seed=0"),
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.tree),
            "PYSPEC_FAULTS_TREE": str(self.tree),
            "PYSPEC_NATIVE_DIR": str(self.built / "native"),
            "PYSPEC_BUILD_DIR": str(self.built),
        }
        self._child = child = subprocess.Popen(
            [*command, *tests],
            cwd=self.tree,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C is for us; we end it with all its children
        )
        if self._stopped:  # between the end of a compilation and here
            self._end_child()
        try:
            output, _ = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self._end_child()
            output, _ = child.communicate()
            return None, output
        finally:
            self._end_child()
            self._child = None
        return child.returncode, output


def _caught_by(fault: Fault, status: int | None, output: str) -> str:
    """FaultError when the run says nothing about the fault."""
    if status is None:
        return "hang"
    if status == 0:
        return ""
    if status < 0 or status > 128:
        return f"crash ({status})"
    for line in output.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            return line.split(" ", 1)[1].split(" - ", 1)[0]
    raise FaultError(f"its tests could not be run (status {status}):\n{output[-3000:]}")
