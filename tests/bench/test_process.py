"""The pipe between parent and worker: errors come back as sentences, and a worker that is not asked does not run."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.bench.process import BenchError, Worker


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker("pyspec") as found:
        found.ask("about")
        yield found


def state(pid: int) -> str:
    """The process's state letter, once it has settled."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        letter = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        if letter in "TZ":
            return letter
        time.sleep(0.01)
    return letter


def test_a_worker_is_stopped_between_requests(worker: Worker) -> None:
    assert state(worker.pid) == "T"
    assert worker.ask("about")["name"] == "pyspec"
    assert state(worker.pid) == "T"


def test_an_error_comes_back_and_the_worker_lives_on(worker: Worker, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"^pyspec: .*absent\.gguf"):
        worker.ask("open", path=str(tmp_path / "absent.gguf"), threads=1, n_ctx=64, n_outputs=1)
    with pytest.raises(BenchError, match="no command 'close'"):
        worker.ask("close")
    assert worker.ask("about")["name"] == "pyspec"


@pytest.mark.parametrize(
    ("number", "words"), [(signal.SIGILL, "SIGILL.*README"), (signal.SIGKILL, "SIGKILL.*memory")]
)
def test_a_dead_worker_is_one_sentence(worker: Worker, number: signal.Signals, words: str) -> None:
    os.kill(worker.pid, number)
    with pytest.raises(BenchError, match=f"^pyspec: its process was ended by {words}.* during 'about'$"):
        worker.ask("about")


def test_closing_ends_the_process() -> None:
    with Worker("pyspec") as worker:
        worker.ask("about")
        pid = worker.pid
    assert not Path(f"/proc/{pid}").exists()
