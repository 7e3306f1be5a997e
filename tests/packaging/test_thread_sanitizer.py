"""Data races: library, ggml and test programs built with the thread sanitizer, and run with several threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import Run
from .test_build_kinds import build

pytestmark = pytest.mark.long

NATIVE = ["test_products", "test_attention"]

RACE = """
#include <pthread.h>
static int counter;
static void * count(void * unused) { counter++; return unused; }
int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, 0, count, 0) != 0) return 2;
    counter++;
    return pthread_join(thread, 0);
}
"""


def races(run: Run, *command: Path | str) -> str:
    """What the sanitizer has to say about a program that must succeed otherwise; "" is nothing."""
    result = run(command, ok=False, env={"TSAN_OPTIONS": "exitcode=66"})
    if "ThreadSanitizer" in result.stdout or result.returncode == 66:
        return result.stdout
    assert result.returncode == 0, result.stdout[-3000:]
    return ""


@pytest.fixture(scope="module")
def watched(repository: Path, ggml_source: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build, after the sanitizer has shown that it works here."""
    folder = tmp_path_factory.mktemp("threads")
    (folder / "race.c").write_text(RACE)
    run(["cc", "-g", "-fsanitize=thread", "-o", folder / "race", folder / "race.c"])
    report = races(run, folder / "race")
    if "unexpected memory mapping" in report:
        pytest.skip(
            "the thread sanitizer of this compiler cannot run with this kernel's address randomisation"
        )
    assert "data race" in report, "the thread sanitizer reports nothing here"
    targets = ["pyspec", "capi_parallel", *(f"native_{name}" for name in NATIVE)]
    return build(folder / "build", repository, ggml_source, run, "-DPYSPEC_SANITIZE=thread", targets=targets)


@pytest.mark.parametrize("name", NATIVE)
def test_native_programs(watched: Path, run: Run, name: str) -> None:
    """Products and attention, each shared out between up to three threads."""
    report = races(run, watched / "tests" / "native" / name)
    assert report == "", report[:6000]


@pytest.mark.parametrize(
    ("family", "dtype"), [("llama", "q8_0"), ("qwen3moe", "q4_k"), ("gemma3", "f16"), ("phi3", "q4_0")]
)
def test_two_contexts_at_the_same_time(watched: Path, run: Run, tiny: Any, family: str, dtype: str) -> None:
    """A model is loaded and packed by several threads, and two contexts of two compute threads each decode on it."""
    path = tiny.path(family, dtype=dtype)
    report = races(run, watched / "tests" / "capi" / "parallel", path, "2", "16")
    assert report == "", report[:6000]
