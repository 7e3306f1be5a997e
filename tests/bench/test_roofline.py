"""The limit of T(n): what counts as read and as multiplied, and what the table shows of it. No time is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.bench import native_program, roofline
from tools.bench.process import BenchError
from tools.bench.report import as_json, as_text
from tools.bench.result import Result
from tools.bench.roofline import Work, add_roofline, decode_work, limit_ns, multiplied_matrices

MACHINE = {"kernels": "avx2", "threads": 2, "read_gb_s": 10.0, "dot_gmac_s": 100.0}


def tensor(name: str, type_: str, size: int, *shape: int) -> dict[str, Any]:
    return {"name": name, "type": type_, "shape": list(shape), "bytes": size, "part": 0}


TABLE = tensor("token_embd.weight", "q6_K", 1000, 64, 100)
OUTPUT = tensor("output.weight", "q6_K", 1100, 64, 100)
LAYER = [tensor("blk.0.attn_norm.weight", "f32", 256, 64), tensor("blk.0.attn_q.weight", "q4_K", 300, 64, 32)]
EXPERTS = tensor("blk.0.ffn_up_exps.weight", "q4_K", 8000, 64, 16, 8)


def test_a_table_that_is_only_looked_up_is_not_multiplied() -> None:
    matrices = multiplied_matrices([TABLE, *LAYER, OUTPUT], 0, 0)
    assert [(m["bytes"], m["macs"]) for m in matrices] == [(300, 64 * 32), (1100, 64 * 100)]
    assert [m["type"] for m in matrices] == ["Q4_K", "Q6_K"]


def test_a_tied_table_counts_once() -> None:
    matrices = multiplied_matrices([TABLE, *LAYER], 0, 0)
    assert [(m["bytes"], m["macs"]) for m in matrices] == [(1000, 64 * 100), (300, 64 * 32)]


def test_of_experts_those_of_one_token_count() -> None:
    (matrix,) = multiplied_matrices([EXPERTS, OUTPUT], 8, 2)[:1]
    assert matrix == {"type": "Q4_K", "bytes": 2000, "macs": 64 * 16 * 2}


def test_the_work_is_the_sum() -> None:
    matrices = multiplied_matrices([TABLE, *LAYER, EXPERTS], 8, 2)
    assert decode_work(matrices) == Work(1000 + 300 + 2000, 64 * 100 + 64 * 32 + 64 * 16 * 2)


def test_the_real_tensor_table_of_a_tiny_model(tiny: Any) -> None:
    from pyspec import Model

    with Model(tiny.path("llama", dtype="q8_0")) as model:
        matrices = multiplied_matrices(model.tensors, model.info.n_expert, model.info.n_expert_used)
        work = decode_work(matrices)
        vectors = sum(t["shape"][0] for t in model.tensors if len(t["shape"]) == 1)
        tables = sum(m["macs"] for m in matrices)
        assert work.macs == tables <= model.info.n_params - vectors
        assert 0 < work.bytes <= model.info.packed_bytes <= 1.1 * work.bytes


def test_the_limit_is_reading_or_multiplying() -> None:
    assert limit_ns(1000, 5000, MACHINE) == 100.0
    assert limit_ns(1000, 20000, MACHINE) == 200.0


def measured(monkeypatch: pytest.MonkeyPatch) -> Result:
    asked: list[tuple[str, int]] = []

    def measure(kernels: str, threads: int) -> dict[str, Any]:
        asked.append((kernels, threads))
        return MACHINE

    monkeypatch.setattr(roofline, "measure_roofline", measure)
    result = Result("tn", "m", threads=2)
    for n, milliseconds in (("1", 2.0), ("4", 4.0)):
        result.add(n, [milliseconds], [], rates=False)
    result.publish()
    matrix = {"type": "Q4_K", "bytes": 10_000_000, "macs": 50_000_000}
    add_roofline(result, {"kernels": "avx2", "matrices": [matrix]})
    assert asked == [("avx2", 2)]
    return result


def test_shares_stand_in_the_table_and_in_the_json(monkeypatch: pytest.MonkeyPatch) -> None:
    result = measured(monkeypatch)
    assert result.roofline["limit_ms"] == {"1": 1.0, "4": 2.0}
    assert result.roofline["share"] == {"1": 0.5, "4": 0.5}
    assert as_json(result)["details"]["roofline"] == result.roofline
    lines = as_text(result).splitlines()
    header = next(i for i, line in enumerate(lines) if "quartiles" in line)
    assert lines[header].split()[-1] == "roofline"
    assert lines[header + 2].split()[-2:] == ["50", "%"]
    assert lines[-2].startswith("roofline: 10.00 GB/s read, 100.0 GMAC/s")
    assert "10.00 MB" in lines[-1] and "50.00 million" in lines[-1]


def test_without_the_program_a_line_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYSPEC_BUILD_DIR", str(tmp_path))
    result = Result("tn", "m", threads=2)
    result.add("1", [2.0], [], rates=False)
    result.publish()
    add_roofline(result, {"kernels": "avx2", "matrices": []})
    assert result.roofline == {}
    text = as_text(result)
    assert "roofline" not in text.split("No roofline:")[0]
    assert text.splitlines()[-1].startswith(
        f"No roofline: {tmp_path}/bench/kernels is not built: run `make build`"
    )


def test_the_program_is_that_of_this_tree_without_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPEC_BUILD_DIR", raising=False)
    monkeypatch.setattr(native_program, "ROOT", Path("/absent"))
    with pytest.raises(BenchError, match=r"^/absent/build/dev/bench/kernels is not built"):
        native_program.find_program()
