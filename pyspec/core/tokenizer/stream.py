"""Text of tokens as they arrive, never half a character."""

from __future__ import annotations

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
        self._held = b""

    def push(self, token: int) -> str:
        """Text that ``token`` completes; "" when only part of a character is there."""
        data = self._held + self._tokenizer.piece(token, self._special)
        end = len(data) - _unfinished(data)
        self._held = data[end:]
        return data[:end].decode("utf-8", "replace")

    def flush(self) -> str:
        """Text of the bytes still held back (U+FFFD) at the end of the stream. The decoder can then be used anew."""
        text = self._held.decode("utf-8", "replace")
        self._held = b""
        return text

    @property
    def pending(self) -> bytes:
        """Bytes held back: the beginning of a character, at most three."""
        return self._held


# First byte of a character -> its length and the values its second byte may have; the rest are any continuation bytes.
_LEADS: dict[int, tuple[int, range]] = {
    **{lead: (2, range(0x80, 0xC0)) for lead in range(0xC2, 0xE0)},
    **{lead: (3, range(0x80, 0xC0)) for lead in range(0xE0, 0xF0)},
    **{lead: (4, range(0x80, 0xC0)) for lead in range(0xF0, 0xF5)},
    0xE0: (3, range(0xA0, 0xC0)),  # shorter forms exist below
    0xED: (3, range(0x80, 0xA0)),  # surrogates above
    0xF0: (4, range(0x90, 0xC0)),
    0xF4: (4, range(0x80, 0x90)),  # U+10FFFF is the last
}


def _unfinished(data: bytes) -> int:
    """Number of bytes at the end of ``data`` that begin a character and may still become one.

    Python's incremental decoder is not used because it holds back the beginning of a surrogate, which cannot.
    """
    for n in range(1, min(3, len(data)) + 1):
        lead = data[-n]
        if lead & 0xC0 != 0x80:
            length, second = _LEADS.get(lead, (0, range(0)))
            return n if n < length and (n == 1 or data[1 - n] in second) else 0
    return 0
