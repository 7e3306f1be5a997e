"""Token ids and pieces equal llama.cpp's, for real vocabularies and difficult texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from pyspec.core.tokenizer import make_tokenizer, supported_names
from pyspec.core.vocab import TokenType
from tests.tokenizers.conftest import Case
from tests.tokenizers.oracle_vocab import OracleVocab
from tests.tokenizers.texts import texts
from tests.tokenizers.vocab_from_gguf import read_vocab

_FILES = [
    "llama-bpe", "qwen2", "qwen35", "gpt-2", "starcoder", "refact", "deepseek-llm", "deepseek-coder", "falcon", "mpt", "aquila",
    "command-r", "llama-spm", "phi-3", "baichuan",
]  # fmt: skip
_OTHER_PRE = ["llama-bpe/tekken", "llama-bpe/gpt-4o", "llama-bpe/deepseek-v3", "qwen2/glm4", "gpt-2/default", "gpt-2/smollm"]
_MODELS = ["model:smollm2", "model:gemma3-270m", "model:qwen2.5-coder-0.5b"]
_ALL = [*_FILES, *_OTHER_PRE, *_MODELS]

every_vocabulary = pytest.mark.parametrize("case", _ALL, indirect=True)


def _compare(case: Case, examples: int, fixed: bool) -> int:
    special = [t for t, kind in zip(case.vocab.texts, case.vocab.types, strict=True) if kind in (2, 3, 4)]
    # The longest and the shortest, so that runs of spaces and tags are both there.
    special = sorted(special, key=len)[:20] + special[:20] + special[-20:]
    checked = 0

    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=fixed, suppress_health_check=list(HealthCheck)
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


@every_vocabulary
def test_ids(case: Case, count_cases: Callable[[int], None]) -> None:
    count_cases(_compare(case, 200, fixed=True))


@pytest.mark.long
@every_vocabulary
def test_ids_of_many_texts(case: Case, count_cases: Callable[[int], None]) -> None:
    count_cases(_compare(case, 2000, fixed=False))


@every_vocabulary
def test_ids_of_a_long_text(case: Case) -> None:
    words = ["Příliš žluťoučký kůň", "   ", "\n\n\n", "x = y[12345] # ok", "漢字かな", "don't", "👩‍👩‍👧‍👦", "\t\t", "<|im_end|>"]
    text = " ".join(words[(i * i + i // 3) % len(words)] for i in range(2000)).encode()
    assert case.tokenizer.encode(text, parse_special=True) == case.oracle.encode(text, True, True)


@every_vocabulary
def test_pieces(case: Case, count_cases: Callable[[int], None]) -> None:
    """Every token, with and without special text. Texts outside the byte alphabet, which llama.cpp prints as
    "[UNK_BYTE_0x...", are given as they are."""
    assert case.oracle.n_tokens == case.vocab.n_tokens
    for token in range(case.vocab.n_tokens):
        for special in (False, True):
            ours, theirs = case.tokenizer.piece(token, special), case.oracle.piece(token, special)
            if ours != theirs:
                assert theirs.startswith(b"[UNK_BYTE_0x") or b"[UNK_BYTE_0x" in theirs, token
                assert ours == case.vocab.texts[token], token
    count_cases(2 * case.vocab.n_tokens)


@every_vocabulary
def test_special_ids(case: Case) -> None:
    ours, oracle = case.tokenizer, case.oracle
    assert (ours.add_bos, ours.add_eos, ours.bos, ours.eos) == (oracle.add_bos, oracle.add_eos, oracle.bos, oracle.eos)


@pytest.mark.parametrize("case", ["llama-spm", "phi-3", "model:smollm2", "model:gemma3-270m", "llama-bpe/tekken"], indirect=True)
def test_decode(case: Case, count_cases: Callable[[int], None]) -> None:
    """Decoding equals llama.cpp's for vocabularies where that does not clean up spaces, and gives the text back."""

    @settings(max_examples=200, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(texts(broken=False))
    def check(data: bytes) -> None:
        ids = case.oracle.encode(data)
        assert case.tokenizer.decode(ids) == case.oracle.decode(ids)
        if case.vocab.kind == "llama":
            data = data.replace("\u2581".encode(), b" ")  # SPM cannot tell the two apart
        assert case.tokenizer.decode(case.tokenizer.encode(data)) == data

    check()
    count_cases(200)


def test_every_supported_name(vocab_path: Callable[[str], Path], count_cases: Callable[[int], None]) -> None:
    """Each accepted pre-tokenizer name has llama.cpp's expressions and flags."""
    probes = [
        b"I'LL pay 12345,67 \xc3\xa9t\xc3\xa9 camelCase USAtoday's //x\n\n  y \t z ",
        "漢字かな 한국어 १२३ e\u0301 №5 ①②③④ !!!\r\n///...\n <|x|> ½\u3000\u3000a  ".encode(),
        b"Ready",  # one word that merging alone cannot form in this vocabulary
    ]
    for name in supported_names():
        path = vocab_path(f"llama-bpe/{name}")
        ours, oracle = make_tokenizer(read_vocab(path)), OracleVocab(path)
        try:
            got = (ours.add_bos, ours.bos, [ours.encode(p, add_special=False) for p in probes])
            assert got == (oracle.add_bos, oracle.bos, [oracle.encode(p) for p in probes]), name
        finally:
            oracle.close()
    count_cases(len(supported_names()))


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
