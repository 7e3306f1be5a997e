"""LLM on the real core with tiny models of every family: stops, limits, memories and sessions with drafters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyspec.llm.llm import LLM
from tests.conftest import TinyFiles
from tests.round.scripted import script

from .test_lossless import TEXT


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_the_targets_own_file_as_draft(open_llm: Callable[..., LLM], tiny: TinyFiles, family: str) -> None:
    """Invariant 40: everything that is not cut is accepted."""
    llm = open_llm(family, draft={}, drafters="draft-simple:n_draft=5,p_min=0")
    assert llm.draft_model is llm.model
    stats = llm.generate(TEXT, max_tokens=80, temperature=0).stats
    assert stats.accepted == stats.drafted > 0


@pytest.mark.parametrize("kind", ["adversary", "2/6"])
def test_past_the_sliding_window(open_llm: Callable[..., LLM], kind: str) -> None:
    """C066 (ml-explore/mlx-lm#1423, #1427, #1486): rejected drafts leave no trace while an answer of 300
    tokens runs past the window many times over."""
    llm = open_llm("gemma3")
    assert 0 < llm.model.info.sliding_window < 64
    call: dict[str, Any] = {"max_tokens": 300, "temperature": 0.9, "seed": 11, "logit_bias": _no_end(llm)}
    plain = llm.generate(TEXT, **call)
    assert len(plain.tokens) == 300
    drafter = script(kind, plain.tokens, plain.usage.prompt)
    spec = llm.generate(TEXT, drafters=[drafter], **call)
    assert spec.tokens == plain.tokens
    assert spec.stats.accepted < spec.stats.drafted


def _no_end(llm: LLM) -> dict[int, float]:
    """A bias that forbids every end token, so that an answer reaches its length."""
    return dict.fromkeys(llm.model.vocab.eog, float("-inf"))


@pytest.mark.parametrize("kind", ["oracle", "3/8", "none"])
def test_stops_at_every_alignment(
    open_llm: Callable[..., LLM], kind: str, count_cases: Callable[[int], None]
) -> None:
    """C029, C030, C035 and invariant 17 on the core: tokens and strings of the plain run become stops."""
    llm = open_llm("llama")
    call: dict[str, Any] = {"max_tokens": 40, "temperature": 0, "logprobs": 0}
    plain = llm.generate(TEXT, **call)
    n_prompt = plain.usage.prompt
    prompt = llm.tokenize(TEXT)
    for place in range(1, 18):
        drafters: Any = "none" if kind == "none" else [script(kind, plain.tokens, n_prompt)]
        end = plain.tokens[place]
        got = llm.generate(TEXT, stop_token_ids=[end], drafters=drafters, **call)
        assert got.tokens == plain.tokens[: plain.tokens.index(end)]
        assert got.stopped_by == end and len(got.logprobs) == len(got.tokens) == got.usage.completion
        for n in (1, 2, 3):
            stop = llm.detokenize(plain.tokens[place : place + n], continuation=True)
            if not stop or "\ufffd" in stop:
                continue
            got = llm.generate(TEXT, stop=stop, drafters=drafters, **call)
            assert got.text == plain.text[: plain.text.index(stop)]
            assert got.tokens == plain.tokens[: len(got.tokens)]
            assert len(got.logprobs) == len(got.tokens) == got.usage.completion
            again = llm.generate(prompt + got.tokens + [5], max_tokens=4, temperature=0)
            assert again.stats.prompt_tokens_evaluated <= 2
            llm.reset()
            cold = llm.generate(prompt + got.tokens + [5], max_tokens=4, temperature=0)
            assert again.tokens == cold.tokens
            count_cases(1)


@pytest.mark.parametrize("drafters", ["none", "ngram-simple:n=2,m=8", "draft-simple:n_draft=8,p_min=0"])
@pytest.mark.parametrize("n_prompt", [100, 126, 127, 128])
def test_end_of_the_context(open_llm: Callable[..., LLM], drafters: str, n_prompt: int) -> None:
    """C059, invariant 44: the same number of tokens as plain, no decode error."""
    llm = open_llm("qwen2", n_ctx=128, draft={"dtype": "q4_0"}, drafters="none")
    prompt = (llm.tokenize(TEXT) * 10)[:n_prompt]
    assert len(prompt) == n_prompt
    plain = llm.generate(prompt, temperature=0)
    spec = llm.generate(prompt, temperature=0, drafters=drafters)
    assert spec.tokens == plain.tokens and spec.finish_reason == plain.finish_reason
    assert plain.usage.total <= 128


@pytest.mark.parametrize("drafters", ["none", "ngram-simple:n=2,m=8", "draft-simple:n_draft=8,p_min=0"])
def test_prompts_longer_than_a_batch(open_llm: Callable[..., LLM], drafters: str) -> None:
    """C075: n_batch 64, prompts of 64, 65, 200 and 1,000 tokens."""
    small = open_llm("llama", n_ctx=1200, n_batch=64, draft={"dtype": "q4_0"}, drafters="none")
    large = open_llm("llama", n_ctx=1200)
    for n in (64, 65, 200, 1000):
        prompt = (large.tokenize(TEXT) * 60)[:n]
        expected = large.generate(prompt, max_tokens=20, temperature=0)
        assert (
            small.generate(prompt, max_tokens=20, temperature=0, drafters=drafters).tokens == expected.tokens
        )


@pytest.mark.parametrize("kind", ["test-full", "test-no"])
def test_memories_that_cannot_trim(open_llm: Callable[..., LLM], kind: str) -> None:
    """C005, C067 and invariant 18 on the core's test memories."""
    from pyspec.errors import UnsupportedError

    with pytest.raises(UnsupportedError, match="cannot work with this target"):
        open_llm("llama", memory_kind=kind, drafters="ngram-simple")
    llm = open_llm("llama", memory_kind=kind, draft={"dtype": "q4_0"})
    normal = open_llm("llama")
    assert llm.draft_model is None
    for text in (TEXT, TEXT + " there", "The cat"):
        got = llm.generate(text, max_tokens=10, temperature=0)
        assert got.stats.active_drafters == [] and got.stats.rollback_mode == kind[5:].upper()
        assert got.tokens == normal.generate(text, max_tokens=10, temperature=0).tokens


def test_saved_sessions(open_llm: Callable[..., LLM]) -> None:
    """C094: saved without a draft, loaded with one, and the other way round."""
    without = open_llm("llama")
    with_draft = open_llm("llama", draft={"dtype": "q4_0"}, drafters="draft-simple:p_min=0")
    for source, goal in ((without, with_draft), (with_draft, without)):
        first = source.generate(TEXT, max_tokens=20, temperature=0)
        goal.load_state(source.save_state())
        following = source.tokenize(TEXT) + first.tokens + [9, 10]
        got = goal.generate(following, max_tokens=20, temperature=0)
        assert got.stats.prompt_tokens_evaluated <= 3
        assert got.tokens == source.generate(following, max_tokens=20, temperature=0).tokens


def test_pair_rules_on_files(tiny: TinyFiles) -> None:
    """C043, C045: the report of two real files of different tokenizers, without their weights."""
    from pyspec.drafters.pair import check_pair

    assert check_pair(tiny.path("llama"), tiny.path("llama", dtype="q4_0")).ok
    report = check_pair(tiny.path("llama"), tiny.path("gemma3"))
    rules = {failure.rule for failure in report.failures}
    assert {"tokenizer kind", "token text"} <= rules and "ngram-simple" in str(report)


def test_memory_report(open_llm: Callable[..., LLM]) -> None:
    """C084, C086: both models are in the report; the draft context is small."""
    llm = open_llm("llama", n_ctx=512, draft={"dtype": "q4_0"})
    use = llm.memory()
    assert use.draft is not None and use.draft.compute_bytes < use.target.compute_bytes
    assert use.draft.output_bytes < use.target.output_bytes
    assert use.total_bytes > use.target.cache_bytes + use.draft.cache_bytes


def test_lower_level_loop(tiny: TinyFiles) -> None:
    """The parts are public: a loop of one's own with Model, Context, Sampler and a Drafter gives LLM's
    answer.
    """
    import pyspec
    from pyspec.drafters.base import Verdict
    from pyspec.drafters.ngram_simple import NgramSimple

    path = tiny.path("llama")
    with pyspec.LLM(path, n_ctx=512, n_threads=1) as llm:
        expected = llm.generate(TEXT, max_tokens=40, temperature=0).tokens
    with pyspec.Model(path) as model, pyspec.Context(model, n_ctx=512, n_threads=1) as context:
        history = model.tokenizer.encode(TEXT)
        context.decode(history)
        sampler = pyspec.Sampler(pyspec.SamplingParams(temperature=0), context.n_vocab)
        drafter = NgramSimple(n=1, m=4)
        drafter.begin(history)
        answer, _ = sampler.accept_match(context, [], model=model, n_max=1)
        while len(answer) < 40:
            proposal = (
                drafter.propose(history, answer[-1], 40 - len(answer) - 1) if len(answer) < 39 else None
            )
            draft = proposal.tokens[: 39 - len(answer)] if proposal else []
            context.decode([answer[-1], *draft], outputs="all")
            emitted, n_accepted = sampler.accept_match(context, draft, model=model, n_max=40 - len(answer))
            kept = [answer[-1], *emitted[:-1]]
            history += kept
            assert context.seq_rm(0, len(history), -1)
            drafter.commit(Verdict(kept, emitted, draft, n_accepted), None, True)
            answer += emitted
    assert answer[: len(expected)] == expected


@pytest.mark.parametrize("kind", ["oracle", "ngram-simple:n=4,m=16"])
def test_a_drafter_that_is_right_for_long(open_llm: Callable[..., LLM], kind: str) -> None:
    """C001 (ggml-org/llama.cpp#10547): 300 tokens with drafts of 16 that are all right; a prompt of random
    hex lines. Plain text, no decode error, memory and history agree after every round (the auditor), accepted
    = drafted for the oracle."""
    import random

    rng = random.Random(1)
    lines = "\n".join("".join(rng.choice("0123456789abcdef") for _ in range(16)) for _ in range(30))
    llm = open_llm("llama", n_ctx=2048)
    never_end = dict.fromkeys(llm.model.vocab.eog, float("-inf"))
    call: dict[str, Any] = {"max_tokens": 300, "temperature": 0, "logit_bias": never_end}
    prompt = lines + "\nRepeat the lines.\n" + lines[:40]
    plain = llm.generate(prompt, **call)
    assert len(plain.tokens) == 300
    oracle = kind == "oracle"
    drafters: Any = [script("16/16", plain.tokens, plain.usage.prompt)] if oracle else kind
    spec = llm.generate(prompt, drafters=drafters, **call)
    assert spec.tokens == plain.tokens
    assert spec.stats.drafted > 0
    if oracle:
        assert spec.stats.accepted == spec.stats.drafted > 250
        assert spec.stats.rounds < 25
