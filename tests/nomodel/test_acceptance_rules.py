"""Acceptance rules as Python sees them: processors, masks, end ids, the rule of rejection, synthetic rates, refusals.
No model: rows are made up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from pyspec.core.accept import accept_processed, rejection_rule, synthetic_rates
from pyspec.core.context import Context
from pyspec.core.sampler import Sampler, SamplingParams, rejection_refusal
from pyspec.errors import OptionError, UnsupportedError

N = 40


class Rows:
    """The part of a context that acceptance reads."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows
        self.n_outputs, self.n_vocab = rows.shape

    def logits(self, i: int) -> np.ndarray:
        view = self.rows[i].view()
        view.flags.writeable = False
        return view


def made_up(n_rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1.5, (n_rows, N)).astype(np.float32)


def context_of(rows: np.ndarray) -> Context:
    return cast(Context, Rows(rows))


def plain(**changes: Any) -> SamplingParams:
    off: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    return SamplingParams(**{**off, **changes})


SETTINGS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.0},
    {"repeat_penalty": 1.5, "top_k": 5},
    {"mirostat": 2, "mirostat_tau": 2.0, "mirostat_eta": 0.5},
    {"dry_multiplier": 1.0, "dry_allowed_length": 1, "dry_sequence_breakers": [[3]]},
    {"xtc_probability": 0.5, "dynatemp_range": 0.4},
]


def no_threes(tokens: list[int], logits: np.ndarray) -> None:
    logits[3::7] = -math.inf


def favour_the_length(tokens: list[int], logits: np.ndarray) -> np.ndarray:
    changed = logits.astype(np.float64)
    changed[len(tokens) % N] += 2.5
    return changed


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_processors(settings: dict[str, Any], masked: bool) -> None:
    """Rows are processed one by one with the hypothetical history: blocks of drafts give what single tokens give."""
    rows = made_up(6, 1)
    masks = None
    if masked:
        masks = np.random.default_rng(2).integers(0, 2**32, (6, 2), dtype=np.uint32)
    processors = [no_threes, favour_the_length]
    alone = Sampler(plain(seed=4, **settings), N)
    truth: list[int] = []
    for i in range(6):
        mask = None if masks is None else masks[i]
        row = rows[i].copy()
        row[3::7] = -math.inf
        row[(10 + len(truth)) % N] += np.float32(2.5)
        truth.append(alone.sample_array(row, mask))
        alone.advance_from_array(row, truth[-1], mask)
    for n_right in range(6):
        draft = [*truth[:n_right], *[(token + 1) % N for token in truth[n_right:5]]]
        sampler = Sampler(plain(seed=4, **settings), N)
        history = list(range(10))
        tokens, accepted = accept_processed(
            sampler, context_of(rows), draft, processors, history=history, model=None, n_max=9, masks=masks
        )
        assert tokens == truth[: n_right + 1]
        assert accepted == n_right
        assert sampler.index == n_right + 1
        assert history == list(range(10))
    assert sampler.candidates_array(rows[0], N) == alone.candidates_array(rows[0], N)
    # Limits and end ids hold here too.
    for n_max, end_ids, n in ((2, None, 2), (9, {truth[3]}, truth.index(truth[3]) + 1)):
        sampler = Sampler(plain(seed=4, **settings), N)
        tokens, _ = accept_processed(
            sampler, context_of(rows), truth[:5], processors, history=list(range(10)), model=None, n_max=n_max,
            masks=masks, end_ids=end_ids,
        )  # fmt: skip
        assert tokens == truth[:n]


def test_processors_with_rejection() -> None:
    """Processed rows are the target's law of rejection sampling."""
    rows = made_up(3, 5)
    law = [(token, 1 / N) for token in range(N)]
    expected = Sampler(plain(seed=8), N)
    masked = rows.copy()
    masked[:, 3::7] = -math.inf
    whole = expected.accept_rejection(masked, [4, 9], [law, law], n_max=9)
    tokens, accepted = accept_processed(
        Sampler(plain(seed=8), N), context_of(rows), [4, 9], [no_threes], history=[], model=None, n_max=9,
        distributions=[law, law],
    )  # fmt: skip
    assert (tokens, accepted) == whole[:2]


class Trouble(Exception):
    pass


