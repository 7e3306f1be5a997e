"""The native program that measures kernels by themselves (tools/bench/native): where it is, and what it prints."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from .process import ROOT, BenchError, ending

#: Given to the program's `roofline` besides threads and kernels; tests make it small with them.
ROOFLINE_OPTIONS: tuple[str, ...] = ()


def find_program() -> Path:
    """The built program: in the CMake build that $PYSPEC_BUILD_DIR names, else in build/dev of this tree."""
    build = Path(os.environ.get("PYSPEC_BUILD_DIR") or ROOT / "build" / "dev")
    path = build / "bench" / "kernels"
    if not path.is_file():
        raise BenchError(
            f"{path} is not built: run `make build`, or set PYSPEC_BUILD_DIR to a CMake build with PYSPEC_BUILD_TESTS=ON"
        )
    return path


def run_program(*arguments: str) -> list[dict[str, Any]]:
    """The objects that one run prints. BenchError with the program's own sentence when it fails."""
    done = subprocess.run(
        [str(find_program()), *arguments], capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode != 0:
        said = done.stderr.strip().removeprefix("error: ")
        raise BenchError(f"kernels {arguments[0]}: {said or ending(done.returncode)}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def packable_types(kernels: str) -> list[str]:
    """Types of matrices that these kernels multiply in packed form, as in "Q4_K"."""
    (found,) = run_program("types", "--kernels", kernels)
    return list(found["types"])


def measure_roofline(kernels: str, threads: int) -> dict[str, Any]:
    """What the machine can do at most: "kernels", "threads" as they came out, "read_gb_s" and "dot_gmac_s", the best pass.

    kernels "auto": the best of this processor. threads 0: physical cores.
    """
    (found,) = run_program("roofline", "--kernels", kernels, "--threads", str(threads), *ROOFLINE_OPTIONS)
    return {
        "kernels": found["kernels"],
        "threads": found["threads"],
        "read_gb_s": found["read_gb_s"]["best"],
        "dot_gmac_s": found["dot_gmac_s"]["best"],
    }
