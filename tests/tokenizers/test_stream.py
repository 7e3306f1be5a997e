"""Text of tokens as they arrive : never half a character, and the same text as decoding at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspec.core.tokenizer import StreamDecoder, make_tokenizer
from pyspec.core.vocab import TokenType
from tests.tokenizers.tiny_vocabs import bpe_vocab, spm_vocab, token_id

_BPE = make_tokenizer(bpe_vocab(["ð Ł"], [("<|end|>", TokenType.CONTROL)]))  # token 256 is half a llama
_BPE_IDS = {bytes([b]): i for i in range(256) for b in _BPE.piece(i)}
_SPM = make_tokenizer(spm_vocab([("▁", -2.0), ("▁a", -1.0), ("漢", -1.0)]))


def _could_continue(data: bytes) -> bool:
    """Whether some continuation makes ``data`` valid: tried with the continuation bytes that can decide it."""
    if not data:
        return True
    ends = [bytes(tail) for a in (0x80, 0x90, 0xA0, 0xBF) for tail in ((a,), (a, 0x80), (a, 0x80, 0x80))]
    for end in ends:
        try:
            (data + end).decode("utf-8")
        except UnicodeDecodeError:
            continue
        return True
    return False


@settings(max_examples=400, deadline=None, database=None, derandomize=True)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=3),
            st.text(max_size=2).map(str.encode),
            st.sampled_from(
                [
                    b"\xf0\x9f",
                    b"\xa6\x99",
                    b"\xed\xa0",
                    b"\xe0\x80",
                    b"\xf4\x90",
                    b"\xc0",
                    b"\xf0\x80",
                    b"\xe4\xbd",
                ]
            ),
        )
    ).map(b"".join)
)
def _check_bytes(data: bytes) -> None:
    ids = [_BPE_IDS[bytes([b])] for b in data]
    stream = StreamDecoder(_BPE)
    out = []
    for n, token in enumerate(ids, 1):
        out.append(stream.push(token))
        assert _could_continue(stream.pending)
        shown = "".join(out)
        # Everything but the pending bytes is out, and it is what the whole would begin with.
        assert shown == data[: n - len(stream.pending)].decode("utf-8", "replace")
    out.append(stream.flush())
    assert "".join(out) == data.decode("utf-8", "replace")
    assert stream.pending == b""


def test_every_byte_sequence(count_cases: Callable[[int], None]) -> None:
    """Bytes in any order: what is shown is always the beginning of the whole, and only what can still change waits."""
    _check_bytes()
    count_cases(400)


@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(st.lists(st.integers(0, 257)), st.booleans())
def test_any_tokens_of_bpe(ids: list[int], special: bool) -> None:
    _join_equals_whole(_BPE, ids, special)


@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(st.lists(st.integers(0, 260)), st.booleans())
def test_any_tokens_of_spm(ids: list[int], special: bool) -> None:
    _join_equals_whole(_SPM, ids, special)


def _join_equals_whole(tokenizer, ids, special):
    stream = StreamDecoder(tokenizer, special)
    text = "".join(stream.push(i) for i in ids) + stream.flush()
    assert text == tokenizer.decode(ids, special=special, continuation=True).decode("utf-8", "replace")


@pytest.mark.parametrize(
    "text", ["Příliš žluťoučký kůň", "안녕하세요", "👩‍👩‍👧‍👦 🏳️‍🌈 🇨🇿", "漢字かな", "e\u0301\u0323"]
)
@pytest.mark.parametrize("tokenizer", [_BPE, _SPM])
def test_no_replacement_character_that_the_text_does_not_have(tokenizer, text):
    """C092 (abetlen/llama-cpp-python#372, waybarrios/vllm-mlx#109, exo-explore/exo#1691)."""
    ids = tokenizer.encode(text, add_special=False)
    assert len(ids) > len(text)  # characters are spread over tokens
    for end in range(len(ids) + 1):
        stream = StreamDecoder(tokenizer)
        shown = "".join(stream.push(i) for i in ids[:end])
        assert "\ufffd" not in shown and text.startswith(shown.lstrip(" "))
        assert stream.flush() in ("", "\ufffd")
    assert shown.lstrip(" ") == text


def test_a_character_over_three_tokens():
    stream = StreamDecoder(_BPE)
    llama = [256, _BPE_IDS[b"\xa6"], _BPE_IDS[b"\x99"]]
    assert [stream.push(t) for t in llama] == ["", "", "🦙"]
    assert stream.flush() == ""


def test_impossible_bytes_are_out_at_once():
    stream = StreamDecoder(_BPE)
    assert stream.push(_BPE_IDS[b"\xff"]) == "\ufffd"
    assert stream.push(_BPE_IDS[b"\xe4"]) == ""
    assert stream.push(_BPE_IDS[b"x"]) == "\ufffdx"
    assert stream.push(_BPE_IDS[b"\xed"]) == ""
    assert stream.push(_BPE_IDS[b"\xa0"]) == "\ufffd\ufffd"  # a surrogate cannot follow


def test_the_end_gives_what_is_left_and_starts_anew():
    stream = StreamDecoder(_BPE)
    stream.push(256)
    assert stream.pending == b"\xf0\x9f"
    assert stream.flush() == "\ufffd"
    assert stream.push(_BPE_IDS[b"\xa6"]) == "\ufffd"


@pytest.mark.parametrize(("special", "text"), [(False, "ab"), (True, "a<|end|>b")])
def test_special_text_only_on_request(special, text):
    stream = StreamDecoder(_BPE, special)
    ids = [_BPE_IDS[b"a"], 257, _BPE_IDS[b"b"]]
    assert "".join(map(stream.push, ids)) + stream.flush() == text


def test_a_leading_space_is_kept():
    ids = [token_id(_SPM.vocab, "▁a"), token_id(_SPM.vocab, "漢")]
    stream = StreamDecoder(_SPM)
    assert [stream.push(i) for i in ids] == [" a", "漢"]
