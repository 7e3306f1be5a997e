"""DRY's breakers as token sequences."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pyspec.core.dry import PieceSearch, breaker_sequences
from pyspec.core.tokenizer import make_tokenizer
from pyspec.core.tokenizer.base import Tokenizer
from pyspec.core.vocab import TokenType

from .tiny_vocabs import bpe_vocab, spm_vocab

SPECIAL = [("<|turn|>", TokenType.CONTROL)]


def tokenizers() -> list[Tokenizer]:
    bpe = bpe_vocab(["Ċ Ċ", ": Ċ", "a b", "ab c", "c d"], SPECIAL)
    spm = spm_vocab(
        [("\n", 0.0), (":\n", -1.0), ("ab", -2.0), ("abc", -3.0), ("cd", -4.0), ("▁", -5.0)], SPECIAL
    )
    return [make_tokenizer(bpe), make_tokenizer(spm)]


@pytest.mark.parametrize("tokenizer", tokenizers(), ids=["bpe", "spm"])
@pytest.mark.parametrize("text", ["\n", ":", "*", "ab", "bc", "abcd", "turn", "\n\n", "é", "▁"])
def test_sequences_spell_the_breaker(tokenizer: Tokenizer, text: str) -> None:
    """Every token that contains the text is found alone; longer sequences spell it across their tokens and no sooner."""
    pieces = [tokenizer.piece(token, special=True) for token in range(tokenizer.vocab.n_tokens)]
    data = text.encode()
    found = PieceSearch(tokenizer).sequences(text)
    alone = [sequence[0] for sequence in found if len(sequence) == 1]
    assert alone == [token for token, piece in enumerate(pieces) if data in piece]
    for sequence in found:
        assert data in b"".join(pieces[token] for token in sequence)
        assert len(sequence) == 1 or data not in b"".join(pieces[token] for token in sequence[:-1])
    assert all(a != b for a, b in pairwise(sorted(found)))
    if len(data) > 1 and not alone:
        assert found


def test_lists() -> None:
    """Strings are looked up, ids are taken as they are."""
    tokenizer = tokenizers()[0]
    search = PieceSearch(tokenizer)
    assert breaker_sequences([[5, 6], "*"], search) == [[5, 6], *search.sequences("*")]
    assert search.sequences("*") is search.sequences("*")  # kept
