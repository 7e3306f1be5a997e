"""Token ids and pieces equal llama.cpp's, for real vocabularies and difficult texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from pyspec.core.tokenizer import make_tokenizer
from pyspec.core.vocab import TokenType
from tests.tokenizers.conftest import Case
from tests.tokenizers.oracle_vocab import OracleVocab
from tests.tokenizers.texts import texts
from tests.tokenizers.tiny_vocabs import ALPHABET
from tests.tokenizers.vocab_from_gguf import read_vocab

_EVERY = [
    *("llama-bpe", "qwen2", "gpt-2", "starcoder", "deepseek-llm", "deepseek-coder", "aquila"),
    *("llama-spm", "phi-3", "baichuan"),
    *("llama-bpe/tekken", "llama-bpe/gpt-4o", "gpt-2/deepseek-v3", "gpt-2/default"),
    *("model:smollm2", "model:gemma3-270m", "model:qwen2.5-coder-0.5b"),
]
_LONG = ["refact", "command-r", "mpt", "falcon", "qwen35", "qwen2/glm4", "gpt-neox"]

short = pytest.mark.parametrize("case", _EVERY, indirect=True)
thorough = pytest.mark.parametrize("case", [*_EVERY, *_LONG], indirect=True)
more = pytest.mark.parametrize("case", _LONG, indirect=True)


def _compare(case: Case, examples: int, fixed: bool) -> int:
    special = [t for t, kind in zip(case.vocab.texts, case.vocab.types, strict=True) if kind in (2, 3, 4)]
    # The longest and the shortest, so that runs of spaces and tags are both there.
    special = sorted(special, key=len)[:20] + special[:20] + special[-20:]
    checked = 0

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=fixed,
        suppress_health_check=list(HealthCheck),
    )
    @given(texts(special))
    def check(data: bytes) -> None:
        nonlocal checked
        checked += 1
        for parse_special in (False, True):
            ours = case.tokenizer.encode(data, add_special=parse_special, parse_special=parse_special)
            assert ours == case.oracle.encode(data, parse_special, parse_special), (data, parse_special)
        text = data.decode("utf-8", "surrogatepass") if _is_text(data) else None
        if text is not None:
            assert case.tokenizer.encode(text, add_special=True, parse_special=True) == ours

    check()
    return checked


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


@short
def test_ids(case: Case, count_cases: Callable[[int], None]) -> None:
    count_cases(_compare(case, 200, fixed=True))


@pytest.mark.long
@thorough
def test_ids_of_many_texts(case: Case, count_cases: Callable[[int], None]) -> None:
    count_cases(_compare(case, 2000, fixed=False))


@short
def test_ids_of_a_long_text(case: Case) -> None:
    words = [
        "Příliš žluťoučký kůň",
        "   ",
        "\n\n\n",
        "x = y[12345] # ok",
        "漢字かな",
        "don't",
        "👩‍👩‍👧‍👦",
        "\t\t",
        "<|im_end|>",
    ]
    text = " ".join(words[(i * i + i // 3) % len(words)] for i in range(2000)).encode()
    assert case.tokenizer.encode(text, parse_special=True) == case.oracle.encode(text, True, True)


def _check_pieces(case: Case) -> int:
    assert case.oracle.n_tokens == case.vocab.n_tokens
    for token in range(case.vocab.n_tokens):
        for special in (False, True):
            ours, theirs = case.tokenizer.piece(token, special), case.oracle.piece(token, special)
            if ours != theirs:
                assert b"[UNK_BYTE_0x" in theirs, token
                assert any(c not in ALPHABET for c in case.vocab.texts[token].decode()), token
    return 2 * case.vocab.n_tokens


@short
def test_pieces(case: Case, count_cases: Callable[[int], None]) -> None:
    """Every token, with and without special text. BPE texts outside the byte alphabet, which llama.cpp prints as
    "[UNK_BYTE_0x...", are given as they are."""
    count_cases(_check_pieces(case))


@pytest.mark.long
@more
def test_pieces_of_more_vocabularies(case: Case, count_cases: Callable[[int], None]) -> None:
    count_cases(_check_pieces(case))


@short
def test_special_ids(case: Case) -> None:
    ours, oracle = case.tokenizer, case.oracle
    assert (ours.add_bos, ours.add_eos, ours.bos, ours.eos) == (
        oracle.add_bos,
        oracle.add_eos,
        oracle.bos,
        oracle.eos,
    )


@pytest.mark.parametrize(
    "case", ["llama-spm", "phi-3", "model:smollm2", "model:gemma3-270m", "llama-bpe/tekken"], indirect=True
)
def test_decode(case: Case, count_cases: Callable[[int], None]) -> None:
    """Decoding equals llama.cpp's for vocabularies where that does not clean up spaces, and gives the text back."""
    present = set(case.vocab.texts)

    @settings(
        max_examples=200,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(texts(broken=False))
    def check(data: bytes) -> None:
        ids = case.oracle.encode(data)
        assert case.tokenizer.decode(ids) == case.oracle.decode(ids)
        if case.vocab.kind == "llama":  # SPM cannot tell a space from its mark
            expected = data.replace("\u2581".encode(), b" ")
        else:  # SmolLM2 has no token for some bytes; they are lost
            expected = bytes(b for b in data if ALPHABET[b].encode() in present)
        assert case.tokenizer.decode(case.tokenizer.encode(data)) == expected

    check()
    count_cases(200)


def test_phi3_swallows_white_space_after_special_tokens(vocab_path: Callable[[str], Path]) -> None:
    """The oracle does it for models named Phi-3; the vocabulary file has such a name."""
    path = vocab_path("phi-3")
    vocab = read_vocab(path)
    ours, oracle = make_tokenizer(vocab), OracleVocab(path)
    text = b"<|user|> \n\t Hi <|end|>\n<s> a</s>  b<unk>  c<|endoftext|>  d"
    assert ours.encode(text, parse_special=True) == oracle.encode(text, True, True)
    user = vocab.texts.index(b"<|user|>")
    assert ours.encode(b"<|user|> \n\t", add_special=False, parse_special=True) == [user]
    assert vocab.types[user] in (TokenType.CONTROL, TokenType.USER_DEFINED)
    oracle.close()
