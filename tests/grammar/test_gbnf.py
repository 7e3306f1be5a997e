"""GBNF: what is read, what is refused, and that the Lark grammar made of it has the same texts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from pyspec.errors import GrammarError
from pyspec.llm.grammar import Grammar, GrammarCompiler
from pyspec.llm.grammar.gbnf import Chars, Choice, Node, Repeat, Seq, char_ranges, parse_gbnf
from pyspec.llm.grammar.gbnf_lark import gbnf_to_lark
from tests.grammar.helpers import accepts

JSON = r"""
# Any JSON object, as people write it for llama.cpp.
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9]+)? ws

# Limited, or a model may run away with it.
ws ::= | " " | "\n" [ \t]{0,20}
"""

CHESS = r"""
root    ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move    ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn    ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle  ::= "O-O" "-O"?
"""

LIST = """
root ::= item+
# Excludes various line break characters
item ::= "- " [^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+ "\\n"
"""

ARITHMETIC = r"""
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
"""

PROGRAM = r"""
root       ::= statement*
statement  ::= ("if" ws "(" expression ")" ws block | "return" ws1 expression ";" ws | name ws "=" ws expression ";" ws)
block      ::= "{" ws statement* "}" ws
expression ::= (name | number | "(" expression ")") ws ([-+<] ws expression)?
name       ::= [a-z] [a-z0-9]*
number     ::= [0-9]+
ws         ::= [ \n]*
ws1        ::= " "+
"""

EXAMPLES: list[tuple[str, list[str], list[str]]] = [
    (
        JSON,
        [
            "{}",
            '{"a": 1}',
            '{"a":[1,-2.5e+3,{"b":null}],"c":"x\\n\\u00e9"}',
            '{"é日": true\n\t}',
            '{ "a":[ ]}',
        ],
        ["", "[]", "{", '{"a"}', '{"a":01}', '{"a":1,}', '{"a":"\n"}', "{}x", '{"a":tru}'],
    ),
    (
        CHESS,
        ["1. e4 e5\n2. Nf3 Nc6\n", "1. d4 d5\n2. O-O O-O-O+\n10. exd8=Q Kxe2#\n", "1. a3 Rad8\n1. R1a3 h6\n"],
        [
            "1. e4 e5\n",
            "1. e4 e5\n2. Nf3 Nc6",
            "1. e9 e5\n2. a3 a4\n",
            "2. e4 e5\n2. a3 a4\n",
            "1. O-O-O-O e5\n2. a a\n",
        ],
    ),
    (
        LIST,
        ["- a\n", "- milk\n- tea, green\n", "- -\n- 日本\n"],
        ["", "- \n", "- a", "-a\n", "- a\n\n", "- a\x85\n"],
    ),
    (
        ARITHMETIC,
        ["1=2\n", "a+b_1*(c -3) = 4 \n\n", "x=y\nz = 1\n", "((1)) =1\n", "a=a\t\n\n\n"],
        ["1=2", "1\n", "a+=1\n", "(1=1\n", "1 2=3\n", "=1\n"],
    ),
    (
        PROGRAM,
        [
            "",
            "a=1;",
            "if (a<1) { return 2; }",
            "iff = 3;",
            "if1=if2;",
            "returns = return1;",
            "if(if1){}",
            "return (a)+1; ",
        ],
        ["if=(1", "if (a) return 1;", "return1;", "a=;", "a==1;", "}", "return;"],
    ),
    (r'root ::= [a-z]* "x"', ["x", "ax", "xx", "xxax"], ["", "a", "xa"]),
    (r'root ::= "(" root ")" | [a-z]* "x" [0-9]?', ["x", "(x)", "((axx1))", "xx"], ["(x", "x)", "(a)", "1"]),
    (
        r'root ::= "a" b | "ab" "c"' + '\nb ::= "b" | "[" root "]"',
        ["ab", "abc", "a[ab]", "a[abc]"],
        ["a", "abcc"],
    ),
    (
        r'root ::= "\u00e9\U0001F600" [\x41-\u0043] "\\" "\"\[\]" .',
        ['é\U0001f600B\\"[]\n'],
        ['é\U0001f600D\\"[]x'],
    ),
    (r'root ::= [^a] [-a] [a-] [\]] "" .', ["b-a]\n", "日--]é"], ["a-a]x", "bba]x", "b-a]"]),
    (
        'root ::= "a"{3} "b"{2,} "c"{0,2} (","|"d"){1,2}',
        ["aaabb,", "aaabbbccd,"],
        ["aabb,", "aaab,", "aaabbccc,"],
    ),
    (
        'root ::= x |\n  y # or\n | z\nx ::= "1"\ny ::= (\n"2"\n\n)\nz ::= "3" "4"',
        ["1", "2", "34"],
        ["3", "12"],
    ),
    ('root ::= left\nleft ::= left "+" n | n\nn ::= [0-9]+', ["1", "1+22+3"], ["+1", "1+", ""]),
    ('a-b ::= "1"\na_b ::= "2"\nA-b ::= "3"\nroot ::= a-b a_b A-b', ["123"], ["12", "321", "111"]),
    ('root ::= "" | "a"? "b"{0} root-2\nroot-2 ::= "" ', ["", "a"], ["b", "aa"]),
]


@pytest.mark.parametrize(("grammar", "texts", "others"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_texts_of_grammars(
    compiler: Callable[..., GrammarCompiler], grammar: str, texts: list[str], others: list[str]
) -> None:
    state = compiler().start(Grammar.gbnf(grammar))
    assert [text for text in texts if not accepts(state, text)] == []
    assert [text for text in others if accepts(state, text)] == []


def test_strings_stay_whole_terminals() -> None:
    """Speed: in grammars like JSON's nothing is cut down to single characters."""
    lark = gbnf_to_lark(JSON)
    assert lark.count("\nT") < 12
    assert sum(line.startswith("T") for line in gbnf_to_lark(CHESS).splitlines()) == 1


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        ('item ::= "a"', "no rule 'root'"),
        ("root ::= item", "uses 'item', which is not defined"),
        ('root ::= "a"\nroot ::= "b"', "line 2: a second rule 'root'"),
        ('root : "a"', "expected '::='"),
        ('root ::= "a', "the end of the grammar inside a literal"),
        ('root ::= "a\n"', "line 1: the end of the line inside a literal"),
        ('root ::= ("a"', r"expected '\)'"),
        ('root ::= "a")', r"'\)' in the rule 'root'"),
        ("root ::= [z-a]", "upside down"),
        ("root ::= []", "no character"),
        ('root ::= "\\q"', "the escape"),
        ('root ::= "\\uD800"', "no character"),
        ('root ::= "\\u12"', "the escape"),
        ('root ::= "a"{2,1}', "smaller"),
        ('root ::= "a"{x}', "number of repetitions"),
        ('root ::= "a"{1', "expected '}'"),
        ("root ::= <think>", "angle brackets"),
        ('root ::= "a" root', "could never end"),
        ('root ::= "a" | x\nx ::= "b" x', "'x' could never end"),
    ],
)
def test_faulty_grammars_are_refused(
    compiler: Callable[..., GrammarCompiler], grammar: str, message: str
) -> None:
    with pytest.raises(GrammarError, match=message):
        compiler().start(Grammar.gbnf(grammar))


