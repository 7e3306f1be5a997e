"""One model's vocabulary in the form llguidance works with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pyspec.errors import UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyspec.core.tokenizer.base import Tokenizer


class GrammarVocabulary:
    """Immutable; shared by all grammars and generations of a model. Building it costs about a second for 150k tokens.

    Attributes:
        n_vocab: rows of logits have this length. Ids that the tokenizer does not have (padding) are never allowed.
        n_words: 32-bit words of one mask row.
        end_ids: tokens that end a generation. They carry no text and stand for the end of the grammar's text.
        end_mask: int32 {n_words}: only end tokens allowed.
        end_bits: (word, bit) of each end token, bits as int32.
        library: the llguidance tokenizer.

    Tokens without text (control tokens and the like) are known to the library by their names, so that a Lark grammar can
    ask for one; no other grammar ever allows them.
    """

    def __init__(self, tokenizer: Tokenizer, n_vocab: int) -> None:
        import llguidance

        vocab = tokenizer.vocab
        self.n_vocab = n_vocab
        self.n_words = -(-n_vocab // 32)
        self.end_ids = frozenset(token for token in vocab.eog if 0 <= token < n_vocab)
        if not self.end_ids:
            raise UnsupportedError(
                "the model's file names no end token, so a text under a grammar could never end"
            )
        self._tokenizer = tokenizer
        self._pieces = tokenizer.pieces()[:n_vocab]
        texts = vocab.texts
        tokens = list(self._pieces)
        special = [token for token, piece in enumerate(tokens) if not piece or token in self.end_ids]
        for token in special:
            tokens[token] = texts[token]
        tokens += [b""] * (n_vocab - len(tokens))
        source = _Source(tokens, special, min(self.end_ids), tokenizer)
        self.library: Any = llguidance.LLTokenizer(
            llguidance.TokenizerWrapper(source), n_vocab=n_vocab, eos_token=sorted(self.end_ids)
        )
        self.end_mask: NDArray[np.int32] = np.zeros(self.n_words, dtype=np.int32)
        bits = np.int64(1) << np.arange(32)
        as_int32 = bits.astype(np.uint32).view(np.int32)
        self.end_bits = [(token // 32, as_int32[token % 32]) for token in sorted(self.end_ids)]
        for word, bit in self.end_bits:
            self.end_mask[word] |= bit
        self.end_mask.flags.writeable = False

    def encode(self, data: bytes) -> list[int]:
        """The model's own tokens for bytes in the middle of a text. Half a character at the end is left out."""
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            data = data[: error.start]
        return self._tokenizer.encode_continuation(data)

    def piece(self, token: int) -> bytes:
        """Text of a token; b"" for control tokens and for ids outside the vocabulary."""
        return self._pieces[token] if 0 <= token < len(self._pieces) else b""


class _Source:
    """What llguidance.TokenizerWrapper reads. Called with bytes it tokenises them."""

    bos_token_id = None

    def __init__(self, tokens: list[bytes], special: list[int], end: int, tokenizer: Tokenizer) -> None:
        self.tokens = tokens
        self.special_token_ids = special
        self.eos_token_id = end
        self._tokenizer = tokenizer

    def __call__(self, data: bytes) -> list[int]:
        return self._tokenizer.encode_continuation(data)
