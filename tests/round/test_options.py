"""Options of a call: names, ranges, seeds, logprobs; and prompts with exactly one BOS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyspec.errors import ContextFullError, OptionError
from pyspec.llm.llm import LLM
from tests.fakes import FakeContext, FakeModel, FakeVocab, default_texts, looping, shuffled
from tests.round.scripted import script

PROMPT = [5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"temprature": 1},
            r"unknown option 'temprature' \(did you mean 'temperature'\?\); known: max_tokens, stop",
        ),
        ({"stream": True}, "unknown option 'stream'"),
        ({"max_tokens": -2}, "max_tokens must be"),
        ({"max_tokens": 1.5}, "max_tokens must be"),
        ({"max_tokens": True}, "max_tokens must be"),
        ({"seed": 1.5}, "seed must be"),
        ({"seed": "x"}, "seed must be"),
        ({"logprobs": -1}, "logprobs must be"),
        ({"logprobs": "all"}, "logprobs must be"),
        ({"stop": ""}, "stop takes non-empty strings"),
        ({"stop_token_ids": [48]}, r"48 is not a token id of this model \(0\.\.47\)"),
        ({"stop_token_ids": ["a"]}, "'a' is not a token id"),
        ({"drafters": "ngram"}, "unknown drafter"),
    ],
)
def test_bad_options_are_named(make_llm: Callable[..., LLM], options: dict[str, Any], message: str) -> None:
    llm = make_llm(looping())
    with pytest.raises(OptionError, match=message):
        llm.generate(PROMPT, **options)
    with pytest.raises(OptionError, match=message):
        llm.stream(PROMPT, **options)
    assert llm.core.contexts[0].decodes == []


@pytest.mark.parametrize("prompt", [[], "", b"", [48], [-1], [1, "x"], 7, None])
def test_bad_prompts(make_llm: Callable[..., LLM], prompt: Any) -> None:
    with pytest.raises(OptionError):
        make_llm(looping()).generate(prompt)


@pytest.mark.parametrize("n", [129, 500])
def test_a_prompt_that_does_not_fit(make_llm: Callable[..., LLM], n: int) -> None:
    """C061 (abetlen/llama-cpp-python#1139): the policy is an error with the counts; afterwards the session
    goes on.
    """
    llm = make_llm(looping(), n_ctx=128)
    first = llm.generate(PROMPT, max_tokens=10, temperature=0)
    with pytest.raises(ContextFullError, match=f"the prompt has {n} tokens, the context holds n_ctx=128"):
        llm.generate(shuffled(1, n), max_tokens=5)
    again = llm.generate(PROMPT, max_tokens=10, temperature=0)
    assert again.tokens == first.tokens and again.stats.prompt_tokens_evaluated == 1


def test_penalties_look_back_into_the_prompt(make_llm: Callable[..., LLM]) -> None:
    """C031: the sampler has seen the prompt's tail before the first token, as far as the penalties reach;
    without penalties nothing is fed."""
    llm = make_llm(looping())
    prompt = shuffled(1, 100)
    for options, seen in (
        ({"repeat_penalty": 1.2}, prompt[-64:]),
        ({"frequency_penalty": 0.1, "penalty_last_n": 10}, prompt[-10:]),
        ({"presence_penalty": -0.1, "penalty_last_n": -1}, prompt),
        ({"repeat_penalty": 1.2, "penalty_last_n": 0}, []),
        ({}, []),
    ):
        result = llm.generate(prompt, max_tokens=3, **options)
        assert llm.core.samplers[-1].tokens == seen + result.tokens
        assert llm.core.samplers[-1].index == 3


@pytest.mark.parametrize("name", ["n_batch", "n_ubatch", "n_ctx"])
@pytest.mark.parametrize("value", [-1, 1.5, "x", True])
def test_bad_sizes_are_named(make_llm: Callable[..., LLM], name: str, value: Any) -> None:
    target = looping()
    with pytest.raises(OptionError, match=f"{name} must be a whole number"):
        make_llm(target, **{name: value})
    assert target.closed


@pytest.mark.parametrize(
    ("asked", "trained", "got"), [(4096, 512, 512), (0, 512, 512), (100, 512, 100), (600, 512, 512)]
)
def test_context_length(make_llm: Callable[..., LLM], asked: int, trained: int, got: int) -> None:
    target = looping()
    target.info.n_ctx_train = trained
    llm = make_llm(target, n_ctx=asked)
    assert llm.n_ctx == llm.core.contexts[0].n_ctx == got


def test_how_long_drafts_of_a_draft_model_may_get(make_llm: Callable[..., LLM]) -> None:
    """The controller may choose long ones; fixed lengths have to be good on average; what is given counts, in a call too."""

    def longest(options: dict[str, Any], drafters: str | None = None) -> int:
        target = looping()
        draft = FakeModel("draft.gguf", span=2, like=target, agree=1.0)
        llm = make_llm(target, draft, **options)
        result = llm.generate(PROMPT, max_tokens=60, temperature=0, drafters=drafters)
        (drafter,) = [drafter for name, drafter in llm._drafters._made.items() if name == "draft-simple"]
        found = len(result.stats.drafters["draft-simple"].proposed_per_position)
        assert found == drafter.max_draft if options["controller"] == "fixed" else found <= drafter.max_draft
        return drafter.max_draft

    auto = {"controller": "auto"}
    assert longest(auto) == longest(auto, "draft-simple:p_min=0") == 16
    assert longest(auto | {"n_draft": 5}) == longest(auto | {"n_draft": 5}, "draft-simple") == 5
    assert longest(auto | {"drafters": "draft-simple:n_draft=7"}) == 7
    fixed = {"drafters": "draft-simple:p_min=0", "controller": "fixed"}
    assert longest(fixed) == longest(fixed, "draft-simple:p_min=0") == 3
    assert longest(fixed | {"n_draft": 6}) == longest(fixed | {"n_draft": 6}, "draft-simple:p_min=0") == 6
    assert longest(fixed, "draft-simple:n_draft=9,p_min=0") == 9


class TestSeeds:
    """C034 (vllm-project/vllm#6034)."""

    def test_same_seed_same_text_others_differ(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping())
        call = {"max_tokens": 30, "temperature": 0.8}
        runs = [llm.generate(PROMPT, seed=seed, **call).tokens for seed in range(10)]
        assert [llm.generate(PROMPT, seed=seed, **call).tokens for seed in range(10)] == runs
        assert len({tuple(run) for run in runs}) == 10

    def test_unseeded_runs_differ_and_can_be_repeated(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping())
        runs = [llm.generate(PROMPT, max_tokens=30) for _ in range(10)]
        assert len({tuple(run.tokens) for run in runs}) == 10
        assert len({run.seed for run in runs}) == 10 and max(run.seed for run in runs) >= 2**40
        for run in runs:
            assert llm.generate(PROMPT, max_tokens=30, seed=run.seed).tokens == run.tokens

    def test_interleaved_sessions(self, make_llm: Callable[..., LLM]) -> None:
        one, two = make_llm(looping()), make_llm(looping())
        expected = [
            one.generate(PROMPT, max_tokens=20, seed=4).tokens,
            two.generate(PROMPT, max_tokens=20, seed=5).tokens,
        ]
        streams = [one.stream(PROMPT, max_tokens=20, seed=4), two.stream(PROMPT, max_tokens=20, seed=5)]
        got: list[list[int]] = [[], []]
        for a, b in zip(*streams, strict=True):
            got[0] += a.tokens
            got[1] += b.tokens
        assert got == expected

    def test_the_place_in_the_session_does_not_matter(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping())
        expected = llm.generate(PROMPT, max_tokens=20, seed=4).tokens
        llm.generate(shuffled(1, 100), max_tokens=50, seed=1)
        assert llm.generate(PROMPT, max_tokens=20, seed=4).tokens == expected

    def test_negative_and_large_seeds(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping())
        assert llm.generate(PROMPT, max_tokens=1, seed=-1).seed == 2**64 - 1
        assert llm.generate(PROMPT, max_tokens=1, seed=2**64 + 5).seed == 5


@pytest.mark.parametrize("kind", ["none", "oracle", "3/8", "adversary"])
class TestLogprobs:
    def test_of_the_model(self, make_llm: Callable[..., LLM], kind: str) -> None:
        """One entry for each token, from the model's own distribution; asking changes nothing."""
        llm = make_llm(looping())
        call: dict[str, Any] = {"max_tokens": 40, "temperature": 0.9, "seed": 6, "repeat_penalty": 1.3}
        plain = llm.generate(PROMPT, **call)
        call["drafters"] = "none" if kind == "none" else [script(kind, plain.tokens, len(PROMPT))]
        for n in (0, True, 1, 5):
            result = llm.generate(PROMPT, logprobs=n, **call)
            assert result.tokens == plain.tokens
            assert [entry.token for entry in result.logprobs] == plain.tokens
            assert {len(entry.top) for entry in result.logprobs} == {int(n) if n is not True else 0}
        reference = FakeContext(looping(), n_ctx=1000)
        reference.decode(PROMPT)
        for entry in result.logprobs:
            row = reference.logits(0).astype(np.float64)
            values = row - np.log(np.exp(row).sum())
            assert entry.logprob == pytest.approx(values[entry.token])
            order = sorted(range(48), key=lambda i: (-values[i], i))
            assert [token for token, _ in entry.top] == order[:5]
            reference.decode([entry.token])

    def test_after_the_filters(self, make_llm: Callable[..., LLM], kind: str) -> None:
        """logprobs="sampled" follows the penalties token by token, inside accepted blocks too."""
        llm = make_llm(looping())
        call: dict[str, Any] = {
            "max_tokens": 40,
            "temperature": 0.9,
            "seed": 6,
            "presence_penalty": 2.0,
            "top_k": 5,
        }
        plain = llm.generate(PROMPT, drafters="none", logprobs="sampled", **call)
        drafters: Any = "none" if kind == "none" else [script(kind, plain.tokens, len(PROMPT))]
        result = llm.generate(PROMPT, logprobs="sampled", drafters=drafters, **call)
        assert result.tokens == plain.tokens == llm.generate(PROMPT, **call).tokens
        assert result.logprobs == plain.logprobs
        assert len({round(entry.logprob, 6) for entry in result.logprobs}) > 20
        assert all(-50 < entry.logprob <= 0 for entry in result.logprobs)
        raw = llm.generate(PROMPT, logprobs=0, drafters=drafters, **call)
        assert any(
            abs(a.logprob - b.logprob) > 0.1 for a, b in zip(raw.logprobs, result.logprobs, strict=True)
        )

    def test_without(self, make_llm: Callable[..., LLM], kind: str) -> None:
        for value in (None, False):
            assert make_llm(looping()).generate(PROMPT, max_tokens=3, logprobs=value).logprobs is None


def model_with(template: str | None, *, add_bos: bool) -> FakeModel:
    meta = {} if template is None else {"tokenizer.chat_template": template.encode()}
    texts = default_texts(80)
    texts[60:66] = [b"user", b"assistant", b"system", b": ", b"hello", b"\xe2\x9c\x93"]
    return FakeModel(vocab=FakeVocab(texts, add_bos=add_bos), meta=meta, span=2, boost={2: -50, 1: -50})


WITH_BOS = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
WITHOUT = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "


class TestChat:
    @pytest.mark.parametrize(
        ("template", "add_bos", "n_bos"),
        [(WITH_BOS, True, 1), (WITHOUT, True, 1), (WITH_BOS, False, 1), (WITHOUT, False, 0)],
    )
    def test_exactly_one_bos(
        self, make_llm: Callable[..., LLM], template: str, add_bos: bool, n_bos: int
    ) -> None:
        """C049 (abetlen/llama-cpp-python#1501): one BOS at position 0 over three turns, the same ids for the
        draft; C052 (ggml-org/llama.cpp#15086): a template's own BOS stays when add_bos is false."""
        target = model_with(template, add_bos=add_bos)
        draft = FakeModel("draft.gguf", vocab=target.vocab, span=2, like=target)
        llm = make_llm(target, draft, drafters="draft-simple:p_min=0")
        messages = [{"role": "user", "content": "hello"}]
        for _ in range(3):
            result = llm.chat(messages, max_tokens=6, temperature=0)
            for context in llm.core.contexts:
                held = [token for token, _ in context.cells]
                assert held.count(1) == n_bos
                assert n_bos == 0 or held[0] == 1
            target_held, draft_held = ([t for t, _ in context.cells] for context in llm.core.contexts)
            assert draft_held == target_held[: len(draft_held)]
            assert result.message["role"] == "assistant" and result.message["content"] == result.text
            messages += [result.message, {"role": "user", "content": "hello"}]

    @pytest.mark.parametrize(("text", "n_bos"), [("hello", 1), ("<bos>hello", 1), ("<bos><bos>hello", 2)])
    def test_plain_text(self, make_llm: Callable[..., LLM], text: str, n_bos: int) -> None:
        """C049 for generate: the tokenizer adds BOS, unless the text brings its own."""
        llm = make_llm(model_with(None, add_bos=True))
        llm.generate(text, max_tokens=1)
        held = [token for token, _ in llm.core.contexts[0].cells]
        assert held == [1] * n_bos + llm.tokenize("hello", add_special=False)
        llm.generate("<bos>hello", max_tokens=1, parse_special=False)
        assert [token for token, _ in llm.core.contexts[0].cells][:2] != [1, 1]

    def test_template_variables_and_tools(self, make_llm: Callable[..., LLM]) -> None:
        template = (
            "{% if enable_thinking %}system{% endif %}{% if tools %}user{% endif %}{{ messages[0].content }}"
        )
        llm = make_llm(model_with(template, add_bos=False))

        def ids(**options: Any) -> list[int]:
            result = llm.chat([{"role": "user", "content": "hello"}], max_tokens=1, temperature=0, **options)
            return [token for token, _ in llm.core.contexts[0].cells][: result.usage.prompt]

        assert ids() == [64]
        assert ids(enable_thinking=True) == [62, 64]
        assert ids(template_kwargs={"enable_thinking": True}, tools=[{"name": "f"}]) == [62, 60, 64]

    def test_misspelt_options_do_not_become_variables(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(model_with(WITHOUT, add_bos=False))
        with pytest.raises(OptionError, match="did you mean 'temperature'"):
            llm.chat([{"role": "user", "content": "hello"}], temprature=0)

    def test_stream(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(model_with(WITHOUT, add_bos=False))
        messages = [{"role": "user", "content": "hello"}]
        result = llm.chat(messages, max_tokens=9, temperature=0)
        stream = llm.chat(messages, max_tokens=9, temperature=0, stream=True)
        assert "".join(chunk.text for chunk in stream) == result.text
        assert stream.result.message == result.message

    def test_a_conversation_of_40_turns(self, make_llm: Callable[..., LLM]) -> None:
        """C061: the turn that no longer fits raises with the counts; a shortened conversation goes on, draft
        included.
        """
        target = model_with(WITHOUT, add_bos=True)
        draft = FakeModel("draft.gguf", vocab=target.vocab, span=2, like=target)
        llm = make_llm(target, draft, n_ctx=128, drafters="draft-simple:p_min=0")
        messages: list[dict[str, str]] = []
        full = 0
        for _ in range(40):
            messages.append({"role": "user", "content": "hello"})
            try:
                result = llm.chat(messages, max_tokens=6, temperature=0)
            except ContextFullError as error:
                assert "n_ctx=128" in str(error)
                full += 1
                messages = messages[-3:]
                result = llm.chat(messages, max_tokens=6, temperature=0)
            messages.append(result.message)
        assert full >= 2
        fresh = make_llm(target).chat(messages[:-1], max_tokens=6, temperature=0)
        assert fresh.tokens == result.tokens
