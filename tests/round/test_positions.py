"""Positions, budget, hand-over and capability: invariants 10, 13, 16, 18, 23 and 27-30 of the verification
reference.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pyspec.drafters.base import Draft, Drafter
from pyspec.errors import InternalError, UnsupportedError
from pyspec.llm.llm import LLM
from pyspec.speculation.audit import audit
from pyspec.speculation.chain import Chain
from tests.fakes import FakeContext, FakeCore, FakeModel, looping
from tests.round.scripted import KINDS, Raising, Scripted, script

PROMPT = [5, 6, 7, 8, 9]


def plain_answer(n: int = 200) -> list[int]:
    with LLM("fake.gguf", _backend=FakeCore(looping()).backend) as llm:
        return llm.generate(PROMPT, max_tokens=n, temperature=0).tokens


@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_the_committed_history_after_every_round(make_llm: Callable[..., LLM], kind: str) -> None:
    """Invariants 10, 13, 16; C001: before each verification the memory holds exactly the committed tokens."""
    answer = plain_answer()
    llm = make_llm(looping())
    context: FakeContext = llm.core.contexts[0]
    rounds: list[int] = []

    def before(_: FakeContext, tokens: list[int]) -> None:
        held = [token for token, _ in context.cells]
        if len(held) >= len(PROMPT):
            assert held == (PROMPT + answer)[: len(held)]
            assert [position for _, position in context.cells] == list(range(len(held)))
            assert tokens[0] == answer[len(held) - len(PROMPT)]
            rounds.append(len(held))

    context.on_decode = before
    llm.generate(PROMPT, max_tokens=150, temperature=0, drafters=[script(kind, answer, len(PROMPT))])
    assert len(rounds) > 10 and rounds == sorted(set(rounds))


def test_the_verdict_says_what_was_kept(make_llm: Callable[..., LLM]) -> None:
    """Invariant 10: after accepting m of k the history grew by 1 + m tokens; invariant 30: one commit per
    round, mine.
    """
    answer = plain_answer()
    llm = make_llm(looping())
    drafter = Scripted(answer, len(PROMPT), 3, 8)
    result = llm.generate(PROMPT, max_tokens=100, temperature=0, drafters=[drafter])
    assert len(drafter.verdicts) == result.stats.rounds == drafter.proposed
    for verdict, mine in drafter.verdicts[:-3]:
        assert mine
        assert verdict.n_accepted == 3
        assert len(verdict.kept) == 4 and len(verdict.emitted) == 4
        assert verdict.emitted[:3] == verdict.draft[:3] == verdict.kept[1:]


@pytest.mark.parametrize(
    ("max_tokens", "n_ctx", "n_batch"), [(40, 1000, 100), (1000, 60, 100), (40, 1000, 4)]
)
def test_budget(make_llm: Callable[..., LLM], max_tokens: int, n_ctx: int, n_batch: int) -> None:
    """Invariant 28: drafts fit the token limit, the context and the batch; nobody is asked when there is no
    room.
    """
    answer = plain_answer()
    llm = make_llm(looping(), n_ctx=n_ctx, n_batch=n_batch)
    context: FakeContext = llm.core.contexts[0]
    drafter = Scripted(answer, len(PROMPT), 16, 16)
    result = llm.generate(PROMPT, max_tokens=max_tokens, temperature=0, drafters=[drafter])
    assert result.tokens == answer[: len(result.tokens)]
    assert min(drafter.limits) >= 1
    for verdict, _ in drafter.verdicts:
        assert len(verdict.draft) <= 16
    assert max(len(tokens) for tokens in context.decodes[1:]) <= min(n_batch, 17)
    assert max(drafter.limits) <= min(max_tokens, n_ctx - len(PROMPT), n_batch) - 1


class Named(Drafter):
    """Answers with a fixed draft and counts."""

    def __init__(self, name: str, priority: int, tokens: Sequence[int]) -> None:
        self.name, self.priority, self.tokens = name, priority, list(tokens)
        self.calls = 0
        self.mine: list[bool] = []

    def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
        self.calls += 1
        return Draft(list(self.tokens), self.name)

    def commit(self, verdict: Any, rows: Any, mine: bool) -> None:
        assert rows is None
        self.mine.append(mine)


def test_the_first_that_answers_owns_the_round(make_llm: Callable[..., LLM]) -> None:
    """Invariants 27 and 30: by priority whatever the order given; later ones are not asked; mine for exactly
    one.
    """
    silent, first, later = Named("silent", 1, []), Named("first", 2, [7, 7]), Named("later", 3, [8])
    llm = make_llm(looping())
    result = llm.generate(PROMPT, max_tokens=20, temperature=0, drafters=[later, first, silent])
    counters = result.stats.drafters
    assert list(counters) == ["silent", "first", "later"]
    assert counters["silent"].calls == counters["first"].calls == counters["first"].drafts > 0
    assert later.calls == counters["later"].calls == 0
    assert counters["silent"].drafts == 0
    n_drafted = sum(first.mine)
    assert n_drafted == counters["first"].drafts
    assert not any(silent.mine) and not any(later.mine)
    assert len(silent.mine) == len(first.mine) == len(later.mine) == result.stats.rounds


def test_drafts_are_cut_to_the_limit() -> None:
    """Invariant 29: the cut draft is what is verified and counted."""
    drafter = Named("long", 1, range(5, 25))
    chain = Chain([drafter], 48)
    chain.begin([1, 2], None)
    draft = chain.propose([1, 2], 3, 6)
    assert draft is not None and draft.tokens == [5, 6, 7, 8, 9, 10]
    assert chain.propose([1, 2], 3, 0) is None
    assert drafter.calls == 1
    full = Draft(
        [5, 6, 7], "long", confidence=[0.9, 0.8, 0.7], distributions=[[(5, 1.0)], [(6, 1.0)], [(7, 1.0)]]
    )
    full.cut(2)
    assert full == Draft([5, 6], "long", confidence=[0.9, 0.8], distributions=[[(5, 1.0)], [(6, 1.0)]])


@pytest.mark.parametrize("call", ["propose", "commit", "begin"])
def test_a_drafter_that_raises_is_parked(
    make_llm: Callable[..., LLM], call: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A drafter that fails is parked with one warning, the others and the text go on; statistics say so."""
    answer = plain_answer()
    broken = Raising(answer, len(PROMPT), 8, 8, call=call, after=2)
    healthy = Scripted(answer, len(PROMPT), 2, 4)
    llm = make_llm(looping())
    with caplog.at_level(logging.WARNING, "pyspec"):
        result = llm.generate(PROMPT, max_tokens=80, temperature=0, drafters=[broken, healthy])
    assert result.tokens == answer[:80]
    assert result.stats.active_drafters == ["scripted"]
    assert "RuntimeError: broken drafter" in result.stats.parked_drafters["raising"]
    assert len([r for r in caplog.records if "raising is parked" in r.message]) == 1
    assert result.stats.drafters["scripted"].accepted > 0


