"""Reading text that may not be valid UTF-8 the way llama.cpp does, so that token ids agree for any bytes."""

from __future__ import annotations

REPLACEMENT = 0xFFFD


def to_bytes(text: str | bytes) -> bytes:
    """UTF-8 of ``text``. Lone surrogates, which UTF-8 cannot hold, get their three-byte form (U+D83D -> ED A0 BD)."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    if isinstance(text, (bytes, bytearray, memoryview)):
        return bytes(text)
    raise TypeError(f"text must be str or bytes, not {type(text).__name__}")


def lenient_decode(data: bytes) -> tuple[str, bool]:
    """Code points of ``data``, reading invalid UTF-8 with llama.cpp's rule.

    The first byte gives the length and the bytes after it must be continuation bytes; nothing else is checked, so
    over-long forms are read as the character they spell and surrogates stay (as lone surrogates of the result). A byte
    that does not start such a sequence becomes one U+FFFD and reading goes on with the next byte. Values above U+10FFFF,
    which end the process in llama.cpp, are handled like any other invalid byte.

    Returns the text and whether it is free of lone surrogates.
    """
    try:
        return data.decode("utf-8"), True
    except UnicodeDecodeError:
        pass
    out: list[str] = []
    whole = True
    i = 0
    while i < len(data):
        lead = data[i]
        n = (
            1
            if lead < 0x80
            else 2
            if 0xC0 <= lead < 0xE0
            else 3
            if 0xE0 <= lead < 0xF0
            else 4
            if 0xF0 <= lead < 0xF8
            else 0
        )
        tail = data[i + 1 : i + n] if n else b""
        if n == 0 or len(tail) != n - 1 or any(b & 0xC0 != 0x80 for b in tail):
            value, n = REPLACEMENT, 1
        else:
            value = lead if n == 1 else lead & (0x7F >> n)
            for b in tail:
                value = value << 6 | b & 0x3F
            if value > 0x10FFFF:
                value, n = REPLACEMENT, 1
        whole = whole and not 0xD800 <= value < 0xE000
        out.append(chr(value))
        i += n
    return "".join(out), whole


def symbol_lengths(data: bytes) -> list[int]:
    """Lengths of the symbols llama.cpp's SPM tokenizer starts from: only the lead byte decides, nothing is checked.

    A truncated character therefore swallows the bytes behind it (E4 followed by "ab" is one three-byte symbol), and a
    stray continuation byte is a symbol of its own.
    """
    lengths = []
    i = 0
    while i < len(data):
        high = data[i] >> 4
        n = min(1 if high < 0xC else 2 if high < 0xE else 3 if high == 0xE else 4, len(data) - i)
        lengths.append(n)
        i += n
    return lengths
