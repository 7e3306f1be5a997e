"""Every invariant of the verification reference that is in reach, and every known case, is named by a test."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

#: Memories that cannot be trimmed (19-24), EAGLE-3, MTP and DFlash (34-38) and trees (51) are not there yet; 14 and 15 are
#: about the model and named there.
INVARIANTS = [*range(1, 14), 16, 17, *range(27, 34), *range(39, 51)]

#: Public reports of other projects. Left out, because what they are about is not there yet: C011, C013, C014 (draft heads
#: that read the target) and C080 (GPU).
CASES = {
    "C012": "ggml-org/llama.cpp#28072",
    "C015": "ggml-org/llama.cpp#23269",
    "C016": "ggml-org/llama.cpp#23544",
    "C017": "ggml-org/llama.cpp#19164",
    "C018": "ggml-org/llama.cpp#25725",
    "C019": "SafeAILab/EAGLE#98",
    "C029": "LostRuins/koboldcpp#1276",
    "C030": "vllm-project/vllm#47616",
    "C031": "sgl-project/sglang#33643",
    "C032": "ggml-org/llama.cpp#25618",
    "C033": "lablup/mlxcel#902",
    "C034": "vllm-project/vllm#6034",
    "C035": "sgl-project/sglang#39826",
    "C041": "ml-explore/mlx-lm#1591",
    "C054": "openvinotoolkit/openvino.genai#4081",
    "C055": "anthony-chaudhary/fak#5271",
    "C056": "ggml-org/llama.cpp#18173",
    "C059": "ggml-org/llama.cpp#10547",
    "C060": "ggml-org/llama.cpp#21815",
    "C061": "abetlen/llama-cpp-python#1139",
    "C077": "ggml-org/llama.cpp#22673",
    "C078": "ggml-org/llama.cpp#25908",
    "C079": "ggml-org/llama.cpp#12968",
}


@cache
def texts() -> list[str]:
    files = [path for kind in ("*.py", "*.cpp") for path in TESTS.rglob(kind)]
    return [path.read_text(encoding="utf-8") for path in sorted(files) if path != Path(__file__)]


@cache
def named() -> set[int]:
    """The numbers behind "invariant" or "invariants": lists and ranges (1, 2 and 9; 27-30)."""
    found: set[int] = set()
    for text in texts():
        for match in re.finditer(
            r"invariants?\s+((?:\d+(?:\s*-\s*\d+)?(?:,\s+and\s+|,\s*|\s+and\s+)?)+)", text, re.I
        ):
            for first, last in re.findall(r"(\d+)(?:\s*-\s*(\d+))?", match[1]):
                found |= set(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.parametrize("number", INVARIANTS)
def test_invariants(number: int) -> None:
    assert number in named(), f"no test names invariant {number}"


@pytest.mark.parametrize(("case", "source"), CASES.items())
def test_cases(case: str, source: str) -> None:
    """The public source stands in a file that names the case."""
    assert any(case in text and source in text for text in texts()), f"no test names {case} ({source})"
