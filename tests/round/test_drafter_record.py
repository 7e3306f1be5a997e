"""What the controller keeps about drafters: calibration, judgement, and the bank that bounds their losses."""

from __future__ import annotations

import pytest

from pyspec.drafters.base import Draft
from pyspec.speculation.bank import LIMIT, MARGIN, START, LossBank
from pyspec.speculation.calibration import Calibration
from pyspec.speculation.drafter_record import DrafterRecord


def test_calibration_learns_reached_places_only() -> None:
    calibration = Calibration()
    for _ in range(200):
        calibration.observe(0, 0.9, accepted=False)
        calibration.observe(0, 0.5, accepted=True)
    assert calibration.corrected(0, 0.9) < 0.2 < 0.8 < calibration.corrected(0, 0.5)
    assert calibration.corrected(0, 0.1) == pytest.approx(0.1, rel=0.1)  # nothing was seen there
    assert calibration.corrected(3, 0.9) == pytest.approx(0.9, rel=0.1)
    fresh = Calibration()
    fresh.observe(0, 0.6, accepted=True)
    assert 0.6 < fresh.corrected(0, 0.6) < 0.9  # one observation moves it, not far


def test_later_places_are_expected_to_be_what_they_were() -> None:
    """Good at first tokens only: what speaks for the first place says little about the second."""
    calibration = Calibration()
    calibration.expect(0.9, 16.0)
    assert calibration.expected(3) == pytest.approx([0.9, 0.9, 0.9])
    for number in range(40):
        calibration.observe(0, None, accepted=True)
        calibration.observe(1, None, accepted=number % 2 == 0)
    first, second = calibration.expected(2)
    assert first > 0.9 and second < 0.72


def test_places_behind_a_wrong_guess_are_not_judged() -> None:
    """The target went elsewhere: whether later guesses equal what it says there means nothing."""
    record, fresh = DrafterRecord(), DrafterRecord()
    for emitted in ([9, 2, 3], [9], [2, 3]) * 20:
        record.proposed(Draft([1, 2, 3], "guess"))
        record.follow(emitted)
    assert record.calibration.corrected(0, None) < 0.2 < fresh.calibration.corrected(0, None)
    for place in (1, 2):
        assert record.calibration.corrected(place, None) == fresh.calibration.corrected(place, None)


def test_a_drafter_is_called_strange_only_with_evidence() -> None:
    for right, judged, strange in (
        (0, 3, False), (0, 6, False), (0, 7, True), (1, 7, True), (2, 7, False), (4, 20, True), (5, 20, False),
    ):  # fmt: skip
        record = DrafterRecord()
        for number in range(judged):
            record.proposed(Draft([1], "guess"))
            record.follow([1 if number < right else 2])
        assert (record.judged, record.right) == (judged, right)
        assert record.is_strange == strange


def test_bank_covers_and_settles() -> None:
    bank = LossBank()
    assert bank.balance == START and bank.covers(10.0 + START * 10, 10.0)
    assert not bank.covers(10.2 + START * 10, 10.0)
    bank.settle(1, 50.0, 10.0)
    assert bank.balance == pytest.approx(START + 1 + MARGIN - 5)
    bank.settle(1, 500.0, 10.0)
    assert bank.balance == 0.0 and bank.covers(10.0, 10.0) and not bank.covers(10.2, 10.0)
    for _ in range(1000):
        bank.settle(5, 10.0, 10.0)
    assert bank.balance == LIMIT
    assert bank.covers(7.9, 1.0) and bank.covers(7900.0, 1000.0)  # a slower machine: the same in tokens
