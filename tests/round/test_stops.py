"""Stops inside accepted blocks: invariants 17 and 46, and nothing behind a stop leaks anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyspec.errors import OptionError
from pyspec.llm.answer import Answer
from pyspec.llm.llm import LLM
from pyspec.llm.results import GenerationResult
from pyspec.llm.stop import StopStrings
from tests.fakes import FakeCore, FakeModel, FakeVocab, default_texts, letters, looping
from tests.round.scripted import script

PROMPT = [5, 6, 7, 8, 9]


def recorded(n: int = 60, target: FakeModel | None = None) -> list[int]:
    with LLM("fake.gguf", _backend=FakeCore(target or looping()).backend) as llm:
        return llm.generate(PROMPT, max_tokens=n, temperature=0).tokens


def readable() -> FakeModel:
    """A target whose every token is some letters."""
    return FakeModel(seed=3, vocab=FakeVocab(letters()), boost=dict.fromkeys(range(5), -50.0))


def check_books(llm: LLM, result: GenerationResult) -> None:
    """C035 (sgl-project/sglang#39826) and the memory: every counter and every cache speaks of the same
    tokens.
    """
    stats = result.stats
    assert result.usage.prompt == len(PROMPT)
    assert result.usage.completion == len(result.tokens)
    assert result.usage.total == len(PROMPT) + len(result.tokens)
    assert stats.drafted >= stats.accepted >= 0
    assert stats.accepted + stats.chosen == len(result.tokens)
    if result.logprobs is not None:
        assert [entry.token for entry in result.logprobs] == result.tokens
    context = llm.core.contexts[0]
    held = [token for token, _ in context.cells]
    assert held == (PROMPT + result.tokens)[: len(held)]
    assert len(held) >= len(PROMPT) + len(result.tokens) - 1


@pytest.mark.parametrize("offset", range(1, 10))
@pytest.mark.parametrize("kind", ["oracle", "3/8", "adversary", "none"])
def test_end_token_at_every_place_of_a_block(make_llm: Callable[..., LLM], kind: str, offset: int) -> None:
    """C029 (LostRuins/koboldcpp#1276): a mid-run token of the plain run is declared the end token, at all
    alignments.
    """
    answer = recorded()
    end = answer[offset]
    n = answer.index(end)
    vocab = FakeVocab(default_texts(), eog=frozenset({2, end}))
    llm = make_llm(FakeModel(seed=62, span=2, boost={2: -50}, vocab=vocab))
    drafters: Any = "none" if kind == "none" else [script(kind, answer, len(PROMPT))]
    result = llm.generate(PROMPT, max_tokens=60, temperature=0, drafters=drafters, logprobs=1)
    assert result.tokens == answer[:n]
    assert result.finish_reason == "stop"
    assert result.stopped_by == end
    check_books(llm, result)
    chunks = list(llm.stream(PROMPT, max_tokens=60, temperature=0, drafters=drafters))
    assert [token for chunk in chunks for token in chunk.tokens] == answer[:n]
    if kind == "oracle":
        assert result.stats.drafted == result.stats.accepted


@pytest.mark.parametrize("offset", range(1, 10))
@pytest.mark.parametrize("kind", ["oracle", "3/8", "none"])
def test_stop_token_ids(make_llm: Callable[..., LLM], kind: str, offset: int) -> None:
    """C029 for ids the caller names, which the acceptance in the core does not know."""
    answer = recorded()
    end = answer[offset]
    llm = make_llm(looping())
    drafters: Any = "none" if kind == "none" else [script(kind, answer, len(PROMPT))]
    result = llm.generate(
        PROMPT, max_tokens=60, temperature=0, drafters=drafters, stop_token_ids=[end], logprobs=0
    )
    assert result.tokens == answer[: answer.index(end)]
    assert result.stopped_by == end
    check_books(llm, result)


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("offset", range(1, 19))
@pytest.mark.parametrize("kind", ["oracle", "3/8", "adversary", "none"])
def test_stop_string_at_every_place(
    make_llm: Callable[..., LLM], kind: str, offset: int, length: int
) -> None:
    """C030 (vllm-project/vllm#47616): a stop string over 1-3 tokens; text, tokens, logprobs and memory end
    together, and the next turn's prefix reuse starts at the cut."""
    answer = recorded(target=readable())
    llm = make_llm(readable())
    stop = b"".join(llm.model.tokenizer.piece(t) for t in answer[offset : offset + length]).decode()
    drafters: Any = "none" if kind == "none" else [script(kind, answer, len(PROMPT))]
    call = {"max_tokens": 60, "temperature": 0, "drafters": drafters, "logprobs": 2, "stop": stop}
    result = llm.generate(PROMPT, **call)
    whole = llm.detokenize(answer)
    assert result.text == whole[: whole.index(stop)]
    assert result.finish_reason == "stop"
    assert result.stopped_by == stop
    assert result.text.startswith(llm.detokenize(result.tokens))
    if whole.index(stop) == len(llm.detokenize(answer[:offset])):
        assert llm.detokenize(result.tokens) == result.text
    check_books(llm, result)
    following = PROMPT + result.tokens + [9, 9]
    again = llm.generate(following, max_tokens=20, temperature=0)
    assert again.stats.prompt_tokens_reused == len(PROMPT) + len(result.tokens)  # invariant 17
    assert again.tokens == make_llm(readable()).generate(following, max_tokens=20, temperature=0).tokens


@pytest.mark.parametrize("kind", ["oracle", "3/8", "none"])
def test_streams_never_take_text_back(make_llm: Callable[..., LLM], kind: str) -> None:
    """C030 for streams: what may become a stop string is held back; all chunks together are the answer."""
    answer = recorded(target=readable())
    llm = make_llm(readable())
    whole = llm.detokenize(answer)
    drafters: Any = "none" if kind == "none" else [script(kind, answer, len(PROMPT))]
    for start in range(20):
        for length in (2, 4, 7):
            for stop in (whole[start : start + length], whole[start : start + length] + "\x00"):
                call = {"max_tokens": 60, "temperature": 0, "drafters": drafters, "stop": [stop, "zzzzzz"]}
                result = llm.generate(PROMPT, **call)
                stream = llm.stream(PROMPT, logprobs=0, **call)
                text, tokens = "", []
                for chunk in stream:
                    text += chunk.text
                    tokens += chunk.tokens
                    assert chunk.logprobs is not None and len(chunk.logprobs) == len(chunk.tokens)
                    assert result.text.startswith(text)
                assert text == result.text == stream.result.text
                assert tokens == result.tokens == stream.result.tokens


def test_characters_are_never_split(make_llm: Callable[..., LLM]) -> None:
    """C092 (abetlen/llama-cpp-python#372): no chunk has half a character; the rest is flushed at the end."""
    smile, tail = 15, 16  # two halves of an emoji in the fake vocabulary
    model = FakeModel(span=1)
    order = [smile, tail, 13, 14, 18, smile, tail]  # emoji, č, 한, emoji

    class Fixed(FakeModel):
        def logits(self, cells: Any) -> Any:
            row = super().logits(cells).copy()
            row[order[(len(cells) - len(PROMPT)) % len(order)]] += 100
            return row

    expected = "😀č한😀" * 3
    n = 3 * len(order)
    for kind in ("none", "oracle", "1/2", "2/3", "3/8"):
        llm = make_llm(Fixed(span=1))
        drafters: Any = "none" if kind == "none" else [script(kind, order * 4, len(PROMPT))]
        chunks = list(llm.stream(PROMPT, max_tokens=n, temperature=0, drafters=drafters))
        assert "".join(chunk.text for chunk in chunks) == expected
        assert all("\ufffd" not in chunk.text for chunk in chunks)
        cut = llm.generate(PROMPT, max_tokens=n + 1, temperature=0, drafters=drafters)
        assert (
            cut.text == expected + "\ufffd"
        )  # the limit fell into a character: its bytes are shown, not dropped
        streamed = "".join(
            c.text for c in llm.stream(PROMPT, max_tokens=n + 1, temperature=0, drafters=drafters)
        )
        assert streamed == cut.text
    assert model.tokenizer.piece(smile) + model.tokenizer.piece(tail) == "😀".encode()


class TestStopStrings:
    def test_earliest_match_wins_then_the_longest(self) -> None:
        stops = StopStrings(["bc", "abc", "ab"])
        assert stops.find(bytearray(b"xxabc"), 0) == (2, "abc")
        assert stops.find(bytearray(b"xbcab"), 0) == (1, "bc")

    def test_only_new_matches_are_found(self) -> None:
        stops = StopStrings(["ab"])
        assert stops.find(bytearray(b"xaby"), 3) is None
        assert stops.find(bytearray(b"xab"), 2) == (1, "ab")

    @pytest.mark.parametrize(
        ("data", "safe"),
        [(b"hello", 5), (b"hello\n", 5), (b"\nUs", 0), (b"\n\n", 1), (b"\nUsed", 5), (b"", 0)],
    )
    def test_safe_length(self, data: bytes, safe: int) -> None:
        assert StopStrings(["\nUser", "\n###"]).safe_length(bytearray(data)) == safe

    def test_a_stop_inside_a_token_keeps_the_text_before_it(self) -> None:
        answer = Answer([b"abc", b"deSTOPfg"].__getitem__, StopStrings(["STOP"]), frozenset(), False)
        assert answer.push(0)
        assert not answer.push(1)
        assert (answer.text, answer.tokens) == ("abcde", [0])
        assert answer.release(final=True)[0] == "abcde"

    @pytest.mark.parametrize("stop", [[""], ["ok", ""], [b"x"], 7])
    def test_bad_stops_are_refused(self, make_llm: Callable[..., LLM], stop: Any) -> None:
        with pytest.raises((OptionError, TypeError)):
            make_llm(looping()).generate(PROMPT, stop=stop)
