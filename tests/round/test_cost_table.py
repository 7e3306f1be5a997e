"""T(n) as the controller believes it: interpolation, learning, strays."""

from __future__ import annotations

import pytest

from pyspec.speculation.cost_table import CostTable


def test_cost_table_interpolates_and_extrapolates() -> None:
    table = CostTable({1: 10.0, 4: 13.0, 8: 21.0})
    assert [table.time(n) for n in (1, 2, 4, 6, 8, 10)] == pytest.approx([10, 11, 13, 17, 21, 25])
    assert table.measured and not CostTable({1: 1.0}).measured and not CostTable().known
    for bad in ({0: 1.0}, {1: 0.0}, {1: float("inf")}, {1: float("nan")}):
        with pytest.raises(ValueError, match="cost table"):
            CostTable(bad)


def test_cost_table_learns() -> None:
    table = CostTable({1: 10.0, 4: 13.0, 8: 21.0})
    for _ in range(60):
        table.observe(4, 26.0)
    assert 1.8 < table.time(4) / 13.0 < 2.2
    assert 1.2 < table.time(1) / 10.0 < 2.2  # the machine is slower, most likely
    for _ in range(200):
        table.observe(1, 10.0)
        table.observe(4, 26.0)
    assert table.time(1) == pytest.approx(10.0, rel=0.1) and table.time(4) == pytest.approx(26.0, rel=0.1)
    times = [table.time(n) for n in range(1, 40)]
    assert times == sorted(times)


def test_cost_table_takes_the_least_of_first_times() -> None:
    """The first decode of a width builds its graph."""
    table = CostTable({1: 10.0, 8: 20.0})
    for ms in (39.0, 14.0, 15.0):
        table.observe(4, ms)
    assert table.time(4) == pytest.approx(14.0, rel=0.03)


def test_frozen_table_stays() -> None:
    table = CostTable({1: 10.0, 8: 20.0}, frozen=True)
    table.observe(1, 100.0)
    assert table.time(1) == 10.0


def test_a_spike_changes_nothing_and_a_slower_machine_does() -> None:
    table = CostTable({1: 10.0, 4: 13.0, 8: 20.0})
    before = table.times()
    for ms in (500.0, 13.0, 400.0, 13.0, 13.0, 0.1, 13.0):
        table.observe(4, ms)
    assert table.times() == pytest.approx(before)
    for _ in range(3):
        table.observe(4, 52.0)
    assert table.times() == pytest.approx({n: 4 * ms for n, ms in before.items()})
    for _ in range(3):
        table.observe(8, 20.0)
    assert table.times() == pytest.approx(before)


def test_strays_to_both_sides_are_noise() -> None:
    table = CostTable({1: 10.0, 4: 13.0})
    for _ in range(20):
        table.observe(1, 40.0)
        table.observe(1, 2.0)
    assert table.time(1) == pytest.approx(10.0)


def test_a_width_never_seen_that_is_far_too_fast() -> None:
    """Then the table is another machine's: the scale follows, and a width is added only when it fits."""
    table = CostTable({1: 100.0, 8: 200.0})
    for _ in range(4):
        table.observe(16, 30.0)
    assert table.time(16) == pytest.approx(30.0, rel=0.1)
    assert table.time(1) == pytest.approx(100.0 * 30.0 / (200.0 + 8 * 100.0 / 7), rel=0.1)


def test_one_width_that_is_far_off_is_corrected() -> None:
    """Other widths are as expected meanwhile: it is this one, and not the machine."""
    table = CostTable({1: 10.0, 8: 20.0})
    for _ in range(12):
        table.observe(8, 60.0)
        table.observe(1, 10.0)
    assert table.time(8) == pytest.approx(60.0, rel=0.1) and table.time(1) == pytest.approx(10.0, rel=0.1)
    assert not table.doubtful


@pytest.mark.parametrize(("plain", "eight"), [(10.0, 60.0), (30.0, 60.0)])
def test_a_jump_is_confirmed_by_a_plain_round(plain: float, eight: float) -> None:
    """Three wide rounds that are far off say that the machine changed, or that width: a plain round tells."""
    table = CostTable({1: 10.0, 8: 20.0})
    for _ in range(3):
        assert not table.doubtful
        table.observe(8, 60.0)
    assert table.doubtful
    table.observe(1, plain)
    assert not table.doubtful
    assert table.time(1) == pytest.approx(plain, rel=0.05) and table.time(8) == pytest.approx(eight, rel=0.05)


def test_a_width_seen_first_on_a_bad_moment_is_found_out() -> None:
    """The first time of a width is believed up to twice what was expected, whatever it was; later ones correct that."""
    for truth, moments in ((70.0, [70.0]), (25.0, [400.0])):
        table = CostTable({1: 10.0, 4: 10.0})
        for ms in (*moments, *[truth] * 12):
            table.observe(32, ms)
            table.observe(1, 10.0)
        assert table.time(32) == pytest.approx(truth, rel=0.25) and table.time(1) == pytest.approx(
            10.0, rel=0.1
        )
