"""How drafts are judged, end to end on tiny models: sample-and-match, rejection, coupled drafts, synthetic acceptance.

Laws are exact (tests/llm/laws.py), chi-square bounds fixed beforehand. Case C033 (lablup/mlxcel#902,
ml-explore/mlx-swift-lm#459, ggml-org/llama.cpp#27694): at temperature > 0 a draft is judged against the target's own
sample, never against its arg-max.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pyspec.core.model import Model
from pyspec.core.sampler import Sampler, SamplingParams
from pyspec.drafters.draft_simple import DraftSimple
from pyspec.errors import OptionError
from pyspec.llm.grammar import Grammar, GrammarCompiler
from pyspec.llm.llm import LLM
from tests.conftest import TinyFiles
from tests.grammar.helpers import byte_tokens
from tests.llm.laws import check_law, first_tokens
from tests.llm.settings import BARE, SCHEMA
from tests.round.scripted import Scripted, script

TEXT = "The quick brown fox said that one, two, three is"
#: Few candidates, so that the law of three tokens has cells enough, but not too many.
FEW: dict[str, Any] = {"temperature": 1.0, "top_k": 4, "top_p": 1.0, "min_p": 0.0}
DRAFTERS = {
    "near": ("draft-simple:n_draft=3,p_min=0", {"dtype": "q4_0"}),
    "far": ("draft-simple:n_draft=3,p_min=0", {"seed": 1}),
    "same": ("draft-simple:n_draft=3,p_min=0", {}),
    "stops": ("draft-simple:n_draft=3,p_min=0.4", {"dtype": "q4_0"}),
    "suffix": ("suffix:p_min=0", None),
    "chain": ("suffix:p_min=0,draft-simple:n_draft=3,p_min=0", {"dtype": "q4_0"}),
}
JSON = {"type": "json_schema", "json_schema": {"name": "cat", "schema": SCHEMA}}


def opened(tiny: TinyFiles, drafters: str, draft: dict[str, Any] | None, **options: Any) -> LLM:
    return LLM(
        tiny.path("llama"),
        draft=None if draft is None else tiny.path("llama", **draft),
        drafters=drafters,
        **{"n_ctx": 256, "n_threads": 1, "controller": "fixed", **options},
    )


def sampled(llm: LLM, n: int, **call: Any) -> Counter[tuple[int, ...]]:
    """The first three tokens of answers of up to five, an end token included."""
    found: Counter[tuple[int, ...]] = Counter()
    for seed in range(n):
        got = llm.generate(TEXT, max_tokens=5, seed=seed, **call)
        ended = [] if got.stopped_by is None else [got.stopped_by]
        found[tuple([*got.tokens, *ended][:3])] += 1
    return found


@pytest.mark.parametrize("kind", DRAFTERS)
def test_rejection_has_the_law_of_plain_decoding(
    tiny: TinyFiles, kind: str, count_cases: Callable[[int], None]
) -> None:
    """Invariant 4 end to end: the first three tokens over seeds, against the exact law. (The first is never drafted.)"""
    rejection_laws(tiny, kind, 400)
    count_cases(400)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["near", "far", "chain"])
def test_rejection_over_many_seeds(tiny: TinyFiles, kind: str, count_cases: Callable[[int], None]) -> None:
    rejection_laws(tiny, kind, 5_000)
    count_cases(5_000)


def rejection_laws(tiny: TinyFiles, kind: str, n: int) -> None:
    drafters, draft = DRAFTERS[kind]
    with opened(tiny, drafters, draft) as llm:
        law, _ = first_tokens(llm.model, llm.tokenize(TEXT), 3, SamplingParams(**FEW))
        check_law(sampled(llm, n, acceptance="rejection", **FEW), law, kind)
        stats = llm.session_stats
        if kind in ("near", "chain"):
            assert 0 < stats.accepted < stats.drafted
        if kind == "far":  # hardly a candidate in common, or none: invariant 6
            assert stats.accepted < 0.1 * stats.drafted
        if kind == "same":  # invariant 5: with p == q everything is accepted
            assert stats.accepted == stats.drafted > n


def test_rejection_under_a_grammar(tiny: TinyFiles, count_cases: Callable[[int], None]) -> None:
    """Invariant 8: every token is valid, and the law is that of plain sampling under the grammar."""
    text = 'root ::= ("t" | "th" | "a") [a-z] [a-e0-9]'
    with opened(tiny, *DRAFTERS["near"]) as llm:
        state = GrammarCompiler(llm.model).start(Grammar.gbnf(text))
        law, _ = first_tokens(llm.model, llm.tokenize(TEXT), 3, SamplingParams(**FEW), state)
        check_law(sampled(llm, 400, acceptance="rejection", grammar=text, **FEW), law)
        assert 0 < llm.session_stats.accepted < llm.session_stats.drafted
        count_cases(400)


def test_rejection_under_a_grammar_that_forbids_much_of_the_draft(
    tiny: TinyFiles, count_cases: Callable[[int], None]
) -> None:
    """Invariant 8: a drawn token that is forbidden is rejected and replaced from the residual. Left out instead, with a
    plain draw in its place, the law would be a mixture of two."""
    text = "root ::= [a-d] [a-d] [a-d] [a-d]"
    with opened(tiny, *DRAFTERS["far"]) as llm:
        state = GrammarCompiler(llm.model).start(Grammar.gbnf(text))
        letters = byte_tokens(state.vocabulary)
        call = {**FEW, "top_k": 0, "logit_bias": {letters[ord(c)]: 9.0 for c in "abcdwxyz"}}
        law, _ = first_tokens(llm.model, llm.tokenize(TEXT), 3, SamplingParams(**call), state)
        check_law(sampled(llm, 800, acceptance="rejection", grammar=text, **call), law)
        assert 0.1 < llm.session_stats.acceptance < 0.8
        count_cases(800)


def test_json_by_rejection(tiny: TinyFiles, count_cases: Callable[[int], None]) -> None:
    """Invariant 8: whole texts are valid."""
    import json

    import jsonschema

    for kind in ("near", "far", "chain"):
        with opened(tiny, *DRAFTERS[kind], audit=True) as llm:
            ended = 0
            for seed in range(12):
                got = llm.generate(
                    TEXT, max_tokens=120, seed=seed, response_format=JSON, acceptance="rejection", **FEW
                )
                if got.finish_reason == "stop":
                    jsonschema.validate(json.loads(got.text), SCHEMA)
                    ended += 1
            assert ended > 6 and llm.session_stats.drafted > 50
            count_cases(ended)


@pytest.mark.parametrize("controller", ["fixed", "auto"])
@pytest.mark.parametrize("kind", ["near", "chain"])
def test_rejection_is_reproducible(tiny: TinyFiles, kind: str, controller: str) -> None:
    """The same seed gives the same text and the same counts, in one session and in another, whatever the clock says;
    other seeds give others. What was asked between does not matter either, unless a drafter remembers it (suffix)."""
    drafters, draft = DRAFTERS[kind]
    call: dict[str, Any] = {"max_tokens": 40, "acceptance": "rejection", **BARE}
    found = []
    for _ in range(2):
        with opened(tiny, drafters, draft, controller=controller, audit=True) as llm:
            for between in ("", "Another text about cats and mats, and what they thought", TEXT):
                if between:
                    llm.generate(between, max_tokens=30, seed=9)
                got = llm.generate(TEXT, **call)
                stats = got.stats
                assert stats.acceptance_rule == "rejection" and stats.drafted > 0
                found.append((got.tokens, stats.drafted, stats.accepted, stats.rounds))
            other = llm.generate(TEXT, **{**call, "seed": 6})
            assert other.tokens != found[0][0]
    assert found[:3] == found[3:]
    if kind == "near":
        assert all(one == found[0] for one in found), found


def test_rejection_is_refused_with_mirostat(tiny: TinyFiles) -> None:
    """Before anything runs, with the reason; the session goes on."""
    with opened(tiny, *DRAFTERS["near"]) as llm:
        before = llm.generate(TEXT, max_tokens=8, **BARE)
        with pytest.raises(OptionError, match="mirostat cannot be combined with acceptance='rejection'"):
            llm.generate("Something else", acceptance="rejection", mirostat=2)
        after = llm.generate(TEXT, max_tokens=8, **BARE)
        assert after.tokens == before.tokens and after.stats.prompt_tokens_evaluated == 1


def test_cold_rejection_is_plain_decoding(tiny: TinyFiles) -> None:
    """Invariant 7: at temperature 0 there is nothing to reject by chance."""
    with opened(tiny, *DRAFTERS["near"]) as llm:
        plain = llm.generate(TEXT, max_tokens=40, temperature=0, drafters="none")
        cold = llm.generate(TEXT, max_tokens=40, temperature=0, acceptance="rejection")
        assert cold.tokens == plain.tokens and cold.stats.accepted > 0


def test_drafts_without_a_law_are_matched(tiny: TinyFiles) -> None:
    """Invariant 9: text drafters have no law to reject by; their drafts are judged as always, and the seeded text is that
    of plain decoding."""
    with opened(tiny, "suffix:p_min=0,ngram-cache", None) as llm:
        plain = llm.generate(TEXT, max_tokens=60, drafters="none", **BARE)
        oracle = [script("5/8", plain.tokens, plain.usage.prompt)]
        for drafters in (None, oracle):
            got = llm.generate(TEXT, max_tokens=60, acceptance="rejection", drafters=drafters, **BARE)
            assert got.tokens == plain.tokens and got.stats.drafted > 0


# --- coupled drafts


@pytest.mark.parametrize("temperature", [0.8, 1.0])
def test_coupled_drafts_are_accepted_more_often(
    tiny: TinyFiles, temperature: float, monkeypatch: pytest.MonkeyPatch, count_cases: Callable[[int], None]
) -> None:
    """The draft makes the target's own draw; the text is plain decoding's either way."""
    call = {**BARE, "temperature": temperature, "max_tokens": 32}

    def run(llm: LLM) -> float:
        before = llm.session_stats.accepted, llm.session_stats.drafted
        for seed in range(12):
            call["seed"] = seed
            spec = llm.generate(TEXT, **call)
            assert spec.tokens == llm.generate(TEXT, drafters="none", **call).tokens
        stats = llm.session_stats
        return (stats.accepted - before[0]) / (stats.drafted - before[1])

    with opened(tiny, "draft-simple:n_draft=4,p_min=0", {"dtype": "q4_0"}) as llm:
        coupled = run(llm)
        monkeypatch.setattr(DraftSimple, "_drafting_sampler", lambda self: None)
        best = run(llm)
    print(f"acceptance at temperature {temperature}: coupled {coupled:.3f}, arg-max {best:.3f}")
    assert coupled > best
    count_cases(24)


# --- C033


class Rows:
    """Recorded rows of the target by path; verifies drafts without decoding again."""

    def __init__(self, model: Model, prompt: list[int], params: dict[str, Any]) -> None:
        self.model = model
        self.law, self.rows = first_tokens(model, prompt, 3, SamplingParams(**params))

    def answer(self, sampler: Sampler, draft: Callable[[tuple[int, ...]], list[int]]) -> tuple[int, ...]:
        """Three tokens in rounds: draft(path) is what the drafter says behind a path."""
        import numpy as np

        path: tuple[int, ...] = ()
        ends = self.model.vocab.eog
        while len(path) < 3 and not ends & set(path):
            guess = draft(path)[: 3 - len(path) - 1] if path else []
            known = 0
            while known < len(guess) and (*path, *guess[: known + 1]) in self.rows:
                known += 1
            rows = [self.rows[path]] + [self.rows[(*path, *guess[: i + 1])] for i in range(known)]
            # A guess that the target never makes has no row; its row is never looked at.
            rows += [np.zeros_like(rows[0])] * (len(guess) - known)
            emitted, _ = sampler.accept_match(np.stack(rows), guess, n_max=3 - len(path), model=self.model)
            path = (*path, *emitted)
        return path


def judged(tiny: TinyFiles, n: int) -> int:
    """n seeds with oracle, adversary, arg-max and real drafts: the law of three tokens, and each text the plain one."""
    with Model(tiny.path("llama")) as model, Model(tiny.path("llama", dtype="q4_0")) as small:
        prompt = model.tokenizer.encode(TEXT)
        target = Rows(model, prompt, FEW)
        drafter = first_tokens(small, prompt, 3, SamplingParams(**FEW))[1]
        best = {path: int(row.argmax()) for path, row in target.rows.items()}
        found: dict[str, Counter[tuple[int, ...]]] = {
            name: Counter() for name in ("oracle", "adversary", "arg-max", "real")
        }
        for seed in range(n):
            sampler = Sampler(SamplingParams(**FEW, seed=seed), model.info.n_vocab)
            plain = target.answer(sampler, lambda path: [])

            def oracle(path: tuple[int, ...], plain: tuple[int, ...] = plain) -> list[int]:
                return list(plain[len(path) :])

            def adversary(path: tuple[int, ...], plain: tuple[int, ...] = plain) -> list[int]:
                return [(token + 1) % 300 for token in plain[len(path) :]]

            def most_likely(path: tuple[int, ...]) -> list[int]:
                tokens: list[int] = []
                while (*path, *tokens) in best:
                    tokens.append(best[(*path, *tokens)])
                return tokens

            def real(path: tuple[int, ...], sampler: Sampler = sampler) -> list[int]:
                if path not in drafter:
                    return []
                follower = sampler.for_drafting(0.8)
                token, _ = follower.draft_array(drafter[path], model.info.n_vocab)
                follower.close()
                return [token]

            for name, draft in (
                ("oracle", oracle),
                ("adversary", adversary),
                ("arg-max", most_likely),
                ("real", real),
            ):
                sampler.reset()
                got = target.answer(sampler, draft)
                assert got == plain, (name, seed)
                found[name][got] += 1
            sampler.close()
        for name, samples in found.items():
            check_law(samples, target.law, name)
    return 4 * n


def test_drafts_do_not_bend_the_law(tiny: TinyFiles, count_cases: Callable[[int], None]) -> None:
    """C033 in short: 600 seeds."""
    count_cases(judged(tiny, 600))


@pytest.mark.long
def test_drafts_do_not_bend_the_law_over_many_seeds(
    tiny: TinyFiles, count_cases: Callable[[int], None]
) -> None:
    """C033: 20,000 seeds x 3 tokens."""
    count_cases(judged(tiny, 20_000))


@pytest.mark.parametrize("kind", ["oracle", "adversary", "real"])
def test_generations_follow_the_law(tiny: TinyFiles, kind: str, count_cases: Callable[[int], None]) -> None:
    """C033 through generate: 150 seeds x 3 tokens."""
    with opened(tiny, *DRAFTERS["near"]) as llm:
        law, _ = first_tokens(llm.model, llm.tokenize(TEXT), 3, SamplingParams(**FEW))
        found: Counter[tuple[int, ...]] = Counter()
        for seed in range(150):
            call = {"max_tokens": 3, "seed": seed, **FEW}
            plain = llm.generate(TEXT, drafters="none", **call)
            drafters = None if kind == "real" else [script(kind, plain.tokens, plain.usage.prompt)]
            got = llm.generate(TEXT, drafters=drafters, **call)
            assert got.tokens == plain.tokens
            found[tuple(got.tokens)] += 1
        check_law(found, law, kind)
        count_cases(150)


# --- synthetic


def synthetic(llm: LLM, drafter: Any, **options: Any) -> Any:
    call = {"max_tokens": 300, "temperature": 0.0, "seed": 1, "acceptance": "synthetic"}
    call["logit_bias"] = dict.fromkeys(llm.model.vocab.eog, float("-inf"))
    return llm.generate(TEXT, drafters=drafter, **call | options)


def test_synthetic_rates(tiny: TinyFiles) -> None:
    """Invariant 47: rates of 0 give plain decoding, rates of 1 accept everything."""
    with opened(tiny, "none", None, n_ctx=512) as llm:
        n_prompt = len(llm.tokenize(TEXT))
        plain = synthetic(llm, "none", acceptance="match")
        assert plain.stats.acceptance_rule == "match"
        for kind in ("oracle", "adversary", "3/8"):
            drafter = [script(kind, plain.tokens, n_prompt)]
            none = synthetic(llm, drafter, synthetic_rates=[0.0] * 8)
            assert none.tokens == plain.tokens and none.stats.accepted == 0 < none.stats.drafted
            every = synthetic(llm, drafter, synthetic_rates=[1.0] * 8)
            assert every.stats.accepted == every.stats.drafted > 200
            assert none.stats.acceptance_rule == every.stats.acceptance_rule == "synthetic"


@pytest.mark.parametrize("length", [1.0, 2.5, 4.0, 9.0])
def test_synthetic_length(tiny: TinyFiles, length: float) -> None:
    """Invariant 47: the mean length is what was asked for; equal seeds give equal counts, others others."""
    with opened(tiny, "none", None, n_ctx=4096) as llm:

        def run(seed: int) -> Any:
            drafter = Scripted(list(range(20, 60)) * 100, len(llm.tokenize(TEXT)), 8, 8)
            return synthetic(llm, [drafter], synthetic_length=length, max_tokens=800, seed=seed)

        first, again, other = run(1), run(1), run(2)
        assert first.stats.mean_acceptance_length == pytest.approx(length, rel=0.12)
        assert first.tokens == again.tokens
        assert first.stats.drafters["scripted"].per_position == again.stats.drafters["scripted"].per_position
        if 1 < length < 9:
            assert (
                first.stats.drafters["scripted"].per_position != other.stats.drafters["scripted"].per_position
            )


def test_synthetic_numbers_are_checked_before_anything_runs(tiny: TinyFiles) -> None:
    with opened(tiny, *DRAFTERS["near"]) as llm:
        for options, message in (
            ({"synthetic_rates": [0.5]}, "1 synthetic rates were given for drafts of 3"),
            ({"synthetic_length": 9.0}, "the mean length is 9; allowed: 1 to 4"),
            ({}, "needs either"),
            ({"synthetic_length": 2.0, "logits_processor": lambda t, row: None}, "logits_processor"),
        ):
            with pytest.raises(OptionError, match=re.escape(message)):
                llm.generate(TEXT, acceptance="synthetic", **options)
        assert llm.target.seq_pos_max(0) == -1  # nothing was decoded
        with pytest.raises(OptionError, match="synthetic_length and synthetic_rates are options"):
            llm.generate(TEXT, synthetic_length=2.0)
