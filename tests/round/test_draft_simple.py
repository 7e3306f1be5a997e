"""draft-simple: its context mirrors the history, evaluates nothing twice and never proposes what the target
lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyspec.drafters.draft_simple import DraftSimple
from pyspec.errors import OptionError, OutOfMemoryError, UnsupportedError
from pyspec.llm import drafter_set
from pyspec.llm.llm import LLM
from tests.fakes import (
    FakeContext,
    FakeCore,
    FakeModel,
    FakeVocab,
    default_texts,
    draft_choice,
    looping,
    shuffled,
)

PROMPT = [5, 6, 7, 8, 9]


def drafting(make_llm: Callable[..., LLM], agree: float, drafters: str, **options: Any) -> LLM:
    target = looping()
    return make_llm(
        target, FakeModel("draft.gguf", span=2, like=target, agree=agree), drafters=drafters, **options
    )


@pytest.mark.parametrize("n_draft", [1, 2, 5, 8])
@pytest.mark.parametrize("agree", [1.0, 0.8, 0.3, 0.0])
def test_no_token_is_evaluated_twice(make_llm: Callable[..., LLM], agree: float, n_draft: int) -> None:
    """The draft context computes every committed token once, and otherwise only drafts that were rejected."""
    llm = drafting(make_llm, agree, f"draft-simple:n_draft={n_draft},p_min=0")
    result = llm.generate(PROMPT, max_tokens=120, temperature=0)
    target, draft = llm.core.contexts
    stats = result.stats.drafters["draft-simple"]
    rejected = stats.drafted - stats.accepted
    assert draft.n_decoded <= len(PROMPT) + len(result.tokens) + rejected
    assert target.n_decoded <= len(PROMPT) + len(result.tokens) + rejected
    assert stats.accepted > 0 or agree == 0.0


def test_positions_before_and_after_each_round(make_llm: Callable[..., LLM]) -> None:
    """Invariants 11 and 12 in our form: the draft context may keep rows of the draft being verified (they are
    reused), but after the round it never reaches beyond the committed history."""
    llm = drafting(make_llm, 0.7, "draft-simple:n_draft=4,p_min=0")
    target, draft = llm.core.contexts
    seen: list[tuple[int, int]] = []

    def before(_: FakeContext, tokens: list[int]) -> None:
        committed = target.seq_pos_max(0)
        if draft.decodes:
            assert draft.seq_pos_max(0) <= committed + len(tokens)
            seen.append((committed, draft.seq_pos_max(0)))

    original = DraftSimple.commit

    class Checked(DraftSimple):
        def commit(self, verdict: Any, rows: Any, mine: bool) -> None:
            original(self, verdict, rows, mine)
            held = draft.seq_pos_max(0)
            assert held <= target.seq_pos_max(0)
            # p0 + min(m, k - 1): everything but the last draft token, which was never fed
            assert held == target.seq_pos_max(0) - int(verdict.n_accepted == len(verdict.draft) > 0)

    (member,) = llm._chain.members
    member.drafter.__class__ = Checked
    target.on_decode = before
    llm.generate(PROMPT, max_tokens=80, temperature=0)
    assert len(seen) > 20


@pytest.mark.parametrize("sampling", [{"temperature": 0}])
def test_the_targets_own_file_as_draft(make_llm: Callable[..., LLM], sampling: dict[str, Any]) -> None:
    """Invariant 40: greedy, everything that is not cut is accepted; the weights are shared, not loaded
    again.
    """
    llm = make_llm(looping(), draft="fake.gguf", drafters="draft-simple:n_draft=5,p_min=0")
    assert llm.core.opened == ["fake.gguf"] and llm.draft_model is llm.model
    for limit in (1, 2, 7, 100):
        stats = llm.generate(PROMPT, max_tokens=limit, **sampling).stats
        assert stats.accepted == stats.drafted
    assert stats.accepted > 70


@pytest.mark.parametrize(("p_min", "drafts"), [(0.0, True), (1.0, False)])
def test_p_min(make_llm: Callable[..., LLM], p_min: float, drafts: bool) -> None:
    """Invariant 39 and C016: low confidence stops a draft before the token is appended."""
    llm = drafting(make_llm, 1.0, f"draft-simple:n_draft=6,p_min={p_min}")
    stats = llm.generate(PROMPT, max_tokens=60, temperature=0).stats
    assert (stats.drafted > 0) == drafts
    if drafts:
        assert stats.drafters["draft-simple"].proposed_per_position[5] > 0


def test_confidence_decides_the_length() -> None:
    """Each draft is as long as the confidence stays at or above p_min, by the rule of the drafter reference
    (3.3).
    """
    model = looping()
    context = FakeContext(model, n_ctx=200)
    drafter = DraftSimple(
        context, n_allowed=48, is_end=model.is_eog, choose=draft_choice, n_draft=8, p_min=0.4, n_min=0
    )
    lengths = set()
    for seed in range(60):
        history = shuffled(seed, 6)
        drafter.begin(history)
        draft = drafter.propose(history, 7, 100)
        got = [] if draft is None else draft.tokens
        cells = [(t, i) for i, t in enumerate([*history, 7])]
        expected: list[int] = []
        while len(expected) < 8:
            reference = FakeContext(model, n_ctx=200)
            reference.decode([t for t, _ in cells])
            token, probability = draft_choice(reference, 0, 48)
            if probability < 0.4:
                break
            expected.append(token)
            cells.append((token, len(cells)))
            if model.is_eog(token):
                break
        assert got == expected
        lengths.add(len(got))
    assert len(lengths) >= 4, "the test data have too little variety"


def test_n_min_drops_short_drafts(make_llm: Callable[..., LLM]) -> None:
    llm = drafting(make_llm, 1.0, "draft-simple:n_draft=4,p_min=0,n_min=3")
    result = llm.generate(PROMPT, max_tokens=5, temperature=0)
    assert result.stats.drafters["draft-simple"].drafts == 1  # a draft of 3 and one more end the answer
    llm = drafting(make_llm, 1.0, "draft-simple:n_draft=2,p_min=0,n_min=3")
    assert llm.generate(PROMPT, max_tokens=20, temperature=0).stats.drafted == 0


@pytest.mark.parametrize("extra", [-5, 5, 128])
def test_padded_vocabularies(make_llm: Callable[..., LLM], extra: int) -> None:
    """C044 (vllm-project/vllm#7252): sizes differ by padding; the draft is forced to favour ids only it
    has.
    """
    target = looping()
    n = len(target.vocab.texts)
    texts = default_texts(n + extra)
    draft = FakeModel(
        "draft.gguf",
        vocab=FakeVocab(texts),
        span=2,
        like=target,
        boost=dict.fromkeys(range(n, n + extra), 1000.0),
    )
    llm = make_llm(target, draft, drafters="draft-simple:n_draft=4,p_min=0")
    result = llm.generate(PROMPT, max_tokens=60, temperature=0)
    assert result.tokens == llm.generate(PROMPT, max_tokens=60, temperature=0, drafters="none").tokens
    assert result.stats.parked_drafters == {}
    assert all(token < n for tokens in llm.core.contexts[0].decodes for token in tokens)
    assert result.stats.accepted > 0


def test_the_draft_context_is_small(make_llm: Callable[..., LLM]) -> None:
    """C084 (ggml-org/llama.cpp#25714): n_ctx follows the target; batch, output rows and compute buffer do
    not.
    """
    llm = drafting(make_llm, 1.0, "draft-simple", n_ctx=32768, n_batch=4096, n_ubatch=2048)
    target, draft = llm.core.contexts
    assert draft.n_ctx == target.n_ctx == 32768
    assert draft.max_outputs == 1
    assert draft.n_batch <= drafter_set.DRAFT_BATCH and draft.n_ubatch <= drafter_set.DRAFT_UBATCH
    assert llm.memory().draft.compute_bytes * 8 < llm.memory().target.compute_bytes


def test_memory_counts_the_drafter(make_llm: Callable[..., LLM]) -> None:
    """C086 (ggml-org/llama.cpp#23472): target and draft are both listed; shared weights count once."""
    llm = drafting(make_llm, 1.0, "draft-simple")
    use = llm.memory()
    target, draft = llm.core.contexts
    assert use.target == target.memory_report() and use.draft == draft.memory_report()
    assert use.weight_bytes == 2000
    assert use.cache_bytes == use.target.cache_bytes + use.draft.cache_bytes
    assert use.total_bytes == use.weight_bytes + use.cache_bytes + use.compute_bytes + use.output_bytes
    shared = make_llm(looping(), draft="fake.gguf")
    assert shared.memory().weight_bytes == 1000
    plain = make_llm(looping())
    assert plain.memory().draft is None


def test_too_large_a_draft_context_fails_with_numbers() -> None:
    """C086: at load, not at the first token; nothing stays open."""
    target, draft = looping(), FakeModel("draft.gguf", span=2)
    core = FakeCore(target, draft)

    def estimate(model: FakeModel, **options: Any) -> Any:
        report = FakeContext(model, **options).memory_report()
        report.available_bytes = 100
        return report

    backend = core.backend.__class__(
        **{n: getattr(core.backend, n) for n in core.backend.__slots__} | {"memory_estimate": estimate}
    )
    with pytest.raises(OutOfMemoryError, match=r"draft context needs .* MiB for n_ctx=4096"):
        LLM("fake.gguf", draft="draft.gguf", _backend=backend)
    assert core.contexts[0].closed and target.closed and draft.closed


def test_a_draft_that_cannot_trim_is_refused(make_llm: Callable[..., LLM]) -> None:
    """C067 on the draft's side: decided at construction."""
    with pytest.raises(UnsupportedError, match="draft model whose memory can be trimmed"):
        DraftSimple(
            FakeContext(looping(), n_ctx=50, memory_kind="test-full"),
            n_allowed=48,
            is_end=lambda token: False,
            choose=draft_choice,
        )


def test_longer_than_the_draft_context() -> None:
    """A draft context that is full gives no drafts, and no error."""
    context = FakeContext(looping(), n_ctx=10)
    drafter = DraftSimple(
        context, n_allowed=48, is_end=lambda t: False, choose=draft_choice, n_draft=4, p_min=0
    )
    for length, expected in ((5, 4), (7, 2), (8, 1), (9, 0), (30, 0)):
        history = shuffled(1, length)
        drafter.begin(history)
        draft = drafter.propose(history, 7, 100)
        assert (0 if draft is None else len(draft.tokens)) == expected


def test_n_draft_argument(make_llm: Callable[..., LLM]) -> None:
    target = looping()
    draft = FakeModel("draft.gguf", span=2, like=target)
    llm = make_llm(target, draft, n_draft=7)
    assert llm._chain.members[1].drafter.n_draft == 7
    llm = make_llm(target, draft, n_draft=7, drafters="draft-simple:n_draft=2")
    assert llm._chain.members[0].drafter.n_draft == 2
    llm = make_llm(target, draft, n_draft=7, drafters="none")
    assert llm.describe()["drafters"] == []
    for bad in (0, 1025, 2.5, True):
        with pytest.raises(OptionError, match="n_draft must be a whole number from 1 to 1024"):
            make_llm(target, draft, n_draft=bad)
    text = make_llm(target, n_draft=4, drafters="ngram-simple:n=2,m=20")
    result = text.generate([5, 6, 7] * 30, max_tokens=40, temperature=0)
    assert max(map(len, [result.stats.drafters["ngram-simple"].proposed_per_position])) <= 4
