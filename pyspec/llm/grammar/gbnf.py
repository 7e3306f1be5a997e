"""Reads GBNF, llama.cpp's grammar notation, into expressions.

    root  ::= "[" (item ("," item)*)? "]"     # rules of literals, classes, names, groups, | and * + ? {m,n}
    item  ::= [0-9]+ | "\\"" [^"\\x00-\\x1F]* "\\""

A GBNF grammar describes characters, not bytes and not lexemes. Tokens in angle brackets, which newer versions have, are
refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspec.errors import GrammarError

Range = tuple[int, int]

#: Every character: code points without the surrogates, which no text has.
ANY: tuple[Range, ...] = ((0, 0xD7FF), (0xE000, 0x10FFFF))

_SIMPLE_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "[": "[", "]": "]"}
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of ranges: sorted, apart, both ends included."""

    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Seq:
    """One after the other; nothing when empty."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """low to high times; high None: any number."""

    item: Node
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Ref:
    """What a rule says."""

    name: str


Node = Chars | Seq | Choice | Repeat | Ref


def parse_gbnf(text: str) -> dict[str, Node]:
    """Rules by name. GrammarError names the line, what was found and what was expected."""
    return _Parser(text).rules()


def char_ranges(ranges: Iterable[Range], *, negated: bool = False) -> tuple[Range, ...]:
    """Ranges in normal form: sorted, joined, without surrogates; negated: all other characters."""
    joined: list[list[int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], high)
        else:
            joined.append([low, high])
    if negated:
        ends = [-1, *(end for low, high in joined for end in (low, high)), 0x110000]
        joined = [[a + 1, b - 1] for a, b in zip(ends[::2], ends[1::2], strict=True) if a + 1 <= b - 1]
    return tuple(
        (max(low, first), min(high, last))
        for low, high in joined
        for first, last in ANY
        if max(low, first) <= min(high, last)
    )


class _Parser:
    """Recursive descent; `_at` is the place in the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def rules(self) -> dict[str, Node]:
        rules: dict[str, Node] = {}
        self._skip(True)
        while self._at < len(self._text):
            name = self._name()
            if name in rules:
                raise self._error(f"a second rule '{name}'")
            self._skip(False)
            if not self._take("::="):
                raise self._error(f"{self._found()} after the name '{name}', expected '::='")
            self._skip(True)
            rules[name] = self._choice(False)
            if self._at < len(self._text) and self._text[self._at] not in "\r\n":
                raise self._error(f"{self._found()} in the rule '{name}'")
            self._skip(True)
        return rules

    def _choice(self, nested: bool) -> Node:
        items = [self._sequence(nested)]
        while True:
            self._skip(nested)
            before = self._at
            if not nested:
                self._skip(True)
            if not self._take("|"):
                self._at = before  # the end of the line ends the rule
                return items[0] if len(items) == 1 else Choice(tuple(items))
            self._skip(True)
            items.append(self._sequence(nested))

    def _sequence(self, nested: bool) -> Node:
        items: list[Node] = []
        while True:
            self._skip(nested)
            item = self._item()
            if item is None:
                return items[0] if len(items) == 1 else Seq(tuple(items))
            while True:
                repeated = self._repeated(item)
                if repeated is None:
                    break
                item = repeated
            items.append(item)

    def _item(self) -> Node | None:
        char = self._text[self._at : self._at + 1]
        if char == '"':
            return self._literal()
        if char == "[":
            return self._class()
        if char == ".":
            self._at += 1
            return Chars(ANY)
        if char == "(":
            self._at += 1
            self._skip(True)
            inner = self._choice(True)
            if not self._take(")"):
                raise self._error(f"{self._found()}, expected ')'")
            return inner
        if char in ("<", "!"):
            raise self._error("tokens in angle brackets, which are not supported; use text")
        return Ref(self._name()) if _is_word(char) else None

    def _repeated(self, item: Node) -> Node | None:
        before = self._at
        self._skip(False)
        if self._take("*"):
            return Repeat(item, 0, None)
        if self._take("+"):
            return Repeat(item, 1, None)
        if self._take("?"):
            return Repeat(item, 0, 1)
        if not self._take("{"):
            self._at = before
            return None
        low = self._number()
        high: int | None = low
        if self._take(","):
            self._skip(True)
            high = None if self._text.startswith("}", self._at) else self._number()
        if not self._take("}"):
            raise self._error(f"{self._found()}, expected '}}'")
        if high is not None and high < low:
            raise self._error(f"{{{low},{high}}}: the second number is smaller than the first")
        return Repeat(item, low, high)

    def _literal(self) -> Node:
        self._at += 1
        items: list[Node] = []
        while not self._take('"'):
            code = self._char("a literal")
            items.append(Chars(char_ranges([(code, code)])))
        return items[0] if len(items) == 1 else Seq(tuple(items))

    def _class(self) -> Node:
        self._at += 1
        negated = self._take("^")
        ranges: list[Range] = []
        while not self._take("]"):
            low = high = self._char("a character class")
            if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
                self._at += 1
                high = self._char("a character class")
                if high < low:
                    raise self._error(f"the range {chr(low)!r} to {chr(high)!r} is upside down")
            ranges.append((low, high))
        found = char_ranges(ranges, negated=negated)
        if not found:
            raise self._error("a character class that no character is in")
        return Chars(found)

    def _char(self, where: str) -> int:
        """The code point of one character, written plainly or as an escape."""
        char = self._text[self._at : self._at + 1]
        if char in ("", "\n", "\r"):
            raise self._error(f"{self._found()} inside {where}")
        self._at += 1
        if char != "\\":
            return ord(char)
        kind = self._text[self._at : self._at + 1]
        self._at += 1
        if kind in _SIMPLE_ESCAPES:
            return ord(_SIMPLE_ESCAPES[kind])
        n = _HEX_ESCAPES.get(kind, 0)
        digits = self._text[self._at : self._at + n]
        if n == 0 or len(digits) < n or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
            raise self._error(
                f'the escape \\{kind}{digits}, expected \\n \\r \\t \\\\ \\" \\[ \\] \\xHH \\uHHHH \\UHHHHHHHH'
            )
        self._at += n
        code = int(digits, 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise self._error(f"the escape \\{kind}{digits}, which is no character")
        return code

    def _name(self) -> str:
        end = self._at
        while end < len(self._text) and _is_word(self._text[end]):
            end += 1
        if end == self._at:
            raise self._error(f"{self._found()}, expected the name of a rule")
        name, self._at = self._text[self._at : end], end
        return name

    def _number(self) -> int:
        self._skip(True)
        end = self._at
        while end < len(self._text) and self._text[end] in "0123456789":
            end += 1
        digits, self._at = self._text[self._at : end], end
        if not 0 < len(digits) < 10:
            raise self._error(f"{self._found()}, expected a number of repetitions")
        self._skip(True)
        return int(digits)

    def _skip(self, newlines: bool) -> None:
        """Over white space and comments."""
        text = self._text
        while self._at < len(text):
            if text[self._at] == "#":
                while self._at < len(text) and text[self._at] not in "\r\n":
                    self._at += 1
            elif text[self._at] in (" \t\r\n" if newlines else " \t"):
                self._at += 1
            else:
                return

    def _take(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _found(self) -> str:
        char = self._text[self._at : self._at + 1]
        return (
            "the end of the grammar" if not char else "the end of the line" if char in "\r\n" else f"{char!r}"
        )

    def _error(self, what: str) -> GrammarError:
        line = self._text.count("\n", 0, min(self._at, len(self._text))) + 1
        return GrammarError(f"GBNF grammar, line {line}: {what}")


def _is_word(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char in "-_") and char != ""


def children(node: Node) -> Sequence[Node]:
    """The parts of an expression."""
    if isinstance(node, (Seq, Choice)):
        return node.items
    return (node.item,) if isinstance(node, Repeat) else ()
