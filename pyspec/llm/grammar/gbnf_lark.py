"""GBNF to llguidance's Lark notation, with the same meaning.

GBNF rules describe characters. llguidance has a lexer in front of its parser, whose terminals (regular expressions)
always take the longest match; writing GBNF rules as Lark rules word by word would change what many of them mean
([a-z]* "x" could never end). Parsing every single character would keep the meaning, but is too slow for tokens of many
characters. So:

1. what does not recurse is regular; neighbours that are regular become one terminal, a whole grammar without recursion
   a single one;
2. `lexing` finds terminals that would swallow what belongs to the next; each is cut into its parts, and so on until
   none is left, in the worst case into single characters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspec.errors import GrammarError
from pyspec.llm.grammar.gbnf import Chars, Choice, Node, Ref, Repeat, Seq, children, parse_gbnf
from pyspec.llm.grammar.lexing import Alphabet, automaton, greedy_terminals, members


@dataclass(frozen=True, slots=True)
class Terminal:
    """A regular expression the lexer matches as a whole, its empty match left out."""

    node: Node


@dataclass(frozen=True, slots=True)
class Parts:
    """An expression of the parser: `items` one after the other ("seq"), one of them ("choice"), or the only one low to
    high times ("repeat").
    """

    kind: str
    items: tuple[Rule, ...]
    low: int = 1
    high: int | None = 1


Rule = Terminal | Parts | Ref


def gbnf_to_lark(text: str) -> str:
    """The same grammar in Lark notation. GrammarError when it is faulty: syntax, unknown names, rules without an end."""
    rules = parse_gbnf(text)
    _check(rules)
    return _Converter(rules).lark()


def _check(rules: Mapping[str, Node]) -> None:
    if "root" not in rules:
        raise GrammarError("GBNF grammar: there is no rule 'root', where every text begins")
    for name, body in rules.items():
        for other in sorted(_names(body) - rules.keys()):
            raise GrammarError(f"GBNF grammar: the rule '{name}' uses '{other}', which is not defined")
    ending: set[str] = set()
    _grow(ending, rules, lambda body: _can_end(body, ending))
    for name in sorted(_reachable(rules) - ending):
        raise GrammarError(
            f"GBNF grammar: a text by the rule '{name}' could never end, it always needs itself again"
        )


class _Converter:
    def __init__(self, rules: Mapping[str, Node]) -> None:
        self._bodies = rules
        self._regular: set[str] = set()
        _grow(self._regular, rules, lambda body: _names(body) <= self._regular)
        self._empty: set[str] = set()
        _grow(self._empty, rules, self._may_be_empty)
        #: Rules of the parser; "root" is always one.
        self._rules: dict[str, Rule] = {
            name: self._lift(rules[name])
            for name in sorted(_reachable(rules))
            if name == "root" or name not in self._regular
        }

    def lark(self) -> str:
        """The text. Cuts terminals until none swallows what belongs to another."""
        alphabet = Alphabet(self._bodies.values())
        while True:
            terminals, following, starts = self._order()
            automata = [automaton(t.node, alphabet, self._bodies.__getitem__) for t in terminals]
            greedy = {terminals[t] for t in greedy_terminals(automata, following, members(starts))}
            if not greedy:
                return self._write(terminals)
            self._rules = {name: self._cut(rule, greedy) for name, rule in self._rules.items()}

    # --- from expressions to rules

    def _lift(self, node: Node) -> Rule:
        """The rule of an expression: as few terminals as possible."""
        if isinstance(node, Ref) and node.name not in self._regular:
            return node
        if _names(node) <= self._regular:
            return self._terminal(node)
        if isinstance(node, Seq):
            return Parts("seq", tuple(self._grouped(node.items, Seq)))
        if isinstance(node, Choice):
            regular = tuple(item for item in node.items if _names(item) <= self._regular)
            others = [self._lift(item) for item in node.items if item not in regular]
            return Parts("choice", (*([self._terminal(Choice(regular))] if regular else []), *others))
        assert isinstance(node, Repeat)
        return self._repeat(self._lift(node.item), node)

    def _grouped(self, items: tuple[Node, ...], kind: type[Seq]) -> list[Rule]:
        """Rules of the parts of a sequence, regular neighbours in one."""
        found: list[Rule] = []
        run: list[Node] = []
        for item in (*items, None):
            if item is not None and _names(item) <= self._regular:
                run.append(item)
                continue
            if run:
                found.append(self._terminal(run[0] if len(run) == 1 else kind(tuple(run))))
                run.clear()
            if item is not None:
                found.append(self._lift(item))
        return found

    def _terminal(self, node: Node) -> Rule:
        """A regular expression as a terminal; llguidance's do not match nothing, so that case stands beside it."""
        if _only_empty(node, self._bodies):
            return Parts("seq", ())
        terminal = Terminal(node)
        return Parts("repeat", (terminal,), 0, 1) if self._may_be_empty(node) else terminal

    def _repeat(self, inner: Rule, node: Repeat) -> Rule:
        if node.high == 0:
            return Parts("seq", ())
        if isinstance(inner, Parts) and inner.kind == "repeat" and (inner.low, inner.high) == (0, 1):
            return Parts("repeat", inner.items, 0, node.high)  # the empty case once is enough
        return Parts("repeat", (inner,), node.low, node.high)

    def _cut(self, rule: Rule, greedy: set[Terminal]) -> Rule:
        """The rule with the greedy terminals taken apart by one level."""
        if isinstance(rule, Parts):
            return Parts(
                rule.kind, tuple(self._cut(item, greedy) for item in rule.items), rule.low, rule.high
            )
        if isinstance(rule, Ref) or rule not in greedy:
            return rule
        node = rule.node
        while isinstance(node, Ref):
            node = self._bodies[node.name]
        if isinstance(node, Repeat):
            return self._repeat(self._terminal(node.item), node)
        assert isinstance(node, (Seq, Choice)), "a terminal of one character swallows nothing"
        return Parts(
            "seq" if isinstance(node, Seq) else "choice", tuple(self._terminal(item) for item in node.items)
        )

    def _may_be_empty(self, node: Node) -> bool:
        if isinstance(node, Ref):
            return node.name in self._empty
        if isinstance(node, Seq):
            return all(map(self._may_be_empty, node.items))
        if isinstance(node, Choice):
            return any(map(self._may_be_empty, node.items))
        return isinstance(node, Repeat) and (node.low == 0 or self._may_be_empty(node.item))

    # --- what comes after what

    def _order(self) -> tuple[list[Terminal], list[int], int]:
        """The terminals; for each the bits of those that can follow it; the bits of those that can begin the text."""
        number: dict[Terminal, int] = {}

        def collect(rule: Rule) -> None:
            if isinstance(rule, Terminal):
                number.setdefault(rule, len(number))
            elif isinstance(rule, Parts):
                for item in rule.items:
                    collect(item)

        for rule in self._rules.values():
            collect(rule)
        first: dict[str, tuple[bool, int]] = dict.fromkeys(self._rules, (False, 0))
        after_rule: dict[str, int] = dict.fromkeys(self._rules, 0)
        after = [0] * len(number)

        def begin(rule: Rule) -> tuple[bool, int]:
            """(may be empty, bits of the terminals it can begin with)."""
            if isinstance(rule, Terminal):
                return False, 1 << number[rule]
            if isinstance(rule, Ref):
                return first[rule.name]
            parts = [begin(item) for item in rule.items]
            bits = 0
            if rule.kind == "seq":
                for empty, part in parts:
                    bits |= part
                    if not empty:
                        return False, bits
                return True, bits
            for _, part in parts:
                bits |= part
            return (rule.kind == "repeat" and rule.low == 0) or any(empty for empty, _ in parts), bits

        def spread(rule: Rule, bits: int) -> None:
            """bits can follow this rule."""
            if isinstance(rule, Terminal):
                after[number[rule]] |= bits
            elif isinstance(rule, Ref):
                after_rule[rule.name] |= bits
            elif rule.kind == "seq":
                for item in reversed(rule.items):
                    spread(item, bits)
                    empty, part = begin(item)
                    bits = part | (bits if empty else 0)
            else:
                if rule.kind == "repeat" and rule.high != 1:
                    bits |= begin(rule)[1]
                for item in rule.items:
                    spread(item, bits)

        while True:
            grown = {name: begin(rule) for name, rule in self._rules.items()}
            if grown == first:
                break
            first = grown
        while True:
            before = dict(after_rule)
            for name, rule in self._rules.items():
                spread(rule, after_rule[name])
            if before == after_rule:
                return list(number), after, first["root"][1]

    # --- writing

    def _write(self, terminals: list[Terminal]) -> str:
        names = {terminal: f"T{i}" for i, terminal in enumerate(terminals)}
        rules = {name: f"r{i}" for i, name in enumerate(self._rules)}

        def rule_text(rule: Rule) -> str:
            if isinstance(rule, Terminal):
                return names[rule]
            if isinstance(rule, Ref):
                return rules[rule.name]
            inner = [rule_text(item) for item in rule.items]
            if rule.kind == "choice":
                return f"({' | '.join(inner)})"
            if rule.kind == "seq":
                return f"({' '.join(inner)})" if inner else '""'
            return _repeated(f"({inner[0]})", rule.low, rule.high)

        lines = [f"start: {rules['root']}"]
        lines += [f"{rules[name]}: {rule_text(rule)}" for name, rule in self._rules.items()]
        used: set[str] = set()
        for terminal, name in names.items():
            pattern = self._pattern(terminal.node, used)
            lines.append(f"{name}: {pattern}{' & /(?s:.+)/' if self._may_be_empty(terminal.node) else ''}")
        written: set[str] = set()
        while used - written:
            for name in sorted(used - written):
                written.add(name)
                lines.append(f"{_regular_name(name)}: {self._pattern(self._bodies[name], used)}")
        return "\n".join(lines) + "\n"

    def _pattern(self, node: Node, used: set[str]) -> str:
        """A regular expression in Lark's notation for terminals; used collects the rules that it names."""
        if isinstance(node, Ref) and not _only_empty(node, self._bodies):
            used.add(node.name)
            return _regular_name(node.name)
        if isinstance(node, Chars):
            return f"/{_class(node)}/"
        if isinstance(node, Repeat) and node.high != 0:
            return _repeated(f"({self._pattern(node.item, used)})", node.low, node.high)
        if _only_empty(node, self._bodies):
            return '""'
        if isinstance(node, Seq) and all(isinstance(item, Chars) for item in node.items):
            return f"/{''.join(_class(item) for item in node.items if isinstance(item, Chars))}/"
        joint = " " if isinstance(node, Seq) else " | "
        return f"({joint.join(self._pattern(item, used) for item in children(node))})"


