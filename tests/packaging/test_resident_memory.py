"""What a loaded model holds: its weights once. Measured from outside by the C program tests/capi/resident."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Run

#: Pages of code that are touched for the first time, stacks of threads, the vocabulary's and the graph's bookkeeping.
REST = 8 << 20


def measure(run: Run, build_dir: Path, path: Path, weights: str) -> dict[str, int]:
    lines = run([build_dir / "tests" / "capi" / "resident", path, "2048", weights]).stdout.splitlines()
    return {name: int(value) for name, value in map(str.split, lines)}


@pytest.mark.real
@pytest.mark.parametrize("weights", ["packed", "mapped"])
@pytest.mark.parametrize("name", ["smollm2", "gemma3-270m"])
def test_weights_are_held_once(
    build_dir: Path, run: Run, real_model: Callable[[str], Path], name: str, weights: str
) -> None:
    """No second copy, not even while loading, and the pages of the file that were read for packing are given back."""
    path = real_model(name)
    found = measure(run, build_dir, path, weights)
    file_bytes = path.stat().st_size
    assert found["file_bytes"] == file_bytes
    assert (found["packed_bytes"] > 0.5 * file_bytes) == (weights == "packed")

    loaded = found["resident_loaded"] - found["resident_before"]
    grown = found["resident_decoded"] - found["resident_before"]
    buffers = found["cache_bytes"] + found["compute_bytes"] + found["output_bytes"]
    peak = found["resident_peak"] - found["resident_before"]
    assert peak <= 1.05 * file_bytes + REST, found
    assert grown <= 1.05 * file_bytes + buffers + REST, found
    assert loaded >= found["packed_bytes"] and grown > loaded, found  # the numbers mean something
