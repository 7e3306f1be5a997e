"""Stored cost tables: found again for the same file and way of running only, and harmless when broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspec.speculation.cost_store import CostStore
from pyspec.speculation.cost_table import CostTable
from pyspec.speculation.measure_cost import measure_cost
from tests.fakes import FakeContext, FakeModel

TIMES = {1: 10.0, 4: 12.0, 8: 20.0}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + bytes(range(256)) * 1000)
    return path


def test_round_trip(tmp_path: Path, model: Path) -> None:
    store = CostStore(tmp_path / "costs", model, {"threads": 2})
    assert not store.load().known
    store.save(CostTable(TIMES))
    again = CostStore(tmp_path / "costs", model, {"threads": 2}).load()
    assert again.known and again.times() == TIMES


def test_other_circumstances_find_nothing(tmp_path: Path, model: Path) -> None:
    CostStore(tmp_path, model, {"threads": 2}).save(CostTable(TIMES))
    assert not CostStore(tmp_path, model, {"threads": 1}).load().known
    moved = model.with_name("renamed.gguf")
    model.rename(moved)
    assert CostStore(tmp_path, moved, {"threads": 2}).load().known  # the name says nothing
    moved.write_bytes(moved.read_bytes()[:-1] + b"x")
    assert not CostStore(tmp_path, moved, {"threads": 2}).load().known


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"ms": {"1": -1}}', '{"ms": {"a": 1}}', '{"ms": {"1": NaN, "4": 2}}', "\x00"]
)
def test_broken_file_is_measured_again(tmp_path: Path, model: Path, text: str) -> None:
    store = CostStore(tmp_path, model, {})
    assert store.path is not None
    store.path.write_text(text)
    assert not store.load().known
    store.save(CostTable(TIMES))
    assert json.loads(store.path.read_text())["ms"] == {"1": 10.0, "4": 12.0, "8": 20.0}


def test_small_changes_are_not_written(tmp_path: Path, model: Path) -> None:
    store = CostStore(tmp_path, model, {})
    store.save(CostTable(TIMES))
    assert store.path is not None
    store.path.unlink()
    store.save(CostTable({n: 1.05 * ms for n, ms in TIMES.items()}))
    assert not store.path.exists()
    store.save(CostTable({n: 1.2 * ms for n, ms in TIMES.items()}))
    assert store.path.exists()


def test_unwritable_place_is_no_error(tmp_path: Path, model: Path) -> None:
    (tmp_path / "file").write_text("")
    store = CostStore(tmp_path / "file" / "costs", model, {})
    assert not store.load().known
    store.save(CostTable(TIMES))
    absent = CostStore(tmp_path, tmp_path / "absent.gguf", {})
    assert not absent.load().known
    absent.save(CostTable(TIMES))


def test_measuring_leaves_no_trace() -> None:
    """The memory holds what it held, and the next logits are the same."""
    target, witness = (FakeContext(FakeModel(), n_ctx=64) for _ in range(2))
    for context in (target, witness):
        context.decode([5, 6, 7])
    ticks = iter(range(1000))
    found = measure_cost(target, clock=lambda: 0.01 * next(ticks))  # type: ignore[arg-type]
    assert sorted(found) == [1, 4, 8] and all(ms > 0 for ms in found.values())
    assert (target.seq_pos_max(0), target.n_cells) == (2, 3)
    for context in (target, witness):
        context.decode([8])
    assert target.logits(0).tolist() == witness.logits(0).tolist()


def test_slow_machines_measure_little() -> None:
    """Widths that would not be done within the limit are left out, the first one included after its first decode."""
    for tick, expected in ((0.01, [1, 4, 8]), (0.3, [1]), (0.12, [1])):
        target = FakeContext(FakeModel(), n_ctx=64)
        target.decode([5, 6, 7])
        ticks = iter(range(1000))
        found = measure_cost(target, clock=lambda tick=tick, ticks=ticks: tick * next(ticks))  # type: ignore[arg-type,misc]
        assert sorted(found) == expected
        assert target.n_cells == 3


def test_no_room_no_measurement() -> None:
    target = FakeContext(FakeModel(), n_ctx=8)
    target.decode([5, 6, 7])
    assert measure_cost(target) == {}  # type: ignore[arg-type]
    assert target.n_cells == 3