def _repeated(text: str, low: int, high: int | None) -> str:
    short = {(0, None): "*", (1, None): "+", (0, 1): "?", (1, 1): ""}.get((low, high))
    if short is not None:
        return text + short
    return f"{text}{{{low},{'' if high is None else high}}}"


def _class(chars: Chars) -> str:
    """A character set as a regular expression, every character by its number where it could mean something else."""

    def one(code: int) -> str:
        return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\x{{{code:x}}}"

    ranges = chars.ranges
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return one(ranges[0][0])
    return "[" + "".join(one(a) if a == b else f"{one(a)}-{one(b)}" for a, b in ranges) + "]"


def _regular_name(name: str) -> str:
    """A Lark terminal's name for a rule's: unique, as GBNF names differ by case and hyphens too."""
    return "R_" + "".join(
        c if c.isascii() and (c.isupper() or c.isdigit()) else f"_{ord(c):X}_" for c in name
    )


def _names(node: Node) -> set[str]:
    """Rules that an expression uses."""
    if isinstance(node, Ref):
        return {node.name}
    return set[str]().union(*map(_names, children(node)))


def _reachable(rules: Mapping[str, Node]) -> set[str]:
    found, stack = {"root"}, ["root"]
    while stack:
        fresh = _names(rules[stack.pop()]) - found
        found |= fresh
        stack += fresh
    return found


def _grow(found: set[str], rules: Mapping[str, Node], holds: Callable[[Node], bool]) -> None:
    """Add rules for whose body `holds`, which looks at found, until no more come."""
    while True:
        fresh = {name for name, body in rules.items() if name not in found and holds(body)}
        if not fresh:
            return
        found |= fresh


def _can_end(node: Node, ending: set[str]) -> bool:
    if isinstance(node, Ref):
        return node.name in ending
    if isinstance(node, Choice):
        return any(_can_end(item, ending) for item in node.items)
    if isinstance(node, Repeat):
        return node.low == 0 or _can_end(node.item, ending)
    return all(_can_end(item, ending) for item in children(node))


def _only_empty(node: Node, rules: Mapping[str, Node]) -> bool:
    """Does a regular expression match nothing but the empty text?"""
    if isinstance(node, Chars):
        return False
    if isinstance(node, Ref):
        return _only_empty(rules[node.name], rules)
    if isinstance(node, Repeat) and node.high == 0:
        return True
    return all(_only_empty(item, rules) for item in children(node))
