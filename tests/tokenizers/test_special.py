"""Cutting special tokens out of a text. No model files."""

from __future__ import annotations

import pytest

from pyspec.core.tokenizer import make_tokenizer
from pyspec.core.tokenizer.special import SpecialTokens
from pyspec.core.vocab import TokenType, Vocab
from tests.tokenizers.tiny_vocabs import bpe_vocab, token_texts

C, U, X, N = TokenType.CONTROL, TokenType.USER_DEFINED, TokenType.UNKNOWN, TokenType.NORMAL


def _special(tokens: list[tuple[bytes, TokenType]], name: str = "") -> SpecialTokens:
    return SpecialTokens(Vocab("gpt2", "", [t for t, _ in tokens], [k for _, k in tokens], name=name))


def test_control_and_unknown_tokens_only_on_request():
    special = _special([(b"<c>", C), (b"<u>", U), (b"<x>", X), (b"<n>", N)])
    text = b"1<c>2<u>3<x>4<n>5"
    assert special.split(text, parse_special=False) == [b"1<c>2", 1, b"3<x>4<n>5"]
    assert special.split(text, parse_special=True) == [b"1", 0, b"2", 1, b"3", 2, b"4<n>5"]
    assert special.split(b"", True) == [] and special.split(b"<c>", True) == [0]


def test_longer_texts_are_cut_out_first_even_from_further_right():
    special = _special([(b"ab", U), (b"bcd", U)])
    assert special.split(b"abcdab", False) == [b"a", 1, 0]
    same_start = _special([(b"xyzw", U), (b"yzz", U), (b"xy", U)])
    assert same_start.split(b"xyzz", False) == [b"x", 1]
    runs = _special([(b"\n", U), (b"\n\n", U), (b"\n\n\n", U)])
    assert runs.split(b"\n" * 8, False) == [2, 2, 1]


def test_repeated_and_adjacent_tokens():
    special = _special([(b"<c>", C)])
    assert special.split(b"<c><c>x<c>", True) == [0, 0, b"x", 0]
    assert special.split(b"<c<c>>", True) == [b"<c", 0, b">"]


def test_many_tokens_with_one_prefix():
    special = _special([(b"<unused%d>" % i, U) for i in range(3000)])
    assert special.split(b"a<unused7>b<unused2999><unused>", False) == [b"a", 7, b"b", 2999, b"<unused>"]


def test_phi3_tokens_swallow_the_white_space_to_their_right():
    tokens = [(b"<|user|>", C), (b"</s>", C), (b"<s>", C), (b"<unk>", X), (b"<|endoftext|>", C)]
    special = _special(tokens, name="Phi-3 mini")
    text = b"<|user|> \n\v\f\r\tx </s>  <s>  <unk>  <|endoftext|>  y<|user|>  "
    expected = [0, b"x ", 1, 2, b"  ", 3, b"  ", 4, b"  y", 0]
    assert special.split(text, True) == expected
    assert _special(tokens, name="my PHI3").split(text, True) == expected
    assert _special(tokens, name="phi-4").split(b"<|user|> x", True) == [0, b" x"]


def test_modern_bert_mask_swallows_the_white_space_to_its_left():
    special = _special([(b"[MASK]", C), (b"[SEP]", C)], name="Modern-BERT base")
    assert special.split(b"a \n[MASK] b [SEP]", True) == [b"a", 0, b" b ", 1]
    assert special.split(b"  [MASK]", True) == [0]


@pytest.mark.parametrize("text", ["x<|end|>y", b"x<|end|>y"])
def test_through_the_tokenizer(text):
    vocab = bpe_vocab(["< |"], [("<|end|>", C)])
    tokenizer = make_tokenizer(vocab)
    assert token_texts(vocab, tokenizer.encode(text, parse_special=True)) == ["x", "<|end|>", "y"]
    plain = tokenizer.encode(text)
    assert "<|end|>" not in token_texts(vocab, plain) and tokenizer.decode(plain) == b"x<|end|>y"