def test_character_ranges() -> None:
    assert char_ranges([(5, 7), (1, 2), (3, 3), (6, 9)]) == ((1, 3), (5, 9))
    assert char_ranges([(0, 9)], negated=True) == ((10, 0xD7FF), (0xE000, 0x10FFFF))
    assert char_ranges([(1, 0xFFFF)], negated=True) == ((0, 0), (0x10000, 0x10FFFF))
    assert char_ranges([(0, 0x10FFFF)], negated=True) == ()
    assert char_ranges([(0xD000, 0xE000)]) == ((0xD000, 0xD7FF), (0xE000, 0xE000))


def random_grammar(rng: random.Random) -> str:
    """Up to four rules over three letters, recursive or not."""
    names = ["root", "x", "y", "z"][: rng.randint(1, 4)]

    def item(depth: int) -> str:
        kind = rng.random()
        if kind < 0.35:
            return '"' + "".join(rng.choice("abc") for _ in range(rng.randint(1, 2))) + '"'
        if kind < 0.55:
            return rng.choice(["[ab]", "[a-c]", "[^a]", "[bc]"])
        if kind < 0.75 or depth == 0:
            return rng.choice(names)
        return f"({body(depth - 1)})"

    def body(depth: int) -> str:
        alternatives = []
        for _ in range(rng.randint(1, 3)):
            items = [
                item(depth) + rng.choice(["", "", "", "*", "+", "?", "{1,2}"])
                for _ in range(rng.randint(0, 3))
            ]
            alternatives.append(" ".join(items) or '""')
        return " | ".join(alternatives)

    return "\n".join(f"{name} ::= {body(2)}" for name in names)


def language(rules: dict[str, Node], longest: int) -> set[str]:
    """All texts of letters a, b, c up to a length, by growing sets of texts until nothing changes."""
    known: dict[str, set[str]] = {name: set() for name in rules}

    def texts(node: Node) -> set[str]:
        if isinstance(node, Chars):
            return {c for c in "abc" if any(low <= ord(c) <= high for low, high in node.ranges)}
        if isinstance(node, Seq):
            found = {""}
            for item in node.items:
                found = joined(found, texts(item))
            return found
        if isinstance(node, Choice):
            return set().union(*map(texts, node.items))
        if isinstance(node, Repeat):
            one = texts(node.item)
            found = {""}
            for _ in range(node.low):
                found = joined(found, one)
            total = set(found)
            for _ in range(longest if node.high is None else node.high - node.low):
                found = joined(found, one)
                total |= found
            return total
        return known[node.name]

    def joined(left: set[str], right: set[str]) -> set[str]:
        return {a + b for a in left for b in right if len(a) + len(b) <= longest}

    while True:
        grown = {name: texts(body) for name, body in rules.items()}
        if grown == known:
            return known["root"]
        known = grown


@pytest.mark.parametrize("part", range(4))
def test_random_grammars_keep_their_meaning(
    compiler: Callable[..., GrammarCompiler], part: int, count_cases: Callable[[int], None]
) -> None:
    """Every text of up to four letters, against sets of texts computed from the definition."""
    rng = random.Random(part)
    compared = 0
    for _ in range(60):
        grammar = random_grammar(rng)
        try:
            state = compiler().start(Grammar.gbnf(grammar))
        except GrammarError as error:
            assert "could never end" in str(error), f"{error}\n{grammar}\n{gbnf_to_lark(grammar)}"
            continue
        expected = language(parse_gbnf(grammar), 4)
        texts = ["".join(letters) for n in range(5) for letters in itertools.product("abc", repeat=n)]
        found = {text for text in texts if accepts(state, text)}
        assert found == expected, f"{grammar}\n{gbnf_to_lark(grammar)}\n{sorted(found ^ expected)}"
        compared += len(texts)
    count_cases(compared)
    assert compared > 1000
