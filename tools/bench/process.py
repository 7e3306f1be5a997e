"""The parent's side of a contestant's process. Between requests it is stopped, so that only one side ever runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

# This tree comes first to find the worker, and last to find pyspec: an installed package has a library, the tree may not.
_START = """
import sys
sys.path[:1] = [sys.argv[1]]
import tools.bench.worker
sys.path.append(sys.path.pop(0))
tools.bench.worker.main(sys.argv[2])
"""


#: What a death by signal usually means.
_HINTS = {
    signal.SIGILL: " (its library was compiled wrongly or for another CPU; tools/bench/README.md has a remedy)",
    signal.SIGKILL: " (most likely there was not enough memory)",
}


class BenchError(Exception):
    """Something the person at the terminal can do something about, in one sentence."""


class Worker:
    """A contestant in a process of its own. Threads of a library may spin on after a call; a stopped process cannot."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(ROOT), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Run one command and wait. BenchError when it fails or the process dies."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            process.send_signal(signal.SIGCONT)
            process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise BenchError(f"{self.name}: {ending(process.wait())} during {do!r}")
        process.send_signal(signal.SIGSTOP)
        reply = json.loads(line)
        if "error" in reply:
            kind = "" if reply["kind"].endswith("Error") else f"{reply['kind']}: "
            raise BenchError(f"{self.name}: {kind}{reply['error']}")
        found: dict[str, Any] = reply["ok"]
        return found

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def ending(code: int) -> str:
    """What a return code says, as the middle of a sentence."""
    if code >= 0:
        return f"its process ended with exit code {code}"
    name = signal.Signals(-code)
    return f"its process was ended by {name.name}{_HINTS.get(name, '')}"
