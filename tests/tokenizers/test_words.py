"""How texts are cut into words, against the oracle, made visible by a vocabulary in which any two bytes merge."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from pyspec.core.tokenizer import make_tokenizer, supported_names
from pyspec.core.vocab import TokenType, Vocab
from tests.tokenizers.oracle_vocab import OracleVocab
from tests.tokenizers.tiny_vocabs import ALPHABET, bpe_vocab, write_gguf
from tests.tokenizers.vocab_from_gguf import read_vocab, write_with_pre

_SETS = [
    *("llama-bpe", "qwen2", "qwen35", "tekken", "gpt-4o", "deepseek-v3", "deepseek-llm", "deepseek-coder"),
    *("smollm", "gpt-2", "falcon", "default"),
]


def _pairs_vocab() -> Vocab:
    """Rules for every pair of bytes. Pairs with an ASCII character come first, so that a character and its ASCII
    neighbour merge whenever they are in one word."""
    ascii_, high = ALPHABET[:128], ALPHABET[128:]
    groups = [(ascii_, high), (high, ascii_), (high, high), (ascii_, ascii_)]
    merges = [f"{a} {b}" for left, right in groups for a in left for b in right]
    return bpe_vocab(merges, [("ab1", TokenType.NORMAL)], bos=11, eos=11)


@pytest.fixture(scope="module")
def pairs_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("llama_cpp")
    return write_gguf(_pairs_vocab(), tmp_path_factory.mktemp("pairs") / "pairs.gguf")


def _probe(code: int) -> bytes:
    """``code`` next to letters, digits, marks, spaces, line ends, itself and a contraction."""
    c = chr(code)
    return f"a{c}b|1{c}2|.{c},| {c}x|  {c}{c}\n{c}AQ{c}ZQb '{c}{c}é{c}\u0301{c}$".encode()


def _check(pre: str, pairs_file: Path, tmp_path: Path, codes: Iterable[int]) -> int:
    path = tmp_path / "words.gguf"
    write_with_pre(pairs_file, path, pre)
    ours, oracle = make_tokenizer(read_vocab(path)), OracleVocab(path)
    codes = list(codes)
    different = []
    try:
        for start in range(0, len(codes), 64):
            block = [_probe(c) for c in codes[start : start + 64]]
            if ours.encode(b"".join(block), add_special=False) != oracle.encode(b"".join(block)):
                one_by_one = zip(codes[start : start + 64], block, strict=True)
                different += [
                    c for c, p in one_by_one if ours.encode(p, add_special=False) != oracle.encode(p)
                ]
    finally:
        oracle.close()
    assert not different, f"{len(different)} characters, for example {[f'U+{c:04X}' for c in different[:20]]}"
    return len(codes)


def _assigned_planes() -> list[int]:
    codes = [c for c in range(0x32400) if not 0xD800 <= c < 0xE000]
    return [*codes, *range(0xE0000, 0xE0200), 0xF0000, 0xFFFFD, 0x100000, 0x10FFFF]


@pytest.mark.parametrize("pre", _SETS)
def test_characters_at_the_edges_of_categories(
    pre: str, pairs_file: Path, tmp_path: Path, count_cases: Callable[[int], None]
) -> None:
    """Latin-1 and every character whose neighbour has another category."""

    def at_edge(c: int) -> bool:
        here = unicodedata.category(chr(c))
        return c < 0x250 or any(unicodedata.category(chr(d)) != here for d in (c - 1, min(c + 1, 0x10FFFF)))

    count_cases(_check(pre, pairs_file, tmp_path, filter(at_edge, _assigned_planes())))


@pytest.mark.long
@pytest.mark.parametrize("pre", _SETS)
def test_every_character(
    pre: str, pairs_file: Path, tmp_path: Path, count_cases: Callable[[int], None]
) -> None:
    count_cases(_check(pre, pairs_file, tmp_path, _assigned_planes()))


def test_every_supported_name(tmp_path: Path, count_cases: Callable[[int], None]) -> None:
    """Each accepted name has llama.cpp's expressions and flags."""
    pytest.importorskip("llama_cpp")
    vocab = bpe_vocab([f"{a} {b}" for a in ALPHABET[33:127] for b in "aA1é/'"], [("xyz", TokenType.NORMAL)])
    source = tmp_path / "small.gguf"
    write_gguf(vocab, source)
    probes = [
        b"I'LL pay 12345,67 \xc3\xa9t\xc3\xa9 camelCase USAtoday's //x\n\n  y \t z ",
        "漢字かな 한국어 १२३ e\u0301 №5 ①②③④ !!!\r\n///...\n <|x|> ½\u3000\u3000a  ".encode(),
        "aAaA1a1a'a'A/a/é/1aAéa1 1a1A1é11".encode(),
        b"xyz",  # a token that merging cannot form
    ]
    for name in ["", *supported_names()]:
        path = tmp_path / "named.gguf"
        write_with_pre(source, path, name)
        ours, oracle = make_tokenizer(read_vocab(path)), OracleVocab(path)
        try:
            got = (ours.add_bos, ours.bos, [ours.encode(p, add_special=False) for p in probes])
            assert got == (oracle.add_bos, oracle.bos, [oracle.encode(p) for p in probes]), name
        finally:
            oracle.close()
    count_cases(len(supported_names()) + 1)