@pytest.mark.parametrize("where", range(3))
def test_a_processor_that_raises(where: int) -> None:
    """Its exception surfaces as it is, and the sampler is as before."""
    rows = made_up(3, 3)
    sampler = Sampler(plain(seed=1, repeat_penalty=1.3), N)
    sampler.advance(7)
    before = sampler.candidates_array(rows[0], N)
    probe = sampler.clone()
    draft = probe.accept_match(rows, [0, 0], n_max=1)[0]
    probe.rollback(1)
    draft += [probe.accept_match(rows, [draft[0], 0], n_max=2)[0][-1]]

    def fails(tokens: list[int], logits: np.ndarray) -> None:
        if len(tokens) == 1 + where:
            raise Trouble

    with pytest.raises(Trouble):
        accept_processed(sampler, context_of(rows), draft, [fails], history=[7], model=None, n_max=9)
    assert (sampler.index, sampler.n_history) == (1, 1)
    assert sampler.candidates_array(rows[0], N) == before


def test_processors_that_return_nonsense() -> None:
    rows = made_up(1, 3)
    sampler = Sampler(plain(), N)

    def run(processor: Callable[[list[int], np.ndarray], Any]) -> None:
        accept_processed(sampler, context_of(rows), [], [processor], history=[], model=None, n_max=1)

    with pytest.raises(OptionError, match=r"returned the shape \(3,\), expected \(40,\)"):
        run(lambda tokens, logits: logits[:3])
    with pytest.raises(OptionError, match="returned no row of logits"):
        run(lambda tokens, logits: "hello")
    with pytest.raises(OptionError, match="not a number"):
        run(lambda tokens, logits: logits * math.nan)
    assert sampler.n_history == 0


def test_masks_and_end_ids() -> None:
    rows = made_up(3, 6)
    masks = np.zeros((3, 2), dtype=np.int32)
    masks[0, 0], masks[1, 1], masks[2, 0] = 1 << 9, 1 << 7, -(2**31)
    for dtype in (np.int32, np.uint32):
        sampler = Sampler(SamplingParams(seed=1), N)
        bits = masks.view(dtype)
        assert sampler.accept_match(rows, [9, 39], n_max=9, masks=bits) == ([9, 39, 31], 2)
        sampler.rollback(3)
        assert sampler.accept_match(rows, [9, 39], n_max=9, masks=bits, end_ids={39, 5}) == (
            [9, 39],
            2,
        )
        assert sampler.sample_array(rows[0], bits[2]) == 31
        assert sampler.candidates_array(rows[0], mask=bits[1]) == [(39, 1.0)]
    sampler = Sampler(SamplingParams(seed=1), N)
    none = np.zeros((1, 2), dtype=np.uint32)
    with pytest.raises(OptionError, match="mask and -infinity forbid all 40"):
        sampler.sample_array(rows[0], none)
    with pytest.raises(OptionError, match=r"masks are uint32 \(2, 2\), expected .* \(3, 2\)"):
        sampler.accept_match(rows, [1, 2], n_max=9, masks=np.zeros((2, 2), dtype=np.uint32))
    assert sampler.accept_match(rows, [9, 39], n_max=2, masks=masks[:2])[0] == [
        9,
        39,
    ]  # enough for n_max
    sampler.reset()
    for bad in (np.zeros((3, 1), np.uint32), np.zeros((3, 2), np.int64), np.zeros((2, 3), np.int32).T):
        with pytest.raises(OptionError, match="masks are"):
            sampler.accept_match(rows, [1, 2], n_max=9, masks=cast(Any, bad))
    assert sampler.n_history == 0


def test_rejection_rule() -> None:
    """The worked example: p = (.1, .5, .4), q = (.5, .4, .1)."""
    p, q = [(0, 0.1), (1, 0.5), (2, 0.4)], [(2, 0.1), (1, 0.4), (0, 0.5)]
    assert [rejection_rule(p, q, token)[0] for token in range(4)] == [0.2, 1.0, 1.0, 0.0]
    _, residual = rejection_rule(p, q, 0)
    assert [token for token, _ in residual] == [0, 1, 2]
    assert [value for _, value in residual] == pytest.approx([0, 0.25, 0.75])
    assert rejection_rule(p, p, 1) == (1.0, p)  # nothing is left: p itself
    assert rejection_rule(p, [(7, 1.0)], 7) == (0.0, p)


def test_rejection_is_refused_before_generation() -> None:
    assert rejection_refusal(plain()) is None
    assert rejection_refusal(plain(mirostat=2, temperature=0.0)) is None
    reason = rejection_refusal(plain(mirostat=2))
    assert reason is not None and "mirostat" in reason
    rows = made_up(2, 1)
    sampler = Sampler(plain(mirostat=2), N)
    with pytest.raises(UnsupportedError, match="mirostat cannot be combined"):
        sampler.accept_rejection(rows, [1], [[(1, 1.0)]], n_max=2)
    with pytest.raises(OptionError, match=r"add up to 0\.5"):
        Sampler(plain(), N).accept_rejection(rows, [1], [[(1, 0.5)]], n_max=2)
    with pytest.raises(OptionError, match="0 distributions were given for 1"):
        Sampler(plain(), N).accept_rejection(rows, [1], [], n_max=2)
    assert sampler.n_history == 0


