"""Token id -> bytes of text."""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspec.core.vocab import TokenType, Vocab
from pyspec.errors import OptionError

SPACE_MARK = "\u2581".encode()
_BYTE_TOKEN = re.compile(rb"<0x([0-9A-Fa-f]{2})>")


def byte_alphabet() -> list[str]:
    """GPT-2's printable stand-in for each byte value.

    The bytes 21-7E, A1-AC and AE-FF stand for themselves (as Latin-1 characters); the other 68 get U+0100, U+0101, ...
    in ascending order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x144))
    return [chr(b) if b in printable else chr(next(spare)) for b in range(256)]


_TO_BYTE = {char: bytes([value]) for value, char in enumerate(byte_alphabet())}


# Characters of the alphabet -> the Latin-1 character of their byte. Latin-1 characters outside it, whose UTF-8 has two
# bytes, lead to one that Latin-1 does not have.
_TO_LATIN = {ord(char): value[0] for char, value in _TO_BYTE.items()} | dict.fromkeys(
    (*range(0x80, 0xA1), 0xAD), 0xFFFF
)


def undo_byte_alphabet(text: bytes) -> bytes:
    """Bytes that a text in GPT-2's alphabet stands for; characters outside the alphabet stand for their own UTF-8."""
    if text.isascii():  # the printable ones stand for themselves, and so do those outside the alphabet
        return text
    try:
        chars = text.decode("utf-8")
        return chars.translate(_TO_LATIN).encode("latin-1")
    except UnicodeDecodeError:
        return text
    except UnicodeEncodeError:
        pass
    return b"".join(_TO_BYTE.get(c) or c.encode("utf-8") for c in chars)


def undo_space_mark(text: bytes) -> bytes:
    """SPM text with every U+2581 turned back into a space."""
    return text.replace(SPACE_MARK, b" ")


def byte_value(text: bytes) -> bytes:
    """The byte a byte token "<0xXX>" stands for; a byte token with another text stands for that text."""
    match = _BYTE_TOKEN.fullmatch(text)
    return bytes([int(match[1], 16)]) if match else text


class Pieces:
    """Pieces of one vocabulary, computed when first asked for. Safe to share between threads."""

    def __init__(self, vocab: Vocab, decode_text: Callable[[bytes], bytes]) -> None:
        self._texts = vocab.texts
        self._types = vocab.types
        self._decode_text = decode_text
        self._plain: list[bytes | None] = [None] * len(vocab.texts)

    def get(self, token: int, special: bool) -> bytes:
        """Text of ``token``. Control and unknown tokens give nothing unless ``special``; with it, their stored text.

        A character may be spread over several tokens. Unused and undefined tokens have no text.
        """
        try:
            piece = self._plain[token] if token >= 0 else None
        except IndexError:
            piece = None
        if piece is None:
            piece = self._compute(token)
        if special and not piece and self._types[token] in (TokenType.CONTROL, TokenType.UNKNOWN):
            return self._texts[token]
        return piece

    def all(self) -> list[bytes]:
        """Text of every token, not ``special``."""
        plain = self._plain
        for token, piece in enumerate(plain):
            if piece is None:
                self._compute(token)
        return list(plain)  # type: ignore[arg-type]

    def _compute(self, token: int) -> bytes:
        if not 0 <= token < len(self._texts):
            raise OptionError(f"token id {token} is outside the vocabulary (0 to {len(self._texts) - 1})")
        kind = self._types[token]
        text = self._texts[token]
        if kind == TokenType.NORMAL:
            piece = self._decode_text(text)
        elif kind == TokenType.USER_DEFINED:
            piece = text
        elif kind == TokenType.BYTE:
            piece = byte_value(text)
        else:
            piece = b""
        self._plain[token] = piece
        return piece
