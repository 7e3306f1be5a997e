"""What stays in memory between calls: C093 (bstnxbt/dflash-mlx#19), C094, invariants 17 and 49, C105."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from pyspec.errors import FileFormatError
from pyspec.llm.llm import LLM
from tests.fakes import FakeContext, FakeModel, looping, shuffled
from tests.round.scripted import Scripted

DRAFTERS = ["none", "suffix:p_min=0.1", "ngram-simple:n=2,m=8", "draft-simple:n_draft=4,p_min=0"]


def make(make_llm: Callable[..., LLM], drafters: str, **options: Any) -> LLM:
    target = looping()
    draft = FakeModel("draft.gguf", span=2, like=target, agree=0.8) if "draft" in drafters else None
    return make_llm(target, draft, drafters=drafters, **options)


@pytest.mark.parametrize("drafters", DRAFTERS)
def test_the_second_turn_evaluates_only_what_is_new(make_llm: Callable[..., LLM], drafters: str) -> None:
    """C093: turn 2 of a conversation, on target and draft."""
    llm = make(make_llm, drafters)
    prompt = shuffled(1, 1000)
    first = llm.generate(prompt, max_tokens=50, temperature=0)
    before = [context.n_decoded for context in llm.core.contexts]
    question = [9, 10, 11]
    second = llm.generate(prompt + first.tokens + question, max_tokens=1, temperature=0)
    assert second.stats.prompt_tokens_evaluated <= len(question) + 1
    assert second.stats.prompt_tokens_reused >= len(prompt) + len(first.tokens) - 1
    spent = [context.n_decoded - n for context, n in zip(llm.core.contexts, before, strict=True)]
    assert max(spent) <= len(question) + 1
    third = llm.generate(prompt + first.tokens + question, max_tokens=20, temperature=0)
    assert third.stats.prompt_tokens_evaluated == 1
    if len(llm.core.contexts) == 2:
        counters = third.stats.drafters["draft-simple"]
        spent_on_draft = llm.core.contexts[1].n_decoded - before[1]
        assert spent_on_draft <= len(question) + 1 + 20 + counters.drafted + 5


@pytest.mark.parametrize("drafters", DRAFTERS)
def test_the_same_request_twice(make_llm: Callable[..., LLM], drafters: str) -> None:
    """C093 and invariant 49: one token is evaluated again, and answer and draft counts are the same. A drafter that
    remembers (suffix) may draft otherwise the second time, but always the same after the same requests: C017
    (ggml-org/llama.cpp#19164).
    """
    llm = make(make_llm, drafters)
    prompt = shuffled(2, 300)
    runs = [llm.generate(prompt, max_tokens=40, seed=5) for _ in range(3)]
    assert runs[0].tokens == runs[1].tokens == runs[2].tokens
    assert [run.stats.prompt_tokens_evaluated for run in runs] == [300, 1, 1]
    counts = [(run.stats.drafted, run.stats.accepted, run.stats.rounds) for run in runs]
    if "suffix" in drafters:
        other = make(make_llm, drafters)
        again = [other.generate(prompt, max_tokens=40, seed=5).stats for _ in range(3)]
        assert counts == [(stats.drafted, stats.accepted, stats.rounds) for stats in again]
    else:
        assert counts[0] == counts[1] == counts[2]


def test_one_draft_context_whatever_the_options(make_llm: Callable[..., LLM]) -> None:
    """Calls with other options of the draft model's drafter share its context and what it has read, and each has its own
    options, the LLM's default, too."""
    llm = make(make_llm, "draft-simple:n_draft=2,p_min=0")
    prompt = shuffled(2, 100)
    answers, before = [], 0
    for n_draft in (2, 3, None, 5, 2, None):
        requested = None if n_draft is None else f"ngram-simple,draft-simple:n_draft={n_draft},p_min=0"
        answers.append(llm.generate(prompt, max_tokens=20, temperature=0, drafters=requested))
        assert [context.closed for context in llm.core.contexts] == [0, 0]
        counters = answers[-1].stats.drafters["draft-simple"]
        assert counters.drafted > 0 and len(counters.proposed_per_position) == (n_draft or 2)
        read, before = llm.core.contexts[1].n_decoded - before, llm.core.contexts[1].n_decoded
        assert (read >= 100) == (len(answers) == 1)
    assert all(answer.tokens == answers[0].tokens for answer in answers)


@pytest.mark.parametrize("drafters", DRAFTERS)
def test_random_conversations_equal_cold_starts(make_llm: Callable[..., LLM], drafters: str) -> None:
    """Invariant 17, C105: whatever was asked, stopped, cut or cancelled before, the answer is that of a new
    session.
    """
    rng = random.Random(7)
    llm = make(make_llm, drafters)
    cold = make_llm(looping(), drafters="none")
    prompt = shuffled(3, 20)
    for turn in range(60):
        kind = rng.randrange(5)
        if kind == 0:
            prompt = prompt[: rng.randrange(1, len(prompt) + 1)] + shuffled(turn, rng.randrange(1, 6))
        elif kind == 1:
            prompt = shuffled(turn + 100, rng.randrange(1, 40))
        call: dict[str, Any] = {"max_tokens": rng.randrange(0, 40), "seed": turn}
        if kind == 2:
            call["stop_token_ids"] = [rng.randrange(5, 48) for _ in range(4)]
        if kind == 3:
            call["stop"] = ["a", "tok"]
        if kind == 4:
            stream = llm.stream(prompt, **call)
            for _ in range(rng.randrange(3)):
                next(stream, None)
            stream.close()
        got = llm.generate(prompt, **call)
        cold.reset()
        expected = cold.generate(prompt, **call)
        assert expected.stats.prompt_tokens_reused == 0
        assert got.tokens == expected.tokens and got.text == expected.text
        assert got.finish_reason == expected.finish_reason
        prompt = prompt + got.tokens if len(prompt) < 200 else shuffled(turn, 20)


@pytest.mark.parametrize("drafters", DRAFTERS)
def test_cancel_at_random_points_of_a_prefill(make_llm: Callable[..., LLM], drafters: str) -> None:
    """C105 (ikawrakow/ik_llama.cpp#1787): 50 trials; the books agree afterwards and the flag does not
    stick.
    """
    rng = random.Random(5)
    llm = make(make_llm, drafters, n_batch=16)
    context: FakeContext = llm.core.contexts[0]
    expected = make_llm(looping()).generate(shuffled(9, 400), max_tokens=15, temperature=0).tokens
    for trial in range(50):
        at = rng.randrange(1, 40)
        n_calls = 0

        def interrupt(_: FakeContext, tokens: list[int], at: int = at) -> None:
            nonlocal n_calls
            n_calls += 1
            if n_calls == at:
                llm.cancel()

        context.on_decode = interrupt
        prompt = shuffled(trial + 50, rng.randrange(1, 100)) if trial % 2 else shuffled(9, 400)
        result = llm.generate(prompt, max_tokens=30, temperature=0)
        assert (result.finish_reason == "cancelled") == (n_calls >= at)
        context.on_decode = None
        again = llm.generate(shuffled(9, 400), max_tokens=15, temperature=0)
        assert again.finish_reason == "length" and again.tokens == expected


def test_cancel_while_drafting_does_not_park_the_drafter(make_llm: Callable[..., LLM]) -> None:
    """C105: a draft that stops because the user cancelled is not a failing drafter."""
    llm = make(make_llm, "draft-simple:n_draft=4,p_min=0")
    draft: FakeContext = llm.core.contexts[1]

    def interrupt(_: FakeContext, tokens: list[int]) -> None:
        if len(draft.decodes) == 5:
            llm.cancel()

    draft.on_decode = interrupt
    assert llm.generate([5, 6, 7], max_tokens=40, temperature=0).finish_reason == "cancelled"
    draft.on_decode = None
    again = llm.generate([5, 6, 7], max_tokens=40, temperature=0)
    assert again.stats.active_drafters == ["draft-simple"] and again.stats.accepted > 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("drafters", DRAFTERS)
def test_interrupts_anywhere_leave_the_session_usable(
    make_llm: Callable[..., LLM], drafters: str, where: str, error: type[BaseException]
) -> None:
    """C106 (shakfu/cyllama#8) and invariant 50: an interrupt before or after the n-th decode, of target or
    draft, comes out as it is (a failing draft is parked instead); the next call answers as if nothing had
    happened."""
    prompt = shuffled(4, 40)
    expected = make_llm(looping()).generate(prompt, max_tokens=30, temperature=0).tokens
    for side in range(2 if "draft" in drafters else 1):
        for at in range(1, 14, 3):
            llm = make(make_llm, drafters, n_batch=16)
            context: FakeContext = llm.core.contexts[side]
            n_calls = 0

            def strike(*_: Any, at: int = at) -> None:
                nonlocal n_calls
                n_calls += 1
                if n_calls == at:
                    raise error("struck")

            if where == "before":
                context.on_decode = strike
            else:
                context.after_decode = strike
            parked = side == 1 and error is RuntimeError
            try:
                result = llm.generate(prompt, max_tokens=30, temperature=0)
                assert parked and result.tokens == expected
            except error:
                assert not parked
            context.on_decode = context.after_decode = None
            again = llm.generate(prompt, max_tokens=30, temperature=0)
            assert again.tokens == expected


@pytest.mark.parametrize("source", DRAFTERS)
@pytest.mark.parametrize("goal", DRAFTERS)
def test_saved_sessions(make_llm: Callable[..., LLM], source: str, goal: str) -> None:
    """C094 (ml-explore/mlx-examples#1155): saved with or without a draft, loaded with or without one: both
    work, the draft catches up."""
    llm = make(make_llm, source)
    prompt = shuffled(6, 50)
    first = llm.generate(prompt, max_tokens=30, temperature=0)
    state = llm.save_state()
    other = make(make_llm, goal)
    other.generate(shuffled(8, 30), max_tokens=5)
    other.load_state(state)
    following = prompt + first.tokens + [9, 9]
    got = other.generate(following, max_tokens=30, temperature=0)
    assert got.stats.prompt_tokens_reused == len(prompt) + len(first.tokens) - 1
    assert got.tokens == make_llm(looping()).generate(following, max_tokens=30, temperature=0).tokens
    if "draft" in goal:
        assert got.stats.accepted > 0


@pytest.mark.parametrize(
    "state",
    [b"", b"PYSPECS2", b"PYSPECS2" + b"\xff" * 8, b"PYSPECS2" + b"\0\0\0\0\1\0\0\0FAKE", b"nonsense" * 4],
)
def test_broken_states_are_refused(make_llm: Callable[..., LLM], state: bytes) -> None:
    llm = make_llm(looping())
    expected = llm.generate([5, 6, 7], max_tokens=10, temperature=0).tokens
    with pytest.raises(FileFormatError):
        llm.load_state(state)
    assert llm.generate([5, 6, 7], max_tokens=10, temperature=0).tokens == expected


def test_reset(make_llm: Callable[..., LLM]) -> None:
    llm = make_llm(looping())
    llm.generate([5, 6, 7], max_tokens=10)
    llm.reset()
    assert llm.core.contexts[0].n_cells == 0
    assert llm.generate([5, 6, 7], max_tokens=10).stats.prompt_tokens_reused == 0


def test_a_drafter_of_another_call_is_brought_up_to_date(make_llm: Callable[..., LLM]) -> None:
    """Drafters that were not asked for a while get the whole history from begin."""
    llm = make_llm(looping())
    recorded = llm.generate([5, 6, 7], max_tokens=60, temperature=0).tokens
    drafter = Scripted(recorded, 3, 4, 4)
    llm.generate([5, 6, 7], max_tokens=20, temperature=0, drafters=[drafter])
    llm.generate([9, 9, 9], max_tokens=20, temperature=0)
    result = llm.generate([5, 6, 7], max_tokens=60, temperature=0, drafters=[drafter])
    assert result.tokens == recorded and result.stats.parked_drafters == {}