@pytest.mark.parametrize("bad", [[5, 48], [-1], [5, 10**9], ["x"]])
def test_impossible_ids_park_the_drafter(make_llm: Callable[..., LLM], bad: list[Any]) -> None:
    """C044: an id outside the target's vocabulary never reaches the target, whoever proposes it."""
    llm = make_llm(looping())
    result = llm.generate(PROMPT, max_tokens=20, temperature=0, drafters=[Named("bad", 1, bad)])
    assert result.tokens == plain_answer(20)
    assert list(result.stats.parked_drafters) == ["bad"]


@pytest.mark.parametrize("kind", ["test-full", "test-no"])
class TestMemoriesThatCannotTrim:
    """C005 (ml-explore/mlx-lm#1109), C067 (ml-explore/mlx-lm#1446), invariants 18 and 23."""

    def test_explicit_drafters_are_refused_at_construction(self, kind: str) -> None:
        core = FakeCore(looping())
        with pytest.raises(UnsupportedError, match="ngram-simple cannot work with this target"):
            LLM("fake.gguf", drafters="ngram-simple", memory_kind=kind, _backend=core.backend)
        assert core.contexts[0].closed and core.contexts[0].decodes == []

    def test_explicit_drafters_are_refused_per_call(self, make_llm: Callable[..., LLM], kind: str) -> None:
        llm = make_llm(looping(), memory_kind=kind)
        with pytest.raises(UnsupportedError):
            llm.generate(PROMPT, drafters=[script("adversary", plain_answer(), len(PROMPT))])

    def test_default_drafters_mean_plain_with_one_warning(
        self, make_llm: Callable[..., LLM], kind: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        draft = FakeModel("draft.gguf", span=2)
        core = FakeCore(looping(), draft)
        with caplog.at_level(logging.WARNING, "pyspec"):
            llm = make_llm(core=core, draft="draft.gguf", memory_kind=kind)
        assert len(caplog.records) == 1 and "decoding plainly" in caplog.text
        assert core.opened == ["fake.gguf"], "memory was spent on a draft that cannot be used"
        result = llm.generate(PROMPT, max_tokens=50, temperature=0)
        assert result.stats.active_drafters == []
        assert result.stats.rollback_mode == kind[5:].upper()
        assert result.tokens == plain_answer(50)

    def test_plain_calls_in_a_row(self, make_llm: Callable[..., LLM], kind: str) -> None:
        """Prompts that share a prefix, and stops: where nothing can be trimmed the prompt is processed
        again.
        """
        llm = make_llm(looping(), memory_kind=kind)
        first = llm.generate(PROMPT, max_tokens=10, temperature=0)
        longer = PROMPT + first.tokens + [9, 9]
        grown = llm.generate(longer, max_tokens=10, temperature=0)
        assert grown.stats.prompt_tokens_reused == len(PROMPT) + len(first.tokens) - 1
        other = llm.generate([5, 6, 9], max_tokens=10, temperature=0)
        assert other.stats.prompt_tokens_reused == 0
        fresh = make_llm(looping())
        assert grown.tokens == fresh.generate(longer, max_tokens=10, temperature=0).tokens
        assert other.tokens == fresh.generate([5, 6, 9], max_tokens=10, temperature=0).tokens


class TestAuditor:
    """The auditor itself can fail."""

    def test_each_disagreement_is_named(self) -> None:
        model = looping()
        context = FakeContext(model, n_ctx=100)
        context.decode([5, 6, 7])
        chain = Chain([Scripted([], 0, 0, 1)], 48)
        chain.begin([5, 6, 7], None)
        audit(history=[5, 6, 7], target=context, chain=chain)
        with pytest.raises(InternalError, match="target ends at position 2, the history at 1"):
            audit(history=[5, 6], target=context, chain=Chain([], 48))
        with pytest.raises(InternalError, match="told another history"):
            audit(history=[5, 6, 8], target=context, chain=chain)
        context.cells = [(5, 1), (6, 2)]
        with pytest.raises(InternalError, match="begins at position 1"):
            audit(history=[5, 6, 7], target=context, chain=Chain([], 48))
        context.cells = [(5, 0), (6, 2)]
        with pytest.raises(InternalError, match="2 cells for 3 tokens"):
            audit(history=[5, 6, 7], target=context, chain=Chain([], 48))

    def test_the_sampler_is_audited(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping())
        context: FakeContext = llm.core.contexts[0]

        def disturb(_: FakeContext) -> None:
            if len(context.decodes) == 5:
                llm.core.samplers[-1].advance(5)

        context.after_decode = disturb
        with pytest.raises(InternalError, match="sampler is at index"):
            llm.generate(PROMPT, max_tokens=30, temperature=0)

    def test_a_target_that_refuses_a_trim_its_probe_allowed(self, make_llm: Callable[..., LLM]) -> None:
        """An impossible answer of the memory is an error, never a silent wrong state; afterwards the LLM
        still works.
        """
        answer = plain_answer()
        llm = make_llm(looping())
        context: FakeContext = llm.core.contexts[0]
        context.memory_kind = "test-full"
        with pytest.raises(InternalError, match="refused to drop positions"):
            llm.generate(PROMPT, max_tokens=30, temperature=0, drafters=[script("3/8", answer, len(PROMPT))])
        assert llm.generate(PROMPT, max_tokens=30, temperature=0).tokens == answer[:30]
