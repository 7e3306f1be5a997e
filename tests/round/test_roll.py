"""The end of the context: `on_full` "stop", "error" and "roll" with every drafter, on the fake core.

Invariant 45 of the verification reference, and 44 and 46 where rolls touch them. Measures: plain decoding with the same
call, and a loop of our own that decodes token by token and rolls by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyspec.drafters.draft_simple import DraftSimple
from pyspec.drafters.ngram_simple import NgramSimple
from pyspec.drafters.registry import DRAFTER_KINDS, parse_drafters
from pyspec.errors import ContextFullError, OptionError, UnsupportedError
from pyspec.llm.context_end import most_kept
from pyspec.llm.llm import LLM
from tests.fakes import FakeContext, FakeModel, FakeVocab, default_texts, looping, shuffled
from tests.round.scripted import KINDS, script
from tests.round.test_equality import MODES
from tests.round.test_stops import readable

N_CTX = 64
PROMPT = [1, 5, 6, 7, 8, 9]  # begins with BOS

REAL = [
    "ngram-simple:n=1,m=4",
    "ngram-simple:n=3,m=12",
    "draft-simple:n_draft=4,p_min=0",
    "draft-simple:n_draft=16,p_min=0.3",
    "ngram-simple:n=2,m=8,draft-simple:n_draft=3,p_min=0",
]


def by_hand(model: FakeModel, prompt: list[int], n: int, n_ctx: int, keep: int, discard: int) -> list[int]:
    """Greedy decoding, one token at a time, rolled when no cell is free."""
    context = FakeContext(model, n_ctx=n_ctx, n_batch=n_ctx)
    context.decode(prompt)
    out: list[int] = []
    while True:
        out.append(int(np.argmax(context.logits(0))))
        if len(out) == n:
            return out
        if context.n_cells == n_ctx:
            assert context.seq_rm(0, keep, keep + discard)
            assert context.seq_add(0, keep + discard, -1, -discard)
        context.decode([out[-1]])


def drafting(make_llm: Callable[..., LLM], drafters: str, **options: Any) -> LLM:
    target = looping()
    draft = FakeModel("draft.gguf", span=2, like=target, agree=0.8) if "draft-simple" in drafters else None
    return make_llm(target, draft, drafters=drafters, n_ctx=N_CTX, **options)


@pytest.mark.parametrize(
    ("options", "n_prompt", "keep", "discard"),
    [
        ({}, 6, 1, 31),
        ({"n_keep": 0}, 6, 1, 31),
        ({"n_keep": 4}, 20, 4, 30),
        ({"n_keep": 40}, 20, 20, 22),
        ({"n_keep": -1}, 20, 20, 22),
        ({"n_keep": -1}, 64, 48, 8),
        ({"n_discard": 1}, 64, 1, 1),
        ({"n_keep": 2, "n_discard": 62}, 6, 2, 62),
        ({"n_discard": 1000}, 30, 1, 63),
    ],
)
def test_what_a_roll_keeps(
    make_llm: Callable[..., LLM], options: dict[str, int], n_prompt: int, keep: int, discard: int
) -> None:
    """BOS always stays, n_keep of the prompt, at most three quarters of the context; half of the rest leaves."""
    prompt = [1, *shuffled(n_prompt, n_prompt - 1)]
    n = 4 * N_CTX
    for model in (looping(), looping(span=None, seed=4)):
        llm = make_llm(model, n_ctx=N_CTX)
        got = llm.generate(prompt, max_tokens=n, temperature=0, on_full="roll", **options)
        assert got.tokens == by_hand(model, prompt, n, N_CTX, keep, discard)
        assert got.finish_reason == "length"
        decoded = n_prompt + n - 1
        assert got.stats.context_rolls == max(0, -(-(decoded - N_CTX) // discard))
        assert llm.core.contexts[0].n_cells == decoded - got.stats.context_rolls * discard


def test_nothing_is_kept_without_bos(make_llm: Callable[..., LLM]) -> None:
    prompt = shuffled(3, 10)
    llm = make_llm(looping(), n_ctx=N_CTX)
    got = llm.generate(prompt, max_tokens=200, temperature=0, on_full="roll")
    assert got.tokens == by_hand(looping(), prompt, 200, N_CTX, 0, N_CTX // 2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_scripted_drafters_equal_plain(make_llm: Callable[..., LLM], kind: str, mode: str) -> None:
    """Invariant 45: four times the context, every alignment of drafts with its end; penalties and seeds reach back past
    rolls."""
    for target, lengths in ((looping(), (3, 64)), (looping(span=None, seed=5), (63,))):
        llm = make_llm(target, n_ctx=N_CTX)
        for n_prompt in lengths:
            prompt = [1, *shuffled(n_prompt, n_prompt - 1)]
            call = {"max_tokens": 4 * N_CTX, "on_full": "roll", "n_keep": 3, "logprobs": 2, **MODES[mode]}
            plain = llm.generate(prompt, drafters="none", **call)
            assert len(plain.tokens) == 4 * N_CTX or plain.finish_reason == "stop"
            spec = llm.generate(prompt, drafters=[script(kind, plain.tokens, n_prompt)], **call)
            assert spec.tokens == plain.tokens
            assert spec.text == plain.text
            assert spec.logprobs == plain.logprobs
            assert spec.finish_reason == plain.finish_reason
            assert spec.stats.context_rolls == plain.stats.context_rolls
            if kind == "oracle":
                assert spec.stats.accepted == spec.stats.drafted > 0


def test_memory_after_every_roll(make_llm: Callable[..., LLM]) -> None:
    """Invariant 45: rolls happen when every cell is in use, never earlier, and speculative runs roll at the same
    tokens."""
    seen: dict[str, list[tuple[int, list[int]]]] = {}
    plain: list[int] = []
    for kind in ("none", "oracle", "3/8", "16/16"):
        llm = make_llm(looping(), n_ctx=N_CTX)
        context: FakeContext = llm.core.contexts[0]
        original = context.seq_add
        rolls: list[tuple[int, list[int]]] = seen.setdefault(kind, [])

        def seq_add(
            seq_id: int,
            p0: int,
            p1: int,
            delta: int,
            *,
            context: FakeContext = context,
            original: Any = original,
            rolls: Any = rolls,
        ) -> bool:
            if delta:
                assert context.n_cells == N_CTX + delta
                rolls.append((delta, [token for token, _ in context.cells]))
            return bool(original(seq_id, p0, p1, delta))

        context.seq_add = seq_add  # type: ignore[method-assign]
        drafters: Any = "none" if kind == "none" else [script(kind, plain, len(PROMPT))]
        result = llm.generate(PROMPT, max_tokens=300, temperature=0, on_full="roll", drafters=drafters)
        plain = plain or result.tokens
    assert len(seen["none"]) > 5
    assert all(rolls == seen["none"] for rolls in seen.values())


@pytest.mark.parametrize("mode", ["greedy", "seeded", "repeat penalty"])
@pytest.mark.parametrize("drafters", REAL)
def test_real_drafters_equal_plain(make_llm: Callable[..., LLM], drafters: str, mode: str) -> None:
    """Invariant 45; C060 (ggml-org/llama.cpp#21815): 1,000 tokens, drafting goes on after each roll, the draft context
    rolls too and the auditor finds every owner in agreement with the history."""
    llm = drafting(make_llm, drafters)
    call = {"max_tokens": 1000, "on_full": "roll", **MODES[mode]}
    spec = llm.generate(PROMPT, **call)
    plain = llm.generate(PROMPT, drafters="none", **call)
    assert spec.tokens == plain.tokens
    assert spec.stats.context_rolls == plain.stats.context_rolls > 20
    assert spec.stats.parked_drafters == {}
    first = llm.generate(PROMPT, **{**call, "max_tokens": N_CTX - len(PROMPT)})
    if mode == "greedy":
        assert spec.stats.accepted > 5 * first.stats.accepted > 0
    if "draft-simple" in drafters:
        assert max(llm.core.contexts[1].n_cells, 1) <= N_CTX


def test_every_registered_drafter_is_rolled() -> None:
    tried = {spec.name for request in REAL for spec in parse_drafters(request)}
    assert tried >= {"ngram-simple", "draft-simple"}
    assert {kind.name for kind in DRAFTER_KINDS} >= tried


def test_the_draft_rolls_without_decoding_again(make_llm: Callable[..., LLM]) -> None:
    """The draft context computes no token twice because of a roll; one that cannot move tokens is filled again."""
    for can_move in (True, False):
        llm = drafting(make_llm, "draft-simple:n_draft=4,p_min=0")
        draft: FakeContext = llm.core.contexts[1]
        if not can_move:
            draft.can_seq_add = lambda *arguments: False  # type: ignore[method-assign]
        result = llm.generate(PROMPT, max_tokens=400, temperature=0, on_full="roll")
        assert result.tokens == by_hand(looping(), PROMPT, 400, N_CTX, 1, 31)
        stats = result.stats.drafters["draft-simple"]
        once = len(PROMPT) + 400 + stats.drafted - stats.accepted
        assert result.stats.context_rolls == 11
        if can_move:
            assert draft.n_decoded <= once
        else:
            assert once < draft.n_decoded <= once + 11 * (N_CTX - 31)


@pytest.mark.parametrize("n_seen", [0, 1, 3, 4, 7, 8, 9, 20])
def test_draft_simple_follows_a_shift(n_seen: int) -> None:
    """Whatever part of the history it has, it holds the same part of the new one, and nothing of what left."""
    model = looping()
    context = FakeContext(model, n_ctx=50)
    drafter = DraftSimple(
        context, n_allowed=48, is_end=model.is_eog, choose=lambda *a: (5, 0.0), n_draft=2, p_min=0.5
    )
    history = shuffled(9, 20)
    if n_seen:
        drafter.propose(history[: n_seen - 1], history[n_seen - 1], 10)
    drafter.shift(3, 8, -5)
    rolled = history[:3] + history[8:]
    assert drafter.audit(rolled) is None
    assert context.n_cells == (n_seen - 5 if n_seen > 8 else min(n_seen, 3))
    assert [position for _, position in context.cells] == list(range(context.n_cells))
    drafter.propose(rolled, 7, 10)
    assert [token for token, _ in context.cells] == [*rolled, 7]


@pytest.mark.parametrize("n_seen", [0, 3, 8, 20])
def test_ngram_simple_follows_a_shift(n_seen: int) -> None:
    """At once, not only when it is asked again: another drafter may answer first."""
    drafter = NgramSimple(n=2, m=4)
    history = shuffled(9, 20)
    drafter.begin(history[:n_seen])
    drafter.shift(3, 8, -5)
    rolled = history[:3] + history[8:]
    assert drafter.audit(rolled[: n_seen - 5 if n_seen > 8 else min(n_seen, 3)]) is None


@pytest.mark.parametrize("offset", range(70, 100, 3))
@pytest.mark.parametrize("kind", ["oracle", "3/8", "none"])
def test_stops_after_rolls(make_llm: Callable[..., LLM], kind: str, offset: int) -> None:
    """Invariant 46 after rolls: the answer, the memory and the next call are those of plain decoding."""
    model = looping(span=None, seed=6)
    answer = by_hand(model, PROMPT, 140, N_CTX, 1, 31)
    end = answer[offset]
    n = answer.index(end)
    vocab = FakeVocab(default_texts(), eog=frozenset({2, end}))
    llm = make_llm(looping(span=None, seed=6, vocab=vocab), n_ctx=N_CTX)
    drafters: Any = "none" if kind == "none" else [script(kind, answer, len(PROMPT))]
    result = llm.generate(PROMPT, max_tokens=140, temperature=0, on_full="roll", drafters=drafters)
    assert result.tokens == answer[:n]
    assert result.stopped_by == end
    everything = PROMPT + answer[:n]
    held = [token for token, _ in llm.core.contexts[0].cells]
    removed = 31 * result.stats.context_rolls
    assert held == everything[:1] + everything[1 + removed :][: len(held) - 1]
    assert len(held) in (len(everything) - removed, len(everything) - removed - 1)


@pytest.mark.parametrize("kind", ["none", "oracle", "3/8"])
@pytest.mark.parametrize("n_discard", [5, 30, 61, 63])
def test_a_stop_string_that_reaches_back_over_a_roll(
    make_llm: Callable[..., LLM], n_discard: int, kind: str
) -> None:
    """What the stop takes away may have left the memory already; what stays is what the answer has and no roll took."""
    call: dict[str, Any] = {"max_tokens": 200, "temperature": 0, "n_discard": n_discard, "on_full": "roll"}
    llm = make_llm(readable(), n_ctx=N_CTX)
    answer = llm.generate(PROMPT, **call)
    drafters: Any = "none" if kind == "none" else [script(kind, answer.tokens, len(PROMPT))]
    rolled = 0
    for place in (50, 57, 90):
        begin = len(llm.detokenize(answer.tokens[:place]))
        for length in (5, 20, 60):
            stop = answer.text[begin : begin + length]
            if answer.text.index(stop) != begin:
                continue
            got = llm.generate(PROMPT, stop=stop, drafters=drafters, **call)
            assert got.text == answer.text[:begin]
            assert got.stopped_by == stop
            everything = PROMPT + got.tokens
            held = [token for token, _ in llm.core.contexts[0].cells]
            assert held == everything[:1] + everything[1 + n_discard * got.stats.context_rolls :]
            rolled += got.stats.context_rolls
    assert rolled > 3


class TestAfterARoll:
    """Cells behind a gap remember what left: only the generation that rolled uses them."""

    def test_other_prompts_do_not_reuse_them(self, make_llm: Callable[..., LLM]) -> None:
        """Invariant 17: a prompt that equals the rolled history gives the answer of a fresh start."""
        llm = make_llm(looping(), n_ctx=N_CTX)
        llm.generate(PROMPT, max_tokens=100, temperature=0, on_full="roll", n_keep=4)
        history = [token for token, _ in llm.core.contexts[0].cells][:40]
        got = llm.generate([*history, 9], max_tokens=10, temperature=0)
        assert got.stats.prompt_tokens_reused == 4
        again = llm.generate([*history, 9], max_tokens=10, temperature=0)
        assert again.stats.prompt_tokens_reused == 40
        assert got.tokens == again.tokens

    def test_also_not_after_saving(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping(), n_ctx=N_CTX)
        llm.generate(PROMPT, max_tokens=100, temperature=0, on_full="roll", n_keep=4)
        history = [token for token, _ in llm.core.contexts[0].cells][:40]
        other = make_llm(looping(), n_ctx=N_CTX)
        other.load_state(llm.save_state())
        assert other.generate(history, max_tokens=1).stats.prompt_tokens_reused == 4
        assert other.generate(history, max_tokens=1).stats.prompt_tokens_reused == 39
        other.load_state(other.save_state())
        assert other.generate(history, max_tokens=1).stats.prompt_tokens_reused == 39

    @pytest.mark.parametrize("where", ["seq_rm", "seq_add", "drafter"])
    def test_an_interrupted_roll(self, make_llm: Callable[..., LLM], where: str) -> None:
        """Ctrl-C in the middle of a roll: the next call answers as a fresh start does."""
        llm = drafting(make_llm, "draft-simple:n_draft=4,p_min=0")
        target: FakeContext = llm.core.contexts[0]
        if where == "drafter":
            place: Any = llm._chain.members[0].drafter
            name = "shift"
        else:
            place, name = target, where
        original = getattr(place, name)
        rolls: list[int] = []

        def interrupted(*arguments: int) -> Any:
            done = original(*arguments) if where != "drafter" else None
            full = where == "drafter" or target.n_cells <= 33 < arguments[2 if where == "seq_rm" else 1] + 2
            if full and not rolls and arguments[-1] != 0:
                rolls.append(1)
                raise KeyboardInterrupt
            return done

        setattr(place, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            llm.generate(PROMPT, max_tokens=200, temperature=0, on_full="roll")
        setattr(place, name, original)
        got = llm.generate(PROMPT, max_tokens=200, temperature=0, on_full="roll")
        assert got.tokens == by_hand(looping(), PROMPT, 200, N_CTX, 1, 31)

    def test_streams_roll_too(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping(), n_ctx=N_CTX)
        chunks = list(llm.stream(PROMPT, max_tokens=200, temperature=0, on_full="roll"))
        tokens = [token for chunk in chunks for token in chunk.tokens]
        assert tokens == by_hand(looping(), PROMPT, 200, N_CTX, 1, 31)

    def test_without_a_limit_an_end_token_ends_it(self, make_llm: Callable[..., LLM]) -> None:
        answer = by_hand(looping(), PROMPT, 200, N_CTX, 1, 31)
        llm = make_llm(looping(), n_ctx=N_CTX)
        stream = llm.stream(PROMPT, temperature=0, on_full="roll")
        tokens: list[int] = []
        for chunk in stream:
            tokens += chunk.tokens
            if len(tokens) >= 200:
                break
        stream.close()
        assert tokens[:200] == answer


class TestErrorMode:
    @pytest.mark.parametrize("kind", ["none", "oracle", "3/8", "adversary"])
    @pytest.mark.parametrize("n_prompt", [6, 50, 63, 64])
    def test_the_answer_so_far_is_attached(
        self, make_llm: Callable[..., LLM], kind: str, n_prompt: int
    ) -> None:
        """on_full="error": the same tokens as "stop", in the error; the LLM goes on."""
        prompt = [1, *shuffled(n_prompt, n_prompt - 1)]
        llm = make_llm(looping(), n_ctx=N_CTX)
        stopped = llm.generate(prompt, temperature=0)
        assert stopped.finish_reason == "length"
        drafters: Any = "none" if kind == "none" else [script(kind, stopped.tokens, n_prompt)]
        for _ in range(2):
            with pytest.raises(ContextFullError, match=rf"n_ctx=64 .* prompt has {n_prompt},") as caught:
                llm.generate(prompt, temperature=0, on_full="error", drafters=drafters)
            assert caught.value.result.tokens == stopped.tokens
            assert caught.value.result.text == stopped.text
            assert caught.value.result.usage.total == N_CTX
            assert f"the answer {len(stopped.tokens)} so far" in str(caught.value)
        assert llm.generate(prompt, temperature=0).tokens == stopped.tokens

    def test_streams_raise_after_their_last_text(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping(), n_ctx=N_CTX)
        stopped = llm.generate(PROMPT, temperature=0)
        tokens: list[int] = []
        with pytest.raises(ContextFullError) as caught:
            for chunk in llm.stream(PROMPT, temperature=0, on_full="error"):
                tokens += chunk.tokens
        assert tokens == caught.value.result.tokens[: len(tokens)]
        assert caught.value.result.tokens == stopped.tokens
        assert llm.generate(PROMPT, temperature=0).tokens == stopped.tokens

    def test_other_ends_are_no_error(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping(), n_ctx=N_CTX)
        room = N_CTX - len(PROMPT)
        for n in (0, 1, room - 1, room):
            got = llm.generate(PROMPT, max_tokens=n, temperature=0, on_full="error")
            assert (len(got.tokens), got.finish_reason) == (n, "length")
        with pytest.raises(ContextFullError):
            llm.generate(PROMPT, max_tokens=room + 1, temperature=0, on_full="error")
        answer = llm.generate(PROMPT, temperature=0).tokens
        got = llm.generate(PROMPT, temperature=0, on_full="error", stop_token_ids=[answer[20]])
        assert got.finish_reason == "stop"


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"on_full": "rol"}, "on_full must be one of 'stop', 'roll', 'error', not 'rol'"),
            ({"on_full": None}, "on_full must be one of"),
            ({"n_keep": 4}, "n_keep is an option of on_full='roll', and on_full is 'stop'"),
            ({"on_full": "error", "n_discard": 4}, "n_discard is an option of on_full='roll'"),
            ({"on_full": "roll", "n_keep": -2}, "n_keep must be a whole number >= 0, or -1"),
            ({"on_full": "roll", "n_keep": 1.5}, "n_keep must be"),
            ({"on_full": "roll", "n_keep": True}, "n_keep must be"),
            ({"on_full": "roll", "n_discard": 0}, "n_discard must be a whole number >= 1"),
            ({"on_full": "roll", "n_keep": 49}, "at most 48 can be kept"),
        ],
    )
    def test_wrong_ones_are_refused(
        self, make_llm: Callable[..., LLM], options: dict[str, Any], message: str
    ) -> None:
        llm = make_llm(looping(), n_ctx=N_CTX)
        with pytest.raises(OptionError, match=message):
            llm.generate(PROMPT, max_tokens=100, **options)
        assert llm.core.contexts[0].decodes == []

    @pytest.mark.parametrize("kind", ["test-full", "test-no"])
    def test_memories_that_cannot_roll_are_refused_first(
        self, make_llm: Callable[..., LLM], kind: str
    ) -> None:
        """C005 and C067 for rolls: refused before anything runs, with the reason; the other ways work."""
        llm = make_llm(looping(), n_ctx=N_CTX, memory_kind=kind)
        with pytest.raises(UnsupportedError, match="cannot remove tokens in the middle"):
            llm.generate(PROMPT, max_tokens=100, on_full="roll")
        assert llm.core.contexts[0].decodes == []
        assert len(llm.generate(PROMPT, temperature=0).tokens) == N_CTX - len(PROMPT)

    @pytest.mark.parametrize("n_ctx", [1, 2, 3, 4, 5, 8])
    def test_tiny_contexts(self, make_llm: Callable[..., LLM], n_ctx: int) -> None:
        assert 0 <= most_kept(n_ctx) < n_ctx
        for n_keep in (None, 0, -1):
            llm = make_llm(looping(), n_ctx=n_ctx, drafters="ngram-simple:n=1,m=4")
            got = llm.generate([1][:n_ctx], max_tokens=50, temperature=0, on_full="roll", n_keep=n_keep)
            plain = llm.generate(
                [1], max_tokens=50, temperature=0, on_full="roll", n_keep=n_keep, drafters=[]
            )
            assert got.tokens == plain.tokens and len(got.tokens) == 50
