"""Opening, closing and memory of LLM on the real core: C085, C104, C109."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pyspec.errors import BusyError, FileFormatError, OptionError
from pyspec.llm.llm import LLM
from tests.conftest import TinyFiles

ROOT = Path(__file__).parents[2]
PROMPT = "The quick brown fox"


MEMORY_SCRIPT = """
import ctypes, sys
import pyspec

target, draft = sys.argv[1:]
for cycle in range(20):
    llm = pyspec.LLM(target, draft=draft, n_ctx=8192, n_threads=1)
    llm.generate("The quick brown fox", max_tokens=10, temperature=0)
    if cycle % 2:
        stream = llm.stream("The quick brown fox", max_tokens=10)
        next(stream)
    if cycle % 3:
        llm.close()
    else:
        with llm:
            pass
    ctypes.CDLL(None).malloc_trim(0)  # what the allocator keeps for later is not held by us
    with open("/proc/self/statm") as file:
        print(int(file.read().split()[1]) * 4096)
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="resident memory is read from /proc, glibc is asked to trim"
)
def test_closing_gives_memory_back(tiny: TinyFiles) -> None:
    """C085 (abetlen/llama-cpp-python#1442): 20 times open, generate, close, some with an unfinished stream,
    some as a with statement; resident memory after the last cycle is that of the second within 2 %."""
    paths = [str(tiny.path("llama")), str(tiny.path("llama", dtype="q4_0"))]
    run = subprocess.run(
        [sys.executable, "-c", MEMORY_SCRIPT, *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    after = [int(line) for line in run.stdout.split()]
    assert len(after) == 20
    assert after[-1] <= 1.02 * after[1], [f"{n / 2**20:.1f} MiB" for n in after]


def test_threads_on_one_llm(tiny: TinyFiles, count_cases: Callable[[int], None]) -> None:
    """C104 (abetlen/llama-cpp-python#1367): 200 calls from four threads: BusyError or the solo answer, no
    crash.
    """
    with LLM(tiny.path("llama"), draft=tiny.path("llama", dtype="q4_0"), n_ctx=256, n_threads=1) as llm:
        expected = llm.generate(PROMPT, max_tokens=6, seed=1).tokens

        def call(_: int) -> object:
            try:
                return llm.generate(PROMPT, max_tokens=6, seed=1).tokens
            except BusyError:
                return None

        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(call, range(200)))
        assert [answer for answer in answers if answer is not None and answer != expected] == []
        assert sum(answer is not None for answer in answers) >= 1
        assert llm.generate(PROMPT, max_tokens=6, seed=1).tokens == expected
        count_cases(200)


def test_two_llms_in_two_threads(tiny: TinyFiles) -> None:
    """C104: two engines at once give their solo answers."""
    with LLM(tiny.path("llama"), n_threads=1) as one, LLM(tiny.path("qwen2"), n_threads=1) as two:
        expected = [llm.generate(PROMPT, max_tokens=20, seed=5).tokens for llm in (one, two)]
        with ThreadPoolExecutor(2) as pool:
            for _ in range(5):
                futures = [pool.submit(llm.generate, PROMPT, max_tokens=20, seed=5) for llm in (one, two)]
                assert [future.result().tokens for future in futures] == expected


def test_files_that_do_not_open(tiny: TinyFiles, tmp_path: Path) -> None:
    """C098: target or draft that cannot be opened is a typed error, and what was opened before is closed."""
    junk = tmp_path / "junk.gguf"
    junk.write_bytes(b"no model")
    for bad in (tmp_path / "absent.gguf", junk):
        with pytest.raises(FileFormatError, match=bad.name):
            LLM(bad)
        with pytest.raises(FileFormatError, match=bad.name):
            LLM(tiny.path("llama"), draft=bad)
    with pytest.raises(OptionError, match="pass draft=FILE"):
        LLM(tmp_path / "absent.gguf", drafters="draft-simple")


def test_progress_is_reported(tiny: TinyFiles) -> None:
    seen: list[float] = []
    with LLM(tiny.path("llama"), progress=seen.append):
        pass
    assert seen and seen[-1] == 1.0 and all(0 <= value <= 1 for value in seen)


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "del llm", "for chunk in stream: sys.exit(0)"])
def test_interpreter_exit_is_quiet(tiny: TinyFiles, ending: str) -> None:
    """C109 (abetlen/llama-cpp-python#891): LLM, contexts and a half-used stream alive at exit: code 0, empty
    stderr.
    """
    target, draft = str(tiny.path("llama")), str(tiny.path("llama", dtype="q4_0"))
    script = f"""
import sys
import pyspec
llm = pyspec.LLM({target!r}, draft={draft!r}, n_ctx=256, n_threads=1)
stream = llm.stream({PROMPT!r}, max_tokens=20, temperature=0)
next(stream)
model = pyspec.Model({target!r})
context = pyspec.Context(model, n_ctx=64, n_threads=1)
{ending}
"""
    run = subprocess.run(
        [sys.executable, "-X", "dev", "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
