"""Statistics: invariants 41 and 42, C090 (abetlen/llama-cpp-python#2110: counters that tell why there is no
gain).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspec.llm.llm import LLM
from pyspec.speculation.chain import Chain
from pyspec.speculation.stats import RoundLog, Stats
from tests.fakes import FakeModel, looping
from tests.round.scripted import KINDS, Scripted, script

PROMPT = [5, 6, 7, 8, 9]


@pytest.mark.parametrize("kind", KINDS)
def test_identities(make_llm: Callable[..., LLM], kind: str) -> None:
    """Invariants 41 and 42."""
    llm = make_llm(looping())
    answer = llm.generate(PROMPT, max_tokens=100, temperature=0).tokens
    result = llm.generate(PROMPT, max_tokens=100, temperature=0, drafters=[script(kind, answer, len(PROMPT))])
    stats = result.stats
    (counter,) = stats.drafters.values()
    assert len(result.tokens) == 1 + stats.rounds + stats.accepted
    assert stats.chosen == 1 + stats.rounds
    assert stats.accepted <= stats.drafted
    assert sum(counter.per_position) == counter.accepted == stats.accepted
    assert sum(counter.proposed_per_position) == counter.drafted == stats.drafted
    assert counter.per_position == sorted(counter.per_position, reverse=True)
    assert counter.drafts == stats.verifications <= counter.calls
    if stats.verifications:
        assert stats.mean_acceptance_length == 1 + sum(counter.per_position) / stats.verifications
    else:
        assert stats.mean_acceptance_length == 1.0
    assert stats.prompt_tokens_reused + stats.prompt_tokens_evaluated == len(PROMPT)


def test_phases_and_names(make_llm: Callable[..., LLM]) -> None:
    """C090: rounds, drafted, accepted, per-drafter counts, milliseconds per phase, tokens per second are all
    there.
    """
    target = looping()
    draft = FakeModel("draft.gguf", span=2, like=target, agree=0.9)
    llm = make_llm(target, draft, drafters="draft-simple")
    result = llm.generate(PROMPT, max_tokens=60, temperature=0)
    stats = result.stats
    assert stats.active_drafters == ["draft-simple"] and stats.parked_drafters == {}
    assert stats.rollback_mode == "PART"
    for value in (stats.prompt_ms, stats.draft_ms, stats.verify_ms, stats.accept_ms, stats.tokens_per_second):
        assert value > 0
    assert stats.generation_ms >= stats.draft_ms + stats.verify_ms + stats.accept_ms - 0.01
    assert 0 < stats.drafters["draft-simple"].ms <= stats.draft_ms
    assert llm.stats is stats


def test_sums_of_answers_keep_the_speed(make_llm: Callable[..., LLM]) -> None:
    """The first token of each answer came with its prompt, and an empty answer has none."""
    llm = make_llm(looping(), drafters="none")
    total = Stats(generations=0)
    for n in (40, 0, 1, 25):
        total.add(llm.generate(PROMPT, max_tokens=n, temperature=0).stats)
    assert total.generations == 4 and total.chosen == 66 and total.timed_tokens == 39 + 24
    assert total.tokens_per_second == pytest.approx(63 / (total.generation_ms / 1e3))


@pytest.mark.parametrize(
    ("n_tokens", "rounds", "drafted", "accepted", "chosen"),
    [
        # rounds: (owner, drafted, accepted, emitted)
        (9, [(0, 4, 4, 5), (0, 4, 2, 3)], 8, 6, 3),  # nothing cut
        (8, [(0, 4, 4, 5), (0, 4, 2, 3)], 8, 6, 2),  # the own choice of the last round was cut
        (
            7,
            [(0, 4, 4, 5), (0, 4, 2, 3)],
            5,
            5,
            2,
        ),  # a stop inside the accepted part: what follows is not counted
        (6, [(0, 4, 4, 5), (0, 4, 2, 3)], 4, 4, 2),
        (3, [(0, 4, 4, 5), (0, 4, 2, 3)], 2, 2, 1),  # a stop string that reaches back into an earlier round
        (0, [(0, 4, 4, 5)], 0, 0, 0),
        (3, [(0, 4, 3, 3)], 2, 2, 1),  # an end token was drafted, accepted and closed the block
    ],
)
def test_counting_after_a_cut(
    n_tokens: int, rounds: list[tuple[int, int, int, int]], drafted: int, accepted: int, chosen: int
) -> None:
    """C029 and C035: tokens behind a stop are in no counter."""
    log, stats = RoundLog(), Stats()
    for entry in rounds:
        log.add(*entry)
    log.count(stats, Chain([Scripted([], 0, 0, 1)], 48), 1, n_tokens)
    assert (stats.drafted, stats.accepted, stats.chosen) == (drafted, accepted, chosen)
    assert stats.accepted + stats.chosen == n_tokens
