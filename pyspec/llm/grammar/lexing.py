"""When does a lexer that always takes the longest match read what a grammar of characters means?

A terminal is a regular expression that the lexer matches as a whole. Where a terminal A may end and a character c may
follow, the lexer still goes on if some terminal that is allowed at the same place, A or another, can continue with c;
the reading in which A ends is then lost. `greedy_terminals` finds the terminals that swallow others this way, so that
they can be cut into smaller ones. A terminal of one character swallows nothing.

Terminals become position automata (Glushkov, 1961) over classes of characters; long counted repetitions are rounded up
to unbounded ones. All answers err on the side of reporting too much.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyspec.errors import GrammarError
from pyspec.llm.grammar.gbnf import Chars, Choice, Node, Repeat, Seq, children

#: Repetitions beyond this are "any number" here.
COUNTED = 3
#: States of one automaton; grammars in use stay below a thousand.
MAX_STATES = 20_000


@dataclass(slots=True)
class Automaton:
    """State 0 is the start; moves[s]: (class bits, next state); nothing leads back to the start.

    accepts[s]: may the word end there; never at the start.
    """

    moves: list[list[tuple[int, int]]]
    accepts: list[bool]

    @property
    def first(self) -> int:
        """Bits of the classes a word can begin with."""
        bits = 0
        for symbol, _ in self.moves[0]:
            bits |= symbol
        return bits


class Alphabet:
    """Cuts the characters into classes that no character set of a grammar tells apart; a set is then a bit mask."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        edges: set[int] = set()
        stack = list(nodes)
        while stack:
            node = stack.pop()
            if isinstance(node, Chars):
                for low, high in node.ranges:
                    edges |= {low, high + 1}
            stack += children(node)
        self._edges = sorted(edges)
        self._bits: dict[Chars, int] = {}

    def bits(self, chars: Chars) -> int:
        """The classes that make up a set."""
        if chars not in self._bits:
            bits = 0
            for low, high in chars.ranges:
                a, b = bisect_left(self._edges, low), bisect_left(self._edges, high + 1)
                bits |= (1 << b) - (1 << a)
            self._bits[chars] = bits
        return self._bits[chars]


def automaton(node: Node, alphabet: Alphabet, rule: Callable[[str], Node]) -> Automaton:
    """The automaton of a regular expression; rule(name) is what a name stands for."""
    symbols: list[int] = [0]
    follow: list[set[int]] = [set()]

    def link(ends: set[int], starts: set[int]) -> None:
        for end in ends:
            follow[end] |= starts

    def visit(node: Node) -> tuple[bool, set[int], set[int]]:
        """(may be empty, positions it can begin at, positions it can end at)."""
        if isinstance(node, Chars):
            if len(symbols) >= MAX_STATES:
                raise GrammarError(
                    "the GBNF grammar is too large: a rule without recursion has too many characters"
                )
            symbols.append(alphabet.bits(node))
            follow.append(set())
            return False, {len(symbols) - 1}, {len(symbols) - 1}
        if isinstance(node, Seq):
            return sequence(node.items)
        if isinstance(node, Choice):
            empty, first, last = False, set[int](), set[int]()
            for item in node.items:
                e, starts, ends = visit(item)
                empty, first, last = empty or e, first | starts, last | ends
            return empty, first, last
        if isinstance(node, Repeat):
            return repeat(node)
        return visit(rule(node.name))

    def sequence(items: Sequence[Node]) -> tuple[bool, set[int], set[int]]:
        empty, first, last = True, set[int](), set[int]()
        for item in items:
            e, starts, ends = visit(item)
            link(last, starts)
            first = first | starts if empty else first
            last = last | ends if e else ends
            empty = empty and e
        return empty, first, last

    def repeat(node: Repeat) -> tuple[bool, set[int], set[int]]:
        if node.high is not None and node.high <= COUNTED:
            optional = Choice((node.item, Seq(())))
            return sequence([node.item] * node.low + [optional] * (node.high - node.low))
        n = max(1, min(node.low, COUNTED))
        empty, first, last = sequence([node.item] * (n - 1))
        e, starts, ends = visit(node.item)
        link(ends, starts)
        link(last, starts)
        first = first | starts if empty else first
        last = last | ends if e else ends
        return node.low == 0 or (empty and e), first, last

    _, first, last = visit(node)
    follow[0] = first
    moves = [[(symbols[b], b) for b in sorted(follow[a])] for a in range(len(symbols))]
    return Automaton(moves, [position in last for position in range(len(symbols))])


def greedy_terminals(
    automata: Sequence[Automaton], following: Sequence[int], together: Iterable[int]
) -> set[int]:
    """Terminals that may swallow what belongs to the next one.

    following[t]: bits of the terminals that can come after terminal t. together: bits of the terminals that can begin the
    text. Which terminals are allowed at the same place follows from these.
    """
    n = len(automata)
    next_chars = [0] * n
    for t in range(n):
        for u in members(following[t]):
            next_chars[t] |= automata[u].first
    greedy: set[int] = set()
    beside = [0] * n  # beside[a]: terminals allowed at a place where a is
    queue: list[tuple[int, int]] = []

    def add(a_bits: int, b_bits: int) -> None:
        for a in members(a_bits):
            fresh = b_bits & ~beside[a]
            beside[a] |= fresh
            queue.extend((a, b) for b in members(fresh))

    starts = 0
    for t in together:
        starts |= 1 << t
    add(starts, starts)
    while queue:
        a, b = queue.pop()
        swallows, meet = _compare(automata[a], automata[b], next_chars[a])
        if swallows:
            greedy.add(b)
        if meet:  # the same text may end both: what follows either is then allowed together
            add(following[a], following[b])
            add(following[b], following[a])
    return greedy


def members(bits: int) -> list[int]:
    """Numbers of the bits that are set."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


def _compare(a: Automaton, b: Automaton, after_a: int) -> tuple[bool, bool]:
    """(can b go on with a character of after_a where a word of a has ended, have a and b a word in common)."""
    swallows = meet = False
    seen = {(0, 0)}
    stack = [(0, 0)]
    while stack and not (swallows and meet):
        p, q = stack.pop()
        if a.accepts[p]:
            meet = meet or b.accepts[q]
            swallows = swallows or any(symbol & after_a for symbol, _ in b.moves[q])
        for left, to_p in a.moves[p]:
            for right, to_q in b.moves[q]:
                if left & right and (to_p, to_q) not in seen:
                    seen.add((to_p, to_q))
                    stack.append((to_p, to_q))
    return swallows, meet
