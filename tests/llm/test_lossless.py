"""A drafter never changes the answer, on the real core: every drafter, every way of choosing tokens, every tiny model,
and real ones.

The measure is plain decoding with the same call. Tokens, text, log-probabilities and the reason for the end are
compared; the case counts are tokens. (tests/round does the same on a fake core, with what only a fake can do.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pyspec.drafters.registry import DRAFTER_KINDS, parse_drafters
from pyspec.llm.llm import LLM
from tests.round.scripted import KINDS, script
from tests.tiny import FAMILIES
from tools.bench.workloads import PROMPTS

TEXT = "The quick brown fox said that one, two, three is not the thing they thought about"
QUESTION = "List three animals and say one sentence about each."

MODES: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "temperature": {"temperature": 0.9, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 7},
    "top-k": {"temperature": 1.2, "top_k": 4, "top_p": 1.0, "min_p": 0.0, "seed": 8},
    "top-p": {"temperature": 1.5, "top_k": 0, "top_p": 0.8, "min_p": 0.0, "seed": 9},
    "penalties": {
        "temperature": 0,
        "repeat_penalty": 1.4,
        "frequency_penalty": 0.5,
        "presence_penalty": 0.5,
    },
    "seeded penalties": {"seed": 10, "repeat_penalty": 1.2, "frequency_penalty": 0.3, "penalty_last_n": -1},
}
SHORT_MODES = ["greedy", "temperature", "penalties"]

REGISTERED = [
    "draft-simple:n_draft=4,p_min=0",
    "draft-simple:n_draft=16,p_min=0",
    "draft-simple:n_draft=2",
    "draft-simple:n_draft=8,p_min=0,n_min=3",
    "suffix",
    "suffix:m=7,p_min=0,memory=1",
    "ngram-simple:n=1,m=4",
    "ngram-simple:n=3,m=12",
    "ngram-simple:n=2,m=6,draft-simple:n_draft=3,p_min=0.2",
    "ngram-map-k:n=1,m=4",
    "ngram-map-k4v:n=1,m=3",
    "ngram-mod:n_match=2,n_min=1,n_max=8",
    "ngram-cache",
]
SHORT_KINDS = ["oracle", "adversary", "3/8", "empty", "raising"]

TINY_LENGTH = 240  # tokens of each answer of the long run
LONG_TOKENS = 200_000  # compared in the long run, tiny models alone


@dataclass
class Compared:
    """Sums over all drafters."""

    tokens: int = 0
    drafted: int = 0
    accepted: int = 0


def compare(
    ask: Callable[..., Any], registered: Sequence[str], kinds: Sequence[str], call: dict[str, Any]
) -> Compared:
    """ask(drafters=..., **call) gives a result; the same with every drafter as without one. kinds: of scripted
    drafters, which know the plain answer."""
    plain = ask(drafters="none", **call)
    sums = Compared()
    requests: dict[str, Any] = {name: name for name in registered}
    requests |= {kind: [script(kind, plain.tokens, plain.usage.prompt)] for kind in kinds}
    for what, drafters in requests.items():
        spec = ask(drafters=drafters, **call)
        assert spec.tokens == plain.tokens, what
        assert spec.text == plain.text, what
        assert spec.logprobs == plain.logprobs, what
        assert spec.finish_reason == plain.finish_reason, what
        assert len(spec.tokens) == spec.stats.accepted + spec.stats.chosen
        sums.tokens += len(spec.tokens)
        sums.drafted += spec.stats.drafted
        sums.accepted += spec.stats.accepted
    return sums


@pytest.mark.parametrize("mode", SHORT_MODES)
@pytest.mark.parametrize("family", FAMILIES)
def test_tiny_models(
    open_llm: Callable[..., LLM], family: str, mode: str, count_cases: Callable[[int], None]
) -> None:
    """Invariants 1 and 2, C031. The draft is the same model in 4 bits, so that drafts are right often and wrong
    often."""
    llm = open_llm(family, draft={"dtype": "q4_0"})
    call = {"max_tokens": 40, "logprobs": 2, **MODES[mode]}
    sums = compare(partial(llm.generate, TEXT), REGISTERED[1:], SHORT_KINDS, call)
    assert 0 < sums.accepted < sums.drafted
    count_cases(sums.tokens)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", FAMILIES)
def test_tiny_models_at_length(
    open_llm: Callable[..., LLM], family: str, mode: str, count_cases: Callable[[int], None]
) -> None:
    llm = open_llm(family, draft={"dtype": "q4_0"})
    no_end = dict.fromkeys(llm.model.vocab.eog, float("-inf"))
    call = {"max_tokens": TINY_LENGTH, "logprobs": 2, "logit_bias": no_end, **MODES[mode]}
    sums = compare(partial(llm.generate, TEXT), REGISTERED, KINDS, call)
    assert sums.tokens == TINY_LENGTH * (len(REGISTERED) + len(KINDS))
    assert 0 < sums.accepted < sums.drafted
    count_cases(sums.tokens)


def test_the_long_run_is_long() -> None:
    answers = len(FAMILIES) * len(MODES) * (len(REGISTERED) + len(KINDS))
    assert answers * TINY_LENGTH >= LONG_TOKENS


def test_every_registered_drafter_is_tried() -> None:
    tried = {spec.name for request in REGISTERED for spec in parse_drafters(request)}
    assert tried | {"grammar"} == {
        kind.name for kind in DRAFTER_KINDS
    }  # that one needs a grammar: test_grammar.py


def chat(llm: LLM, text: str) -> Callable[..., Any]:
    return partial(llm.chat, [{"role": "user", "content": text}])


@pytest.mark.real
@pytest.mark.parametrize("mode", ["greedy", "temperature"])
def test_smollm2(real_model: Callable[[str], Path], mode: str, count_cases: Callable[[int], None]) -> None:
    """Invariants 1, 2 and 40, C001 and C090 on a real model, which is its own draft."""
    path = real_model("smollm2")
    with LLM(
        path, draft=path, drafters="none", controller="fixed", n_ctx=512, n_threads=1, audit=True
    ) as llm:
        call = {"max_tokens": 32, **MODES[mode]}
        registered = ["draft-simple", "suffix", "ngram-simple:n=2,m=8"]
        count_cases(compare(chat(llm, QUESTION), registered, ["oracle", "2/5"], call).tokens)
        own = llm.chat([{"role": "user", "content": QUESTION}], drafters="draft-simple", **call).stats
        if mode == "greedy":
            assert own.accepted == own.drafted > 0


@pytest.mark.real
@pytest.mark.long
@pytest.mark.parametrize("mode", ["greedy", "top-p", "seeded penalties"])
def test_smollm2_on_the_workloads(
    real_model: Callable[[str], Path], mode: str, count_cases: Callable[[int], None]
) -> None:
    path = real_model("smollm2")
    with LLM(
        path, draft=path, drafters="none", controller="fixed", n_ctx=2048, n_threads=2, audit=True
    ) as llm:
        for _, text in PROMPTS:
            call = {"max_tokens": 64, **MODES[mode]}
            registered = ["draft-simple", "ngram-simple:n=3,m=12"]
            kinds = ["oracle", "adversary", "3/8", "2/3"]
            count_cases(compare(chat(llm, text), registered, kinds, call).tokens)


@pytest.mark.real
@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "registered"),
    [("greedy", ["draft-simple", "ngram-simple:n=3,m=12"]), ("top-p", ["draft-simple:n_draft=4"])],
)
def test_qwen_pair_on_the_workloads(
    real_model: Callable[[str], Path], mode: str, registered: list[str], count_cases: Callable[[int], None]
) -> None:
    """The pair of the README's example: every prompt, 128 tokens."""
    target, draft = real_model("qwen2.5-coder-1.5b"), real_model("qwen2.5-coder-0.5b")
    with LLM(
        target, draft=draft, drafters="none", controller="fixed", n_ctx=2048, n_threads=2, audit=True
    ) as llm:
        for _, text in PROMPTS:
            count_cases(compare(chat(llm, text), registered, [], {"max_tokens": 128, **MODES[mode]}).tokens)
