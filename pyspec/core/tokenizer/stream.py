"""Text of tokens as they arrive, never half a character."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspec.core.tokenizer.base import Tokenizer


class StreamDecoder:
    """Turns tokens into text one by one.

    Bytes that may still become a character are held back; bytes that no longer can are given out as U+FFFD at once.
    Whatever the tokens, the texts of all ``push`` calls and of the final ``flush`` put together equal
    ``tokenizer.decode(tokens, special=special, continuation=True).decode("utf-8", "replace")``: the text goes on after a
    prompt, so a leading space of the first token is kept.

    One decoder belongs to one stream and to one thread at a time.
    """

    def __init__(self, tokenizer: Tokenizer, special: bool = False) -> None:
        self._tokenizer = tokenizer
        self._special = special
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """Text that ``token`` completes; "" when only part of a character is there."""
        return self._decoder.decode(self._tokenizer.piece(token, self._special))

    def flush(self) -> str:
        """Text of the bytes still held back (U+FFFD) at the end of the stream. The decoder can then be used anew."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text

    @property
    def pending(self) -> bytes:
        """Bytes held back: the beginning of a character, at most three."""
        held: bytes = self._decoder.getstate()[0]
        return held
