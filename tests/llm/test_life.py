"""Opening, closing and memory of LLM on the real core: C085, C104, C109."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pyspec.errors import BusyError, FileFormatError, OptionError, UnsupportedError
from pyspec.llm.llm import LLM
from tests.conftest import TinyFiles

ROOT = Path(__file__).parents[2]
PROMPT = "The quick brown fox"


MEMORY_SCRIPT = """
import ctypes, gc, sys
import pyspec

target, draft, n_ctx = sys.argv[1:]
for cycle in range(20):
    llm = pyspec.LLM(target, draft=draft, n_ctx=int(n_ctx), n_threads=1)
    llm.generate("The quick brown fox", max_tokens=10, temperature=0)
    use = llm.memory()
    if cycle % 2:
        stream = llm.stream("The quick brown fox", max_tokens=10)
        next(stream)
    if cycle % 3:
        llm.close()
    else:
        with llm:
            pass
    stream = None
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what the allocator keeps for later is not held by us
    with open("/proc/self/statm") as file:
        print(int(file.read().split()[1]) * 4096)
print(use.total_bytes)
"""


def memory_after_each_cycle(target: Path, draft: Path, n_ctx: int) -> tuple[list[int], int]:
    """Resident bytes after each of 20 cycles of open, generate, close; and what one LLM reports to need."""
    run = subprocess.run(
        [sys.executable, "-c", MEMORY_SCRIPT, str(target), str(draft), str(n_ctx)],
        cwd=ROOT,
        # Python's own pools are given back late and by chance; with malloc what is free can be trimmed.
        env=os.environ | {"MALLOC_ARENA_MAX": "1", "PYTHONMALLOC": "malloc"},
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
    )
    *after, needed = (int(line) for line in run.stdout.split())
    assert len(after) == 20
    return after, needed


@pytest.mark.skipif(
    sys.platform != "linux", reason="resident memory is read from /proc, glibc is asked to trim"
)
def test_closing_gives_memory_back(tiny: TinyFiles) -> None:
    """C085 (abetlen/llama-cpp-python#1442): 20 times open, generate, close, some with an unfinished stream,
    some as a with statement. Interpreter and libraries weigh more than a tiny model, so growth is measured
    against what 18 LLMs that are never freed would hold."""
    after, needed = memory_after_each_cycle(tiny.path("llama"), tiny.path("llama", dtype="q4_0"), 4096)
    assert after[-1] - after[1] <= 0.05 * 18 * needed, [f"{n / 2**20:.1f} MiB" for n in after]


@pytest.mark.real
@pytest.mark.skipif(
    sys.platform != "linux", reason="resident memory is read from /proc, glibc is asked to trim"
)
def test_closing_gives_memory_back_on_a_real_model(real_model: Callable[[str], Path]) -> None:
    """C085: with SmolLM2 as target and draft, resident memory after cycle 20 is within 2 % of an open LLM's
    from what it was after cycle 2."""
    path = real_model("smollm2")
    after, needed = memory_after_each_cycle(path, path, 1024)
    assert after[-1] - after[1] <= 0.02 * (after[1] + needed), [f"{n / 2**20:.1f} MiB" for n in after]


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
    for draft in (None, tiny.path("llama", dtype="q4_0")):
        seen: list[float] = []
        with LLM(tiny.path("llama"), draft=draft, progress=seen.append):
            pass
        assert seen == sorted(seen) and seen[-1] == 1.0 and seen[0] >= 0
    assert any(0.3 < value < 0.97 for value in seen), "target and draft share the range"


def test_progress_that_raises_stops_loading(tiny: TinyFiles) -> None:
    def stop(fraction: float) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        LLM(tiny.path("llama"), progress=stop)


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


def test_a_head_is_not_a_draft_model(tiny: TinyFiles, tmp_path: Path) -> None:
    """C021 (unslothai/unsloth#10197): a file that holds only a draft head is refused by its architecture's
    name.
    """
    import gguf

    path = tmp_path / "head.gguf"
    writer = gguf.GGUFWriter(path, "eagle3")
    writer.add_tensor("fc.weight", np.zeros((8, 8), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(UnsupportedError, match="eagle3"):
        LLM(tiny.path("llama"), draft=path)


REPORT_SCRIPT = """
import ctypes, gc, sys
import pyspec
from tests.round.scripted import script

def resident():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def open_tokenizer(path):
    model = pyspec.Model(path, metadata_only=True)
    model.tokenizer.encode("warm up")
    return model

target, draft = sys.argv[1:]
draft = draft or None
kept = [open_tokenizer(target)]  # libraries are loaded now
before = resident()
kept.append(open_tokenizer(target))
python_part = resident() - before  # what one more model costs in Python: texts, merges, tokenizer
before = resident()
llm = pyspec.LLM(target, draft=draft, drafters="none", n_ctx=4096, n_ubatch=64, n_threads=1)
prompt = llm.tokenize("One two three four five six seven eight nine ten. ") * 8
stream = llm.stream(prompt, max_tokens=66, temperature=0, drafters=[script("63/63", [5] * 200, len(prompt))])
next(stream), next(stream)  # one verification of 64 rows
stream.close()
if draft:
    llm.generate(prompt, max_tokens=4, temperature=0, drafters="draft-simple:p_min=0")
print(resident() - before - python_part, llm.memory().total_bytes, llm.memory().draft is not None)
"""


@pytest.mark.real
@pytest.mark.skipif(
    sys.platform != "linux", reason="resident memory is read from /proc, glibc is asked to trim"
)
@pytest.mark.parametrize("with_draft", [False, True])
def test_memory_report_against_measurement(real_model: Callable[[str], Path], with_draft: bool) -> None:
    """C086 (ggml-org/llama.cpp#23472): the report is within 10 % of what the process really grew by, with and
    without a draft model."""
    path = str(real_model("smollm2"))
    run = subprocess.run(
        [sys.executable, "-c", REPORT_SCRIPT, path, path if with_draft else ""],
        cwd=ROOT,
        env=os.environ | {"MALLOC_ARENA_MAX": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    measured, reported, has_draft = run.stdout.split()
    assert has_draft == str(with_draft)
    assert int(reported) == pytest.approx(int(measured), rel=0.1), run.stdout
