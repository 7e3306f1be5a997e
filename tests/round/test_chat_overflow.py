"""Conversations that do not fit: which messages leave, what the result says, and that the chat goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from pyspec.errors import ContextFullError, OptionError, TemplateError
from pyspec.llm.chat_overflow import answer_reserve, drop_oldest, front_tokens, turn_starts
from pyspec.llm.llm import LLM
from pyspec.llm.results import ChatResult
from tests.fakes import FakeModel, looping

Messages = Sequence[Mapping[str, Any]]

#: One token for each message's role, then its text; "<|a|>" before an answer.
TEMPLATE = (
    "{%- for m in messages %}{{ {'system': '<bos>', 'user': '<|b|>', 'assistant': '<|a|>', 'tool': '<unk>'}[m.role] }}"
    "{{ m.content }}{%- endfor %}{%- if add_generation_prompt %}<|a|>{%- endif %}"
)


def message(role: str, n: int, tag: int = 0) -> dict[str, Any]:
    return {"role": role, "content": chr(97 + tag % 26) * n}


def conversation(roles: str, n: int = 9) -> list[dict[str, Any]]:
    """s, u, a and t are roles; every message has n letters and with its role n + 1 tokens."""
    names = {"s": "system", "d": "developer", "u": "user", "a": "assistant", "t": "tool"}
    return [message(names[role], n, i) for i, role in enumerate(roles)]


class TestWhatLeaves:
    @pytest.mark.parametrize(
        ("roles", "starts"),
        [
            ("suauau", [1, 3, 5]),
            ("uauau", [0, 2, 4]),
            ("su", [1]),
            ("ssdu", [3]),
            ("sauau", [1, 2, 4]),
            ("sutatauau", [1, 6, 8]),
            ("s", []),
            ("", []),
        ],
    )
    def test_turns(self, roles: str, starts: list[int]) -> None:
        assert turn_starts(conversation(roles)) == starts

    @pytest.mark.parametrize(("room", "expected"), [(60, 0), (59, 2), (40, 2), (39, 4), (20, 4), (3, 4)])
    def test_pairs_stay_together(self, room: int, expected: int) -> None:
        """C061: what is left is the system message and whole turns; no more leaves than has to."""
        messages = conversation("suauau")
        ids, dropped = drop_oldest(messages, tokens_of, room)
        assert dropped == expected
        assert ids == tokens_of([messages[0], *messages[1 + dropped :]])

    def test_every_room(self) -> None:
        """Against trying one turn after the other, for conversations of many shapes and every room."""
        for roles in ("suauauau", "uauauau", "sutatauaututau", "ssuau", "sauau", "u", "su", "sa"):
            messages = [message(m["role"], 3 + 2 * i, i) for i, m in enumerate(conversation(roles))]
            front = len(roles) - len(roles.lstrip("sd"))
            starts = [front, *(i for i, role in enumerate(roles) if role == "u" and i > front)]
            for room in range(len(tokens_of(messages)) + 2):
                for start in starts:
                    kept = [*messages[:front], *messages[start:]]
                    if len(tokens_of(kept)) <= room:
                        break
                got, dropped = drop_oldest(messages, tokens_of, room)
                assert (got, dropped) == (tokens_of(kept), start - front)

    def test_few_renderings(self) -> None:
        """A long conversation is not rendered once for each message."""
        calls: list[int] = []

        def counting(messages: Messages) -> list[int]:
            calls.append(len(messages))
            return tokens_of(messages)

        ids, _ = drop_oldest(conversation("s" + "ua" * 500 + "u"), counting, 200)
        assert 180 < len(ids) <= 200 and len(calls) <= 12

    def test_reserve(self) -> None:
        assert answer_reserve(None, None, 512) == 128
        assert answer_reserve(None, 1000, 512) == 128
        assert answer_reserve(None, 30, 512) == 30
        assert answer_reserve(300, 30, 512) == 300
        for bad in (-1, 512, 1.5, True, "many"):
            with pytest.raises(OptionError, match="reserve must be a whole number from 0 to n_ctx - 1 = 511"):
                answer_reserve(bad, None, 512)  # type: ignore[arg-type]

    def test_front_tokens(self) -> None:
        messages = conversation("suau")
        ids = tokens_of(messages)
        assert front_tokens(messages, ids, tokens_of) == 10
        assert front_tokens(messages[1:], ids[10:], tokens_of) == 0

        def refuses(_: Messages) -> list[int]:
            raise TemplateError(1, "a question is needed")

        assert front_tokens(messages, ids, refuses) == 0


def tokens_of(messages: Messages) -> list[int]:
    """A token for the role and one for each letter."""
    return [ord(c) for m in messages for c in m["role"][0] + m["content"]]


def chatting(make_llm: Callable[..., LLM], **options: Any) -> LLM:
    target = looping()
    draft = FakeModel("draft.gguf", span=2, like=target, agree=0.8)
    return make_llm(target, draft, n_ctx=512, template=TEMPLATE, **options)


def forty_turns(llm: LLM, **call: Any) -> list[ChatResult]:
    """The whole conversation is handed over each time."""
    messages = [message("system", 20)]
    results = []
    for turn in range(40):
        messages.append(message("user", 30 + turn % 7, turn))
        result = llm.chat(messages, max_tokens=50, temperature=0, **call)
        messages.append(result.message)
        results.append(result)
    return results


class TestFortyTurns:
    """C061 (abetlen/llama-cpp-python#1139, #416; simonw/llm-llama-cpp#30): n_ctx 512, every policy; the draft side
    matches (the auditor runs) and the answers are those of plain decoding."""

    @pytest.mark.parametrize("drafters", ["draft-simple:n_draft=4,p_min=0", "ngram-simple:n=2,m=8"])
    def test_drop_oldest(
        self, make_llm: Callable[..., LLM], drafters: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        llm = chatting(make_llm, drafters=drafters + (",draft-simple" if "ngram" in drafters else ""))
        with caplog.at_level(logging.INFO, "pyspec"):
            spec = forty_turns(llm, overflow="drop_oldest")
        plain = forty_turns(chatting(make_llm), overflow="drop_oldest", drafters="none")
        assert [r.tokens for r in spec] == [r.tokens for r in plain]
        assert all(len(r.tokens) == 50 for r in spec)
        dropped = [r.dropped_messages for r in spec]
        assert dropped[:4] == [0, 0, 0, 0] and dropped == sorted(dropped) and dropped[-1] > 60
        assert all(n % 2 == 0 for n in dropped)
        assert all(r.usage.prompt <= 512 - 50 for r in spec)
        assert len([r for r in caplog.records if "are left out" in r.message]) == sum(n > 0 for n in dropped)
        assert sum(r.stats.accepted for r in spec[-5:]) > 0

    def test_error_with_counts(self, make_llm: Callable[..., LLM]) -> None:
        llm = chatting(make_llm)
        with pytest.raises(
            ContextFullError, match=r"the prompt has 5\d\d tokens, the context holds n_ctx=512"
        ):
            forty_turns(llm)
        assert len(llm.chat([message("user", 5)], max_tokens=5, temperature=0).tokens) == 5

    def test_roll_with_drop_oldest(self, make_llm: Callable[..., LLM]) -> None:
        """A long answer in a full chat rolls, keeping the system message; the next turn goes on."""
        llm = chatting(make_llm, drafters="draft-simple:n_draft=4,p_min=0")
        forty_turns(llm, overflow="drop_oldest")
        messages = [
            message("system", 20),
            message("user", 30, 1),
            message("assistant", 400, 2),
            message("user", 9, 3),
        ]
        result = llm.chat(messages, max_tokens=280, temperature=0, on_full="roll")
        assert len(result.tokens) == 280 and result.stats.context_rolls == 1 and result.dropped_messages == 0
        cells = [token for token, _ in llm.core.contexts[0].cells]
        assert cells[:21] == llm.tokenize("<bos>" + "a" * 20, parse_special=True)
        assert cells[21] != llm.tokenize("<|b|>", parse_special=True)[0]
        plain = llm.chat(messages, max_tokens=280, temperature=0, on_full="roll", drafters=[])
        assert plain.tokens == result.tokens
        again = llm.chat([*messages[:2], message("user", 5)], max_tokens=5, temperature=0)
        fresh = chatting(make_llm).chat([*messages[:2], message("user", 5)], max_tokens=5, temperature=0)
        assert again.tokens == fresh.tokens


def test_streams_report_it_too(make_llm: Callable[..., LLM]) -> None:
    llm = chatting(make_llm)
    messages = [message("user", 400), message("assistant", 50), message("user", 100)]
    stream = llm.chat(messages, stream=True, max_tokens=10, overflow="drop_oldest")
    for _ in stream:
        pass
    assert isinstance(stream.result, ChatResult) and stream.result.dropped_messages == 2


def test_a_last_message_that_cannot_fit_is_an_error(make_llm: Callable[..., LLM]) -> None:
    llm = chatting(make_llm)
    with pytest.raises(ContextFullError, match=r"the prompt has 60\d tokens"):
        llm.chat([message("user", 5), message("assistant", 5), message("user", 600)], overflow="drop_oldest")


def test_the_reserve_gives_way_before_the_last_message(make_llm: Callable[..., LLM]) -> None:
    llm = chatting(make_llm)
    messages = [message("user", 300), message("assistant", 50), message("user", 450)]
    result = llm.chat(messages, overflow="drop_oldest", temperature=0)
    assert result.dropped_messages == 2 and result.usage.total == 512
    result = llm.chat(messages[:2] + messages[:1], overflow="drop_oldest", reserve=400, max_tokens=3)
    assert result.dropped_messages == 2


@pytest.mark.parametrize("options", [{"overflow": "oldest"}, {"overflow": "drop_oldest", "reserve": -1}])
def test_wrong_options(make_llm: Callable[..., LLM], options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"overflow must be one of|reserve must be"):
        chatting(make_llm).chat([message("user", 5)], **options)