def test_synthetic_rates() -> None:
    """Invariant 47, the inputs."""
    assert synthetic_rates(4, length=3.4) == pytest.approx([0.80581, 0.64933, 0.52323, 0.42163], abs=1e-5)
    assert synthetic_rates(3, length=1) == [0, 0, 0]
    assert synthetic_rates(3, length=4) == [1, 1, 1]
    assert synthetic_rates(2, rates=[0.5, 0.5]) == [0.5, 0.5]
    for bad, message in (
        ({}, "either length= or rates="),
        ({"length": 2, "rates": [1, 1]}, "either length= or rates="),
        ({"length": 3.5}, "mean length is 3.5; allowed: 1 to 3"),
        ({"length": math.nan}, "mean length is nan"),
        ({"rates": [0.5]}, "1 synthetic rates were given for drafts of 2"),
        ({"rates": [0.5, 0.6]}, "synthetic rate 2 is 0.6; allowed: 0 to 0.5"),
        ({"rates": [1.5, 0.6]}, "synthetic rate 1 is 1.5"),
        ({"rates": [0.5, math.inf]}, "synthetic rate 2 is inf"),
        ({"rates": [math.nan, 0]}, "synthetic rate 1 is nan"),
    ):
        with pytest.raises(OptionError, match=message):
            synthetic_rates(2, **cast(Any, bad))
    with pytest.raises(OptionError, match="longest draft is 0"):
        synthetic_rates(0, length=1)
    rows = made_up(4, 2)
    sampler = Sampler(plain(seed=2), N)
    assert sampler.accept_synthetic(rows, [1, 2, 3], [1, 1, 1], n_max=9)[1] == 3
    assert sampler.index == 4
    sampler.reset()
    tokens, accepted = sampler.accept_synthetic(rows, [1, 2, 3], [1, 1, 1], n_max=9, end_ids=[2])
    assert (tokens[0], accepted) == (1, 1)
    sampler.reset()
    assert sampler.accept_replay(rows, [5, 6, 7], n_max=9)[:3] == [5, 6, 7]
    assert sampler.index == 4


def test_mirostat_needs_the_row() -> None:
    sampler = Sampler(plain(mirostat=2), N)
    sampler.advance(3, prompt=True)
    with pytest.raises(OptionError, match="advance_from"):
        sampler.advance(3)
    assert sampler.index == 0
    drafting = sampler.for_drafting()
    drafting.advance(3)  # a guess: the state is the target's at the next follow
    drafting.follow(sampler)
    assert drafting.index == 0


def test_lookback() -> None:
    """How much of the prompt a sampler must be told."""
    assert plain().lookback == 0
    assert plain(repeat_penalty=1.1).lookback == 64
    assert plain(presence_penalty=0.1, penalty_last_n=-1).lookback == -1
    assert plain(penalty_last_n=-1).lookback == 0
    assert plain(dry_multiplier=1.0).lookback == 64
    assert plain(dry_multiplier=1.0, dry_penalty_last_n=200, repeat_penalty=1.1).lookback == 200
    assert plain(dry_multiplier=1.0, dry_penalty_last_n=-1, repeat_penalty=1.1).lookback == -1


def test_breakers() -> None:
    with pytest.raises(OptionError, match=r"breaker '\\n' is a string: pass Sampler\(..., model=\)"):
        Sampler(plain(dry_multiplier=1.0), N)
    with pytest.raises(OptionError, match="token 40; allowed: 0 to 39"):
        Sampler(plain(dry_multiplier=1.0, dry_sequence_breakers=[[40]]), N)
    with pytest.raises(OptionError, match="empty breaker"):
        Sampler(plain(dry_multiplier=1.0, dry_sequence_breakers=[""]), N)
    with pytest.raises(OptionError, match="expected a list of strings"):
        Sampler(plain(dry_multiplier=1.0, dry_sequence_breakers="\n"), N)
    with pytest.raises(OptionError, match="dry_sequence_breakers"):
        Sampler(plain(dry_multiplier=1.0, dry_sequence_breakers=[["a"]]), N)
    Sampler(plain(), N)  # off: breakers are not looked at
