"""Text on its way to a terminal: control characters removed, words wrapped while they stream."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

#: Prose is easier to read when lines end here, however wide the window is.
MAX_WIDTH = 100


def use_colour() -> bool:
    """Colours only on a terminal that wants them (NO_COLOR and TERM=dumb say no)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def dim(text: str) -> str:
    """The text in a quieter shade, where that is possible."""
    return f"\x1b[2m{text}\x1b[0m" if use_colour() else text


def bold(text: str) -> str:
    """The text as a heading, where that is possible."""
    return f"\x1b[1m{text}\x1b[0m" if use_colour() else text


def cut_to(text: str, columns: int) -> str:
    """The text, or its beginning and an ellipsis when it is wider than `columns`."""
    taken = 0
    for index, character in enumerate(text):
        taken += _columns(character)
        if taken > columns:
            kept = text[: max(0, index)]
            while kept and sum(map(_columns, kept)) > columns - 1:
                kept = kept[:-1]
            return kept + "…"
    return text


def printable(text: str) -> str:
    """Text without control characters: a model must not move the cursor, ring, or retitle the window."""
    if text.isprintable():
        return text
    return "".join(c for c in text if c in "\n\t" or (ord(c) >= 32 and not 0x7F <= ord(c) < 0xA0))


def terminal_width() -> int:
    """Columns of the terminal now; 80 when there is none."""
    import shutil

    return max(20, shutil.get_terminal_size().columns)


class WordWrapper:
    """Streamed text to lines of at most `width()` columns, broken between words.

    A word is held back until it is complete, one character of a script without spaces is a word of its own, and code
    fences (``` … ```) pass through untouched so that code can be copied. Widths are terminal columns: wide characters
    count two, combining ones none.
    """

    def __init__(self, write: Callable[[str], object], width: Callable[[], int]) -> None:
        self._write = write
        self._width = width
        self._column = 0
        self._word: list[str] = []
        self._word_columns = 0
        self._gap = ""  # spaces between the last word and the next: dropped when the line breaks there
        self._line_start = ""  # first characters of the current line, to see a fence
        self._in_code = False

    def feed(self, text: str) -> None:
        """Take the next piece of text."""
        for character in text:
            self._take(character)

    def finish(self) -> None:
        """The text ends here: write what is held back."""
        self._end_word()

    @property
    def at_line_start(self) -> bool:
        """True when the cursor is in the first column."""
        return self._column == 0

    def _take(self, character: str) -> None:
        if character == "\n":
            self._end_word()
            if self._line_start.lstrip().startswith("```"):
                self._in_code = not self._in_code
            self._gap, self._line_start, self._column = "", "", 0
            self._write("\n")
            return
        if len(self._line_start) < 16:
            self._line_start += character
        if self._in_code or character == "\t":
            self._end_word()
            self._put(self._gap + character, len(self._gap) + _columns(character))
            self._gap = ""
        elif character == " ":
            self._end_word()
            self._gap += " "
        elif _columns(character) == 2:
            self._end_word()
            self._word, self._word_columns = [character], 2
            self._end_word()
        else:
            self._word.append(character)
            self._word_columns += _columns(character)

    def _end_word(self) -> None:
        if not self._word:
            return
        if self._column and self._column + len(self._gap) + self._word_columns > self._width():
            self._write("\n")
            self._column = 0
        else:
            self._put(self._gap, len(self._gap))
        self._gap = ""
        self._put("".join(self._word), self._word_columns)
        self._word, self._word_columns = [], 0

    def _put(self, text: str, columns: int) -> None:
        if text:
            self._write(text)
            self._column += columns


def _columns(character: str) -> int:
    if character < "\u0300":
        return 8 if character == "\t" else 1
    from wcwidth import wcwidth  # comes with prompt_toolkit

    return max(0, int(wcwidth(character)))


def plural(count: int, noun: str) -> str:
    """1 token, 2 tokens."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def duration(ms: float) -> str:
    """Milliseconds with three digits that matter: 3.1 ms, 212 ms, 4.52 s, 148 s."""
    if ms < 999.5:
        return f"{ms:.1f} ms" if ms < 99.95 else f"{ms:.0f} ms"
    seconds = ms / 1000
    return (
        f"{seconds:.2f} s"
        if seconds < 9.995
        else f"{seconds:.1f} s"
        if seconds < 99.95
        else f"{seconds:.0f} s"
    )


def bar(share: float, columns: int) -> str:
    """A bar of at most so many columns, in eighths of one; of # where the terminal has no blocks."""
    eighths = round(8 * columns * min(1.0, max(0.0, share)))
    try:
        "█▏".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "#" * round(eighths / 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def columns_table(rows: list[list[str]], right: frozenset[int] = frozenset()) -> Iterator[str]:
    """Lines of a plain table; columns in `right` are aligned to the right."""
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(max(map(len, rows)))]
    for row in rows:
        cells = [cell.rjust(widths[i]) if i in right else cell.ljust(widths[i]) for i, cell in enumerate(row)]
        yield "  ".join(cells).rstrip()
