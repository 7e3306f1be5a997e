"""Tokenizers made from a model file's vocabulary.

One file per kind of vocabulary; the libraries behind them are imported when a tokenizer is made, not before.
"""

from __future__ import annotations

from pyspec.core.tokenizer.base import Tokenizer
from pyspec.core.tokenizer.pretokenizers import supported_names
from pyspec.core.tokenizer.stream import StreamDecoder
from pyspec.core.vocab import Vocab
from pyspec.errors import UnsupportedError

__all__ = ["StreamDecoder", "Tokenizer", "make_tokenizer", "supported_names"]


def make_tokenizer(vocab: Vocab) -> Tokenizer:
    """The tokenizer for ``vocab``. Raises UnsupportedError for kinds and pre-tokenizers we do not know."""
    if vocab.kind == "gpt2":
        from pyspec.core.tokenizer.bpe import BpeTokenizer

        return BpeTokenizer(vocab)
    if vocab.kind == "llama":
        from pyspec.core.tokenizer.spm import SpmTokenizer

        return SpmTokenizer(vocab)
    raise UnsupportedError(
        f'tokenizer "{vocab.kind}" is not supported; supported are: gpt2 (byte-level BPE), llama (SentencePiece BPE)'
    )
