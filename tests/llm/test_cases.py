"""Reports of other projects, replayed on tiny models through the whole of LLM."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pyspec.drafters.base import Draft
from pyspec.errors import GrammarError, OptionError
from pyspec.llm.llm import LLM
from pyspec.speculation.controller import Controller
from pyspec.speculation.cost_table import CostTable
from tests.conftest import TinyFiles
from tests.grammar.schemas import random_schema
from tests.round.scripted import Scripted, script

TEXT = "The quick brown fox said that one, two, three is not the thing they thought about"


def no_end(llm: LLM) -> dict[int, float]:
    return dict.fromkeys(llm.model.vocab.eog, float("-inf"))


@pytest.mark.parametrize("name", ["mtp", "eagle3", "dflash"])
def test_a_drafter_that_is_not_there(open_llm: Callable[..., LLM], name: str) -> None:
    """C012 (ggml-org/llama.cpp#28072; Mesh-LLM/mesh-llm#1347): never a silent downgrade, for an LLM nor for a call."""
    with pytest.raises(OptionError, match=f"unknown drafter '{name}'.*valid names: none, .*draft-simple"):
        open_llm("llama", drafters=[name])
    llm = open_llm("llama", drafters="suffix")
    with pytest.raises(OptionError, match=f"unknown drafter '{name}'"):
        llm.generate(TEXT, drafters=[name])
    assert llm.generate(TEXT, max_tokens=4).stats.active_drafters == ["suffix"]


def test_each_drafter_of_a_chain_counts_for_itself(open_llm: Callable[..., LLM]) -> None:
    """C015 (ggml-org/llama.cpp#23269; bradrlaw/ai-server#16; lmstudio-ai/lmstudio-bug-tracker#2409): whether both run, and
    what each is worth, can be read. (How fast chains are is measured by tools/bench spec.)"""
    llm = open_llm(
        "llama", draft={"dtype": "q4_0"}, drafters="ngram-simple:n=2,m=6,draft-simple:n_draft=3,p_min=0"
    )
    call = {"max_tokens": 80, "temperature": 0, "logit_bias": no_end(llm)}
    free = llm.generate(TEXT, **call)
    again = llm.generate(llm.tokenize(TEXT) + free.tokens + llm.tokenize(TEXT), **call)
    for stats in (free.stats, again.stats):
        ngram, draft = stats.drafters["ngram-simple"], stats.drafters["draft-simple"]
        assert ngram.calls == stats.rounds - 1 or ngram.calls == stats.rounds  # no room in the last round
        assert draft.calls == ngram.calls - ngram.drafts
        assert draft.drafts > 0 and draft.ms > 0 and draft.accepted > 0
        assert ngram.drafted + draft.drafted == stats.drafted
        assert ngram.accepted + draft.accepted == stats.accepted
    assert again.stats.drafters["ngram-simple"].drafts > 0


@pytest.mark.parametrize("kind", ["f16", "q8_0"])
def test_the_drafts_cache_stays_f16(open_llm: Callable[..., LLM], kind: str) -> None:
    """C018 (ggml-org/llama.cpp#25725, #15039, #23398; ikawrakow/ik_llama.cpp#645): quantising the target's cache leaves the
    draft's alone, acceptance stays and the text is that of plain decoding with the same cache."""
    llm = open_llm("llama", type_k=kind, type_v=kind, draft={}, drafters="draft-simple:n_draft=4,p_min=0")
    (draft,) = llm._live_drafters().draft_contexts()
    plain_cache = open_llm("llama", draft={}, drafters="draft-simple:n_draft=4,p_min=0")
    (reference,) = plain_cache._live_drafters().draft_contexts()
    assert draft.memory_report().cache_bytes == reference.memory_report().cache_bytes
    call = {"max_tokens": 128, "temperature": 0, "logit_bias": no_end(llm)}
    spec = llm.generate(TEXT, **call)
    assert spec.tokens == llm.generate(TEXT, drafters="none", **call).tokens
    assert spec.stats.acceptance > 0.8  # the same weights; only the target's rounding differs


def test_a_draft_for_another_model_is_put_to_rest(tiny: TinyFiles, caplog: pytest.LogCaptureFixture) -> None:
    """C019 (SafeAILab/EAGLE#98; z-lab/dflash#60), C016 (ggml-org/llama.cpp#23544, #25908, #25792): a draft of other weights
    is noticed within 64 rounds, whatever it believes of itself; what it costs stays within what the bank allows; and the
    user is told once, with the measured rate."""
    table = {1: 30.0, 4: 36.0, 8: 60.0, 16: 100.0}
    with LLM(
        tiny.path("llama"),
        draft=tiny.path("llama", seed=1, dtype="q4_0"),  # small enough to be tried
        drafters="draft-simple",
        n_ctx=512,
        n_threads=1,
        audit=True,
        controller="auto",
        cost_table=table,
    ) as llm:
        llm._control.controller = Controller(CostTable(table, frozen=True), counted_cost=True)
        call = {"max_tokens": 256, "temperature": 0, "logit_bias": no_end(llm)}
        spec = llm.generate(TEXT, **call)
        assert spec.tokens == llm.generate(TEXT, drafters="none", **call).tokens
        stats = spec.stats
        assert stats.controller is not None
        assert stats.rounds - sum(n for k, n in stats.controller.lengths.items() if k) > 0.8 * stats.rounds
        assert stats.controller.rests > 100
        assert stats.controller.saved_ms > -0.05 * 256 * table[1]  # at least 0.95 of plain decoding
        for number in range(4):
            llm.generate(f"{TEXT} {number}", **call)
        told = [
            record.getMessage() for record in caplog.records if "drafts for another model" in record.message
        ]
        assert len(told) == 1
        assert re.search(
            r"draft-simple .* \d+ of its \d+ drafts began with the right token \(\d+ %\)", told[0]
        )


@pytest.mark.parametrize("dtype", ["f32", "q4_0", "q8_0"])
def test_widths_do_not_change_the_text(
    tiny: TinyFiles, dtype: str, count_cases: Callable[[int], None]
) -> None:
    """C032 (ggml-org/llama.cpp#25618, #27407; ml-explore/mlx-lm#1423, #1470; vllm-project/vllm#7627): a row is computed the
    same way whatever is computed beside it, so quantised models need no exception: 25 prompts, 2 to 9 rows."""
    with LLM(
        tiny.path("llama", dtype=dtype), drafters="none", n_ctx=128, n_threads=1, controller="fixed"
    ) as llm:
        rng = random.Random(3)
        for number in range(25):
            prompt = [rng.randrange(5, 300) for _ in range(rng.randrange(1, 30))]
            call = {"max_tokens": 20, "temperature": 0, "logprobs": 0}
            plain = llm.generate(prompt, **call)
            n = 1 + number % 8
            drafters = [Scripted(plain.tokens, len(prompt), rng.randrange(n + 1), n)]
            spec = llm.generate(prompt, drafters=drafters, **call)
            assert spec.tokens == plain.tokens and spec.logprobs == plain.logprobs
    count_cases(25)


# --- grammars


class LegalButWrong(Scripted):
    """Proposes what the grammar allows and the target does not choose, and compares the grammar's state after every round
    with one that saw only what was emitted."""

    name = "legal"

    def __init__(self, recorded: Sequence[int], n_prompt: int, n: int, seed: int) -> None:
        super().__init__(recorded, n_prompt, n, n)
        self.dice = random.Random(seed)
        self.state: Any = None  # the generation's
        self.shadow: Any = None
        self.n_fed = 0
        self.rounds = 0

    def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
        from tests.grammar.helpers import allowed

        place = len(history) - self.n_prompt + 1
        for token in self.recorded[self.n_fed : place]:
            self.shadow.commit([token])
        self.n_fed = place
        assert self.state.fingerprint() == self.shadow.fingerprint()
        self.rounds += 1
        probe = self.shadow.copy()
        tokens = self.recorded[place : place + self.dice.randrange(self.n)]
        ends = self.state.vocabulary.end_ids
        for token in tokens:
            if probe.finished or token in ends:
                return Draft([*tokens, 7, 0], self.name)
            probe.commit([token])
        while len(tokens) < self.n and not probe.finished:
            at = place + len(tokens)
            right = self.recorded[at] if at < len(self.recorded) else -1
            choices = sorted(allowed(probe.plan([])[1][0]))
            token = self.dice.choice([c for c in choices if c != right] or choices)
            tokens.append(token)
            if token in ends:
                break
            probe.commit([token])
        return Draft(tokens, self.name) if tokens else None


def schema_answers(llm: LLM, n: int, part: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """n answers that end, each plain, with an oracle that runs past the end, and with legal but wrong drafts."""
    rng = random.Random(f"cases {part}")
    start = llm._grammars.start
    ended = tried = 0
    while ended < n:
        tried += 1
        assert tried < 3 * n
        schema = random_schema(rng)
        call: dict[str, Any] = {
            "max_tokens": 150,
            "seed": rng.randrange(10**6),
            "temperature": 1.0,
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        }
        plain = llm.generate(TEXT, drafters="none", **call)
        if plain.finish_reason != "stop":  # a random model may like digits for ever
            continue
        ended += 1
        jsonschema.validate(json.loads(plain.text), schema)
        width = rng.randrange(2, 17)
        end = plain.stopped_by
        assert isinstance(end, int)
        whole = [*plain.tokens, end]
        wrong = LegalButWrong(whole, plain.usage.prompt, width, tried)
        oracle = Scripted([*whole, end, 7, 0], plain.usage.prompt, width, width)
        with monkeypatch.context() as patch:
            patch.setattr(llm._grammars, "start", partial(followed, wrong, start))
            for drafter in (oracle, wrong):
                got = llm.generate(TEXT, drafters=[drafter], **call)
                assert got.text == plain.text and got.tokens == plain.tokens
                assert got.finish_reason == "stop" and got.stopped_by == end
                assert got.stats.parked_drafters == {}
    return ended


def followed(drafter: LegalButWrong, start: Callable[[Any], Any], grammar: Any) -> Any:
    """The state of a generation that starts; the drafter watches it."""
    drafter.state = start(grammar)
    drafter.shadow, drafter.n_fed = drafter.state.copy(), 0
    return drafter.state


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_json_with_drafts_past_its_end(
    open_llm: Callable[..., LLM],
    family: str,
    monkeypatch: pytest.MonkeyPatch,
    count_cases: Callable[[int], None],
) -> None:
    """C054 (openvinotoolkit/openvino.genai#4081), C055 (anthony-chaudhary/fak#5271), invariant 46: valid, "stop", no
    exception, the plain text, and a state that saw only committed tokens. 2 x 15 texts."""
    count_cases(schema_answers(open_llm(family), 15, 0, monkeypatch))


@pytest.mark.long
@pytest.mark.parametrize("part", range(1, 6))
def test_json_500_times(
    open_llm: Callable[..., LLM],
    part: int,
    monkeypatch: pytest.MonkeyPatch,
    count_cases: Callable[[int], None],
) -> None:
    """C054, C055: 5 x 100 texts."""
    count_cases(schema_answers(open_llm("llama"), 100, part, monkeypatch))


def test_after_a_grammar_error(open_llm: Callable[..., LLM]) -> None:
    """C056 (ggml-org/llama.cpp#18173, #13341): a typed error, and the next call is that of a fresh LLM."""
    llm, fresh = open_llm("llama", drafters="suffix"), open_llm("llama", drafters="suffix")
    llm.generate(TEXT, max_tokens=10, seed=2)
    for bad in ("root ::= nowhere", "start: /(/", 'root ::= "a" root'):
        with pytest.raises(GrammarError):
            llm.generate(TEXT, grammar=bad)
    call = {"max_tokens": 20, "seed": 2}
    assert llm.generate(TEXT, **call).tokens == fresh.generate(TEXT, **call).tokens
    call["grammar"] = 'root ::= "{" [a-z ]+ "}"'  # a random model would rather begin otherwise
    got = llm.generate(TEXT, **call)
    assert got.text.startswith("{") and got.tokens == fresh.generate(TEXT, **call).tokens


# --- the same through every door


@pytest.mark.parametrize("drafters", ["suffix:p_min=0", "ngram-map-k:n=1,m=4", "draft-simple:p_min=0"])
@pytest.mark.parametrize("controller", ["fixed", "auto"])
def test_every_door_drafts_alike(open_llm: Callable[..., LLM], drafters: str, controller: str) -> None:
    """C079 (ggml-org/llama.cpp#12968), invariant 49: equal token histories, equal drafts: through text, ids, a stream, a
    chat and a streamed chat."""
    template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    sentence = " Repeat this sentence fifty times: the cat sat on the mat." * 3
    found = []
    for door in range(5):
        options: dict[str, Any] = {"drafters": drafters, "template": template, "controller": controller}
        if "draft-simple" in drafters:
            options["draft"] = {"dtype": "q4_0"}
        llm = open_llm("llama", **options)
        if controller == "auto":
            llm._control.controller = Controller(
                CostTable({1: 10.0, 8: 11.0, 32: 14.0}, frozen=True), counted_cost=True
            )
        messages = [{"role": "user", "content": sentence}]
        call = {"max_tokens": 60, "temperature": 0, "logit_bias": no_end(llm)}
        if door == 0:
            result = llm.generate(sentence, **call)
        elif door == 1:
            result = llm.generate(llm.tokenize(sentence), **call)
        elif door == 2:
            result = [chunk.result for chunk in llm.stream(sentence, **call)][-1]
        elif door == 3:
            result = llm.chat(messages, **call)
        else:
            result = [chunk.result for chunk in llm.chat(messages, stream=True, **call)][-1]
        stats = result.stats
        found.append((result.tokens, stats.rounds, stats.drafted, stats.accepted, result.usage.prompt))
    assert all(one == found[0] for one in found), found
    assert found[0][2] > 0


@pytest.mark.real
@pytest.mark.long
@pytest.mark.parametrize("n", [4, 16])
def test_a_round_costs_what_its_decode_costs(real_model: Callable[[str], Path], n: int) -> None:
    """C078 (ggml-org/llama.cpp#25908, #10664): with a drafter that is free and always right, what a round takes beside the
    target's decode is at most 5 % of it. The phases are in the statistics; the best of three counts, machines being busy."""
    shares = []
    with LLM(real_model("smollm2"), drafters="none", controller="fixed", n_ctx=1024, n_threads=1) as llm:
        call = {"max_tokens": 128, "temperature": 0, "logit_bias": no_end(llm)}
        plain = llm.generate(TEXT, **call)
        for _ in range(3):
            drafter = script(f"{n}/{n}", plain.tokens, plain.usage.prompt)
            stats = llm.generate(TEXT, drafters=[drafter], **call).stats
            assert stats.accepted == stats.drafted > 90
            assert stats.draft_ms + stats.verify_ms + stats.accept_ms <= stats.generation_ms
            shares.append((stats.generation_ms - stats.verify_ms) / stats.verify_ms)
    assert min(shares) < 0.05, shares
