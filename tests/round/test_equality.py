"""Speculation never changes the text: every drafter, every mode, against plain decoding with the same call.

Invariants 1, 2, 3, 43 and 44 of the verification reference, on the fake core (tests/fakes.py); the auditor
runs after every round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyspec.llm.llm import LLM
from tests.fakes import FakeCore, FakeModel, looping, shuffled
from tests.round.scripted import KINDS, script

PROMPT = [5, 6, 7, 8, 9]

MODES: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "seeded": {"temperature": 0.8, "seed": 11},
    "hot": {"temperature": 2.0, "top_k": 0, "seed": 12},
    "repeat penalty": {"temperature": 0, "repeat_penalty": 1.6},
    "frequency penalty": {"temperature": 0, "frequency_penalty": 2.5},
    "presence penalty": {"temperature": 0, "presence_penalty": 4.0, "penalty_last_n": -1},
    "bias": {"temperature": 0.5, "seed": 3, "logit_bias": {9: 4.0, 10: float("-inf")}},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_scripted_drafters_equal_plain(make_llm: Callable[..., LLM], kind: str, mode: str) -> None:
    """Invariants 1 and 2; C001 (oracle, never a decode error), C031 (penalties count per token)."""
    llm = make_llm(looping())
    call = {"max_tokens": 120, **MODES[mode]}
    plain = llm.generate(PROMPT, drafters="none", logprobs=3, **call)
    assert len(plain.tokens) == 120
    drafter = script(kind, plain.tokens, len(PROMPT))
    spec = llm.generate(PROMPT, drafters=[drafter], logprobs=3, **call)
    assert spec.tokens == plain.tokens
    assert spec.text == plain.text
    assert spec.logprobs == plain.logprobs
    assert spec.finish_reason == plain.finish_reason
    if kind == "oracle":
        assert spec.stats.accepted == spec.stats.drafted > 80
        assert spec.stats.rounds < 20
    if kind == "adversary":
        assert spec.stats.accepted == 0 < spec.stats.drafted


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "options",
    [
        {"drafters": "suffix"},
        {"drafters": "suffix:m=5,p_min=0,memory=1"},
        {"drafters": "ngram-simple:n=1,m=4"},
        {"drafters": "ngram-simple:n=2,m=8"},
        {"drafters": "ngram-map-k:n=1,m=4"},
        {"drafters": "ngram-map-k4v:n=2,m=6"},
        {"drafters": "ngram-mod:n_match=2,n_min=0,n_max=8"},
        {"drafters": "ngram-cache"},
        {"drafters": "ngram-simple:n=3,m=3,draft-simple:n_draft=4,p_min=0"},
        {"drafters": "draft-simple:n_draft=1,p_min=0"},
        {"drafters": "draft-simple:n_draft=8,p_min=0,n_min=3"},
        {"drafters": "draft-simple"},
    ],
    ids=lambda o: o["drafters"],
)
def test_real_drafters_equal_plain(make_llm: Callable[..., LLM], options: dict[str, Any], mode: str) -> None:
    """Invariants 1, 2 and 3; C031 with draft-simple."""
    target = looping()
    with_draft = "draft-simple" in options["drafters"]
    draft = FakeModel("draft.gguf", span=2, like=target, agree=0.7) if with_draft else None
    llm = make_llm(target, draft, **options)
    call = {"max_tokens": 150, **MODES[mode]}
    spec = llm.generate(PROMPT, **call)
    plain = llm.generate(PROMPT, drafters=[], **call)
    assert spec.tokens == plain.tokens
    assert spec.text == plain.text
    if mode == "greedy":
        assert spec.stats.accepted > 0, "the drafter never drafted: the test tests nothing"


@pytest.mark.parametrize("n_draft", [1, 3, 8, 16, 64, 128])
def test_every_draft_length_works(make_llm: Callable[..., LLM], n_draft: int) -> None:
    """C020 (ggml-org/llama.cpp#25719): long drafts get the rows they need; the fake context asserts its
    reservations.
    """
    target = looping()
    draft = FakeModel("draft.gguf", span=2, like=target)
    llm = make_llm(target, draft, drafters=f"draft-simple:n_draft={n_draft},p_min=0")
    spec = llm.generate(PROMPT, max_tokens=300, temperature=0)
    assert spec.tokens == llm.generate(PROMPT, max_tokens=300, temperature=0, drafters="none").tokens
    counters = spec.stats.drafters["draft-simple"]
    assert len(counters.per_position) == n_draft
    assert spec.stats.accepted == spec.stats.drafted


@pytest.mark.parametrize("n_batch", [1, 2, 5, 64])
@pytest.mark.parametrize("n_prompt", [1, 64, 65, 200, 1000])
@pytest.mark.parametrize(
    "drafters", ["none", "suffix:p_min=0", "ngram-simple:n=2,m=8", "draft-simple:n_draft=8,p_min=0"]
)
def test_prompts_longer_than_a_batch(
    make_llm: Callable[..., LLM], n_batch: int, n_prompt: int, drafters: str
) -> None:
    """C075 (ggml-org/llama.cpp#9963): prompts are split by n_batch, and a verification group never is."""
    target = looping()
    draft = FakeModel("draft.gguf", span=2, like=target, agree=0.8) if "draft" in drafters else None
    llm = make_llm(target, draft, drafters=drafters, n_batch=n_batch)
    prompt = shuffled(n_prompt, n_prompt)
    reference = make_llm(looping(), n_batch=4096)
    expected = reference.generate(prompt, max_tokens=20, temperature=0)
    got = llm.generate(prompt, max_tokens=20, temperature=0)
    assert got.tokens == expected.tokens
    assert got.stats.prompt_tokens_evaluated == n_prompt


@pytest.mark.parametrize("kind", ["oracle", "adversary", "3/8"])
@pytest.mark.parametrize("max_tokens", [-1, None, 0, 1, 2, 8, 9, 50])
def test_token_limit(make_llm: Callable[..., LLM], kind: str, max_tokens: int | None) -> None:
    """Invariant 43; C041 (ml-explore/mlx-lm#1591): unlimited is unlimited, 0 is nothing, no overshoot in the
    memory.
    """
    llm = make_llm(looping(), n_ctx=128)
    plain = llm.generate(PROMPT, max_tokens=max_tokens, temperature=0, drafters="none")
    recorded = llm.generate(PROMPT, temperature=0, drafters="none").tokens
    drafter = script(kind, recorded, len(PROMPT))
    spec = llm.generate(PROMPT, max_tokens=max_tokens, temperature=0, drafters=[drafter])
    n = 128 - len(PROMPT) if max_tokens in (-1, None) else max_tokens
    assert len(spec.tokens) == len(plain.tokens) == n
    assert spec.tokens == plain.tokens
    assert spec.finish_reason == plain.finish_reason == "length"
    assert llm.core.contexts[0].n_cells <= len(PROMPT) + max(0, n - 1)


@pytest.mark.parametrize("n_prompt", [1, 100, 120, 126, 127, 128])
@pytest.mark.parametrize("kind", ["oracle", "adversary", "1/1", "0/1", "3/16", "16/16"])
def test_end_of_the_context(make_llm: Callable[..., LLM], n_prompt: int, kind: str) -> None:
    """Invariant 44; C059 (ggml-org/llama.cpp#10547): drafts shrink to what fits, finish 'length' at the same
    token.
    """
    llm = make_llm(looping(), n_ctx=128)
    prompt = shuffled(3, n_prompt)
    plain = llm.generate(prompt, temperature=0, drafters="none")
    spec = llm.generate(prompt, temperature=0, drafters=[script(kind, plain.tokens, n_prompt)])
    assert len(plain.tokens) == 128 - n_prompt
    assert spec.tokens == plain.tokens
    assert spec.finish_reason == plain.finish_reason == "length"
    assert spec.usage.total == 128


def test_drafters_can_be_switched_off_for_one_call(make_llm: Callable[..., LLM]) -> None:
    """C091 (ggml-org/llama.cpp#23052): plain in between; the next speculative call drafts as if nothing had
    happened.
    """
    target = looping()
    draft = FakeModel("draft.gguf", span=2, like=target, agree=0.8)

    def run(switch: bool) -> tuple[list[int], float]:
        llm = make_llm(target, draft, drafters="draft-simple:n_draft=4,p_min=0")
        first = llm.generate(PROMPT, max_tokens=80, temperature=0)
        prompt = PROMPT + first.tokens + [9, 9]
        if switch:
            off = llm.generate(prompt, max_tokens=60, temperature=0, drafters=[])
            assert off.stats.active_drafters == [] and off.stats.drafted == 0
        last = llm.generate(prompt, max_tokens=60, temperature=0)
        if switch:
            assert last.tokens == off.tokens
        return last.tokens, last.stats.acceptance

    tokens, acceptance = run(switch=True)
    always, reference = run(switch=False)
    assert tokens == always
    assert acceptance == pytest.approx(reference, abs=0.05)


def test_the_fake_model_notices_cache_errors() -> None:
    """The tests of this folder rest on it: a stale, a missing and a misplaced cell each change the logits."""
    for span in (None, 2):
        model = FakeModel(span=span)
        cells = [(5, 0), (6, 1), (7, 2), (8, 3)]
        right = model.logits(cells)
        for wrong in (
            [(5, 0), (6, 1), (7, 2), (9, 3)],
            [(5, 0), (6, 1), (8, 2)],
            [(5, 0), (6, 1), (8, 3)],
            [(5, 0), (6, 1), (7, 2), (7, 2), (8, 3)],
        ):
            assert (model.logits(wrong) != right).any()


def test_a_silent_trim_is_noticed(make_llm: Callable[..., LLM]) -> None:
    """C005 (ml-explore/mlx-lm#1109): a memory that says yes to a trim and does nothing is caught by the
    auditor.
    """
    llm = make_llm(looping(), memory_kind="silent")
    recorded = list(range(5, 45))
    with pytest.raises(Exception, match="audit: target ends at position"):
        llm.generate(
            PROMPT, max_tokens=30, temperature=0, drafters=[script("adversary", recorded, len(PROMPT))]
        )


def test_core_is_only_reached_through_the_backend() -> None:
    """The fakes replace the whole core: nothing native is loaded for these tests."""
    core = FakeCore(FakeModel())
    with LLM("fake.gguf", _backend=core.backend) as llm:
        llm.generate(PROMPT, max_tokens=3)
    assert core.opened == ["fake.gguf"] and len(core.contexts) == 1
