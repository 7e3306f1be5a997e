"""Medians, quartiles, ratios of pairs, and rates of answers."""

from __future__ import annotations

import pytest

from tools.bench.result import Result
from tools.bench.speculation import rate
from tools.bench.stats import Summary, pair_ratios, quantile, summary


def test_quantiles_are_interpolated() -> None:
    assert quantile([5.0], 0.95) == 5.0
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert quantile([1.0, 2.0, 3.0, 4.0, 5.0], 0.25) == 2.0
    assert quantile([10.0, 20.0], 0.95) == pytest.approx(19.5)
    assert quantile([3.0, 1.0, 2.0], 0.0) == 1.0
    assert quantile([3.0, 1.0, 2.0], 1.0) == 3.0


def test_summary() -> None:
    assert summary([7.0, 1.0, 3.0, 5.0, 9.0]) == Summary(median=5.0, q1=3.0, q3=7.0, n=5)


@pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1.0], -0.1), ([1.0], 1.5)])
def test_impossible_quantiles(values: list[float], share: float) -> None:
    with pytest.raises(ValueError):
        quantile(values, share)


def test_ratio_above_one_means_we_are_faster() -> None:
    # times: we need 2 s where the peer needs 4; speeds: we make 30 tokens a second where the peer makes 20
    assert pair_ratios([2.0, 4.0], [4.0, 4.0], rates=False) == [2.0, 1.0]
    assert pair_ratios([30.0], [20.0], rates=True) == [1.5]


@pytest.mark.parametrize(("ours", "peers"), [([1.0], [1.0, 2.0]), ([0.0], [1.0]), ([1.0], [-1.0])])
def test_what_is_no_pair_is_refused(ours: list[float], peers: list[float]) -> None:
    with pytest.raises(ValueError):
        pair_ratios(ours, peers, rates=False)


def test_the_ratio_is_the_median_over_pairs() -> None:
    """The median of ratios, not the ratio of medians: a slow spell during one pair does not move it."""
    result = Result("tn", "m")
    result.add("1", [1.0, 10.0, 2.0], [2.0, 20.0, 3.0], rates=False)
    result.publish()
    assert result.pyspec == {"1": 2.0}
    assert result.peer == {"1": 3.0}
    assert result.ratio == {"1": 2.0}
    assert result.median("ratio", "1") == 2.0
    assert result.median("ratio", "2") is None


def test_without_a_peer_there_is_no_ratio() -> None:
    result = Result("decode", "m")
    result.add("tok_s", [10.0, 12.0], [], rates=True)
    result.publish()
    assert (result.pyspec, result.peer, result.ratio) == ({"tok_s": 11.0}, {}, {})


def test_rate_counts_tokens_behind_the_first_over_both_answers() -> None:
    answers = [{"tokens": [1, 2, 3], "seconds": 1.0}, {"tokens": [4] * 11, "seconds": 2.0}]
    assert rate(answers) == 4.0
    assert rate([{"tokens": [1], "seconds": 0.0}]) is None
    assert rate([{"tokens": [], "seconds": 0.0}]) is None
