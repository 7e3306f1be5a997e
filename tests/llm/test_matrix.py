"""Every way of choosing tokens with every drafter and every way of choosing lengths: the text is plain decoding's.

Tiny real models. Tokens, text, log-probabilities, the reason for the end and the seed are compared; the case counts are
answers. Invariants 1, 2, 3 and 9 of the verification reference; case C031 (sgl-project/sglang#33643, #28242;
NVIDIA/TensorRT-LLM#17701): no setting is ignored, and none is counted once per round instead of once per token.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pytest

from pyspec.core.sampling_params import SamplingParams
from pyspec.drafters.base import Draft
from pyspec.drafters.registry import DRAFTER_KINDS, parse_drafters
from pyspec.llm.llm import LLM
from pyspec.speculation.chain import Chain
from pyspec.speculation.controller import Controller
from pyspec.speculation.cost_table import CostTable
from tests.conftest import TinyFiles
from tests.llm.settings import ALONE, BARE, BESIDES, combination
from tests.round.scripted import KINDS, script
from tests.tiny import FAMILIES

TEXT = "The quick brown fox said that one, two, three is not the thing they thought about; the quick brown fox said"

#: Rows in parallel are cheap here, so that the automatic choice drafts.
CHEAP = {1: 10.0, 4: 10.5, 8: 11.0, 32: 16.0}
CONTROLLERS = ["fixed", "auto", "random"]

#: Every drafter of the registry; grammar takes part by itself where there is one.
REGISTERED = [
    "suffix",
    "suffix:m=6,p_min=0,memory=1",
    "ngram-simple:n=1,m=5",
    "ngram-map-k:n=1,m=4",
    "ngram-map-k4v:n=1,m=3",
    "ngram-mod:n_match=2,n_min=1,n_max=8",
    "ngram-cache",
    "draft-simple:n_draft=5,p_min=0",
    "draft-simple",
    "suffix,ngram-cache,draft-simple:n_draft=4,p_min=0",
]
SHORT_REGISTERED = [
    "suffix:m=6,p_min=0,memory=1",
    "ngram-mod:n_match=2,n_min=1,n_max=8",
    *REGISTERED[6:8],
    REGISTERED[9],
]
SHORT_KINDS = ["oracle", "adversary", "3/8", "raising"]


class RandomLengths(Controller):
    """Any drafter and any length, by chance that has nothing to do with the text (invariant 3)."""

    def __init__(self, seed: int) -> None:
        super().__init__(CostTable(dict(CHEAP)))
        self.dice = random.Random(seed)

    def draft(self, chain: Chain, history: list[int], last: int, limit: int) -> Draft | None:
        chain.owner = -1
        if limit < 1 or not chain.live or self.dice.random() < 0.1:
            return None
        member = self.dice.choice(chain.live)
        stop = self.dice.randrange(1, 12)
        proceed = None if member.is_text else lambda n, confidence: n < stop
        draft = chain.ask(member, history, last, self.dice.randint(1, limit), proceed)
        if draft is None:
            return None
        draft.cut(self.dice.randint(1, len(draft.tokens)))
        chain.owner = member.index
        return draft


@dataclass
class Sums:
    answers: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0


#: llm(family, controller): opened once for this file.
Opened = Callable[[str, str], LLM]


@pytest.fixture(scope="module")
def opened(tiny: TinyFiles) -> Iterator[Opened]:
    made: dict[tuple[str, str], LLM] = {}

    def make(family: str, controller: str) -> LLM:
        key = (family, controller)
        if key not in made:
            made[key] = LLM(
                tiny.path(family),
                draft=tiny.path(family, dtype="q4_0"),
                drafters="none",
                n_ctx=512,
                n_threads=1,
                audit=True,
                controller="fixed" if controller == "fixed" else "auto",
                cost_table=None if controller == "fixed" else CHEAP,
            )
            if controller == "auto":  # choices by tokens alone: equal in every run
                made[key]._control.controller = Controller(
                    CostTable(dict(CHEAP), frozen=True), clock=lambda: 0.0
                )
            if controller == "random":
                made[key]._control.controller = RandomLengths(len(made))
        return made[key]

    yield make
    for llm in made.values():
        llm.close()


def check(
    llm: LLM, call: dict[str, Any], registered: Sequence[str], kinds: Sequence[str], sums: Sums
) -> None:
    """One plain answer, and the same from every drafter."""
    if not {"grammar", "response_format"} & set(call):  # a text under a grammar has to end
        no_end = dict.fromkeys(llm.model.vocab.eog, float("-inf"))
        call = call | {"logit_bias": no_end | (call.get("logit_bias") or {})}
    call = {"logprobs": 2, "seed": 5, **call}
    plain = llm.generate(TEXT, drafters="none", **call)
    requests: dict[str, Any] = {name: name for name in registered}
    requests |= {kind: [script(kind, plain.tokens, plain.usage.prompt)] for kind in kinds}
    for what, drafters in requests.items():
        spec = llm.generate(TEXT, drafters=drafters, **call)
        assert spec.tokens == plain.tokens, what
        assert spec.text == plain.text, what
        assert spec.logprobs == plain.logprobs, what
        assert (spec.finish_reason, spec.seed) == (plain.finish_reason, plain.seed), what
        stats = spec.stats
        assert len(spec.tokens) == stats.accepted + stats.chosen, what
        assert set(stats.parked_drafters) <= {"raising"}, stats.parked_drafters
        sums.answers += 1
        sums.tokens += len(spec.tokens)
        sums.drafted += stats.drafted
        sums.accepted += stats.accepted


def controller_for(name: str) -> str:
    """The short runs go round: each setting has one controller, each controller many settings."""
    return CONTROLLERS[(list(ALONE) + list(BESIDES)).index(name) % 3]


def test_every_field_is_tried() -> None:
    tried = {name for call in ALONE.values() for name in call}
    assert tried == {field.name for field in fields(SamplingParams)}
    combined = {name for number in range(40) for name in combination(number)}
    assert combined | {"dry_sequence_breakers"} == tried


def test_every_drafter_is_tried() -> None:
    names = {spec.name for request in REGISTERED for spec in parse_drafters(request)}
    assert names | {"grammar"} == {kind.name for kind in DRAFTER_KINDS}
    assert set(SHORT_REGISTERED) <= set(REGISTERED) and set(SHORT_KINDS) <= set(KINDS)


@pytest.mark.parametrize("setting", ALONE)
def test_settings(opened: Opened, setting: str, count_cases: Callable[[int], None]) -> None:
    """Each setting alone."""
    llm = opened("llama", controller_for(setting))
    sums = Sums()
    check(llm, {"max_tokens": 20, **ALONE[setting]}, SHORT_REGISTERED, SHORT_KINDS, sums)
    assert 0 < sums.accepted < sums.drafted
    count_cases(sums.answers)


@pytest.mark.parametrize("number", range(6))
def test_combinations(opened: Opened, number: int, count_cases: Callable[[int], None]) -> None:
    """Many settings together."""
    sums = Sums()
    llm = opened("gemma3", CONTROLLERS[number % 3])
    check(llm, {"max_tokens": 20, **combination(number)}, SHORT_REGISTERED, SHORT_KINDS, sums)
    assert 0 < sums.accepted < sums.drafted
    count_cases(sums.answers)


@pytest.mark.parametrize("what", BESIDES)
def test_grammars_and_processors(opened: Opened, what: str, count_cases: Callable[[int], None]) -> None:
    """Grammars (also as drafters), functions that change the rows, log-probabilities after the filters."""
    llm = opened("llama", controller_for(what))
    sums = Sums()
    for setting in ("temperature", "mirostat", "greedy repeat"):
        call = {"max_tokens": 24, **ALONE[setting], **BESIDES[what]}
        check(llm, call, SHORT_REGISTERED[:1] + REGISTERED[9:], SHORT_KINDS, sums)
    assert 0 < sums.accepted < sums.drafted
    count_cases(sums.answers)


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_stop_strings(opened: Opened, controller: str, count_cases: Callable[[int], None]) -> None:
    """Invariant 46 with settings that remember: a stop string inside a block, and the memory after it."""
    llm = opened("llama", controller)
    sums = Sums()
    for setting in ("xtc", "mirostat", "dry"):
        call = {"max_tokens": 24, **ALONE[setting]}
        no_end = dict.fromkeys(llm.model.vocab.eog, float("-inf"))
        bias = no_end | (call.get("logit_bias") or {})
        plain = llm.generate(TEXT, drafters="none", **call | {"logit_bias": bias})
        for place in (2, 5, 9):
            stop = llm.detokenize(plain.tokens[place : place + 2], continuation=True)
            if stop and "\ufffd" not in stop:
                check(llm, {**call, "stop": [stop]}, REGISTERED[7:8], ["oracle", "3/8"], sums)
    assert sums.answers
    count_cases(sums.answers)


@pytest.mark.long
@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize("setting", ALONE)
@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3", "phi3"])
def test_every_cell(
    opened: Opened, family: str, setting: str, controller: str, count_cases: Callable[[int], None]
) -> None:
    """The whole product of settings, drafters and controllers."""
    llm = opened(family, controller)
    sums = Sums()
    check(llm, {"max_tokens": 60, **ALONE[setting]}, REGISTERED, KINDS, sums)
    assert 0 < sums.accepted < sums.drafted
    count_cases(sums.answers)


@pytest.mark.long
@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize("what", BESIDES)
def test_every_cell_with_grammars_and_processors(
    opened: Opened, what: str, controller: str, count_cases: Callable[[int], None]
) -> None:
    llm = opened("llama", controller)
    sums = Sums()
    for setting in ALONE.values():
        check(llm, {"max_tokens": 40, **setting, **BESIDES[what]}, REGISTERED, KINDS, sums)
    assert 0 < sums.accepted < sums.drafted
    count_cases(sums.answers)


@pytest.mark.long
@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize("part", range(4))
def test_many_combinations(
    opened: Opened, part: int, controller: str, count_cases: Callable[[int], None]
) -> None:
    families = list(FAMILIES)
    sums = Sums()
    for number in range(20 * part, 20 * part + 20):
        llm = opened(families[number % len(families)], controller)
        call = {"max_tokens": 40, **combination(number)}
        if number % 4 == 3:
            call |= random.Random(number).choice(list(BESIDES.values()))
        check(llm, call, REGISTERED, KINDS, sums)
    assert 0 < sums.accepted < sums.drafted
    count_cases(sums.answers)


def test_every_setting_matters(opened: Opened) -> None:
    """Without its own fields each setting gives another text, so none is ignored."""
    llm = opened("llama", "fixed")
    no_end = dict.fromkeys(llm.model.vocab.eog, float("-inf"))
    common = {"temperature", "seed", "logit_bias", *BARE}

    def text(setting: dict[str, Any]) -> list[int]:
        bias = no_end | (setting.get("logit_bias") or {})
        return llm.generate(TEXT, max_tokens=48, **{**setting, "logit_bias": bias}).tokens

    for name, setting in ALONE.items():
        base = {field: value for field, value in setting.items() if field in common}
        if base == setting:
            base = BARE if setting.get("temperature") else ALONE["greedy repeat"]
        assert name == "temperature" or text(setting) != text(base), name


def test_dry_sees_the_prompt(opened: Opened) -> None:
    """As penalties do: what the prompt said is not said again, from the first token on."""
    llm = opened("llama", "fixed")
    prompt = llm.tokenize(TEXT)
    favoured = {"max_tokens": 1, "temperature": 0, "logit_bias": {50: 100.0}}
    repeated = [*prompt, 40, 41, 50, 20, 40, 41]
    plain = llm.generate(repeated, **favoured).tokens
    assert plain == [50], "the test tests nothing"
    dry = {"dry_multiplier": 1000.0, "dry_allowed_length": 2, "dry_sequence_breakers": []}
    assert llm.generate(repeated, **favoured, **dry).tokens != [50]
    assert llm.generate(repeated, **favoured, **dry, dry_penalty_last_n=4).tokens == [50]


def test_sampled_logprobs_are_those_of_the_choice(opened: Opened) -> None:
    """After masks, processors and filters: a token that is the only one possible has the log-probability 0."""
    llm = opened("llama", "fixed")
    call: dict[str, Any] = {"logprobs": "sampled", "seed": 3, "temperature": 1.0, "max_tokens": 12}

    def only(tokens: list[int], logits: Any) -> None:
        logits[:] = -float("inf")
        logits[30 + len(tokens) % 5] = 1.0

    for drafters in ("none", "ngram-simple:n=1,m=5"):
        got = llm.generate(TEXT, grammar="root ::= [a-z]{2} [0-9]", drafters=drafters, **call)
        assert all(entry.logprob > -20 for entry in got.logprobs)
        assert any(entry.logprob < 0 for entry in got.logprobs)
        got = llm.generate(TEXT, logits_processor=only, drafters=drafters, **call)
        assert len(got.tokens) == 12 and all(entry.logprob == 0 for entry in got.logprobs)
