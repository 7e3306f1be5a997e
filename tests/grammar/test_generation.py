"""Whole generations under grammars: whatever is drafted, the text is the plain one and follows the grammar.

A small loop (helpers.Loop) stands for the round: masks are applied to the logits of a tiny model in NumPy.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest

from pyspec.core.model import Model
from pyspec.drafters.grammar import GrammarDrafter
from pyspec.llm.grammar import Grammar, GrammarCompiler, GrammarState
from tests.conftest import TinyFiles
from tests.grammar.conftest import FAMILIES
from tests.grammar.helpers import DraftFunction, Loop, allowed, text_of
from tests.grammar.schemas import random_schema
from tests.grammar.test_gbnf import CHESS

PROMPT = [70, 71, 72, 73]


@pytest.fixture(scope="module")
def loop(tiny: TinyFiles) -> Iterator[Callable[[str], Loop]]:
    made: dict[str, Loop] = {}

    def make(family: str = "llama") -> Loop:
        if family not in made:
            made[family] = Loop(Model(tiny.path(family)), PROMPT)
        return made[family]

    yield make
    for one in made.values():
        one.close()


def oracle(recorded: list[int], n: int) -> DraftFunction:
    """Always right, and never at a loss behind the end: the end token again, then anything."""

    def draft(emitted: list[int], state: GrammarState) -> list[int]:
        at = len(emitted)
        right = recorded[at : at + n]
        return right + [recorded[-1], 7, 0][: n - len(right)]

    return draft


def legal_but_wrong(recorded: list[int], n: int, seed: int) -> DraftFunction:
    """Right up to some token, then another one that the grammar allows, then legal ones at random: another value of an
    enumeration, another key.
    """
    rng = random.Random(seed)

    def draft(emitted: list[int], state: GrammarState) -> list[int]:
        at = len(emitted)
        tokens = recorded[at : at + rng.randint(0, n - 1)]
        probe = state.copy()
        if any(token in state.vocabulary.end_ids for token in tokens) or probe.finished:
            return tokens
        probe.commit(tokens)
        while len(tokens) < n and not probe.finished:
            choices = sorted(allowed(probe.plan([])[1][0]))
            right = recorded[at + len(tokens)] if at + len(tokens) < len(recorded) else -1
            token = rng.choice([c for c in choices if c != right] or choices)
            tokens.append(token)
            if token in state.vocabulary.end_ids:
                break
            probe.commit([token])
        return tokens

    return draft


def check(start: GrammarState, schema: dict[str, Any], tokens: list[int]) -> None:
    """A finished text is JSON and valid; the end token is its only one and its last."""
    ends = [i for i, token in enumerate(tokens) if token in start.vocabulary.end_ids]
    assert ends == [len(tokens) - 1]
    jsonschema.validate(json.loads(text_of(start, tokens[:-1])), schema)


class Comparison:
    """After every round: the state must equal one that saw only committed tokens, one at a time."""

    def __init__(self) -> None:
        self.rounds = 0
        self._shadow: GrammarState | None = None
        self._known = 0

    def begin(self, start: GrammarState) -> None:
        self._shadow, self._known = start.copy(), 0

    def __call__(self, state: GrammarState, emitted: list[int]) -> None:
        assert self._shadow is not None
        for token in emitted[self._known :]:
            self._shadow.commit([token])
        self._known = len(emitted)
        assert state.fingerprint() == self._shadow.fingerprint()
        self.rounds += 1


def schema_generations(loop: Loop, compiled: GrammarCompiler, part: int, n: int) -> tuple[int, int]:
    """n generations that end, plain and with each kind of draft; (rounds, tokens drafted)."""
    rng = random.Random(part)
    compare = Comparison()
    drafted = ended = case = 0
    while ended < n:
        case += 1
        assert case < 2 * n
        schema = random_schema(rng)
        loose = case % 7 == 6
        start = compiled.start(Grammar.json_schema(schema, whitespace=loose))
        seed = None if case % 5 == 4 and not loose else rng.randrange(1000)
        plain = loop.run(start, seed=seed)
        if not plain.ended:  # a random model may like white space or digits for ever
            continue
        ended += 1
        check(start, schema, plain.tokens)
        block = rng.randint(2, 16)
        wrong = legal_but_wrong(plain.tokens, block, case)
        for draft, drafter in (
            (oracle(plain.tokens, block), None),
            (wrong, None),
            (wrong, GrammarDrafter()),
        ):
            compare.begin(start)
            spec = loop.run(start, draft=draft, drafter=drafter, seed=seed, after_round=compare)
            assert spec.tokens == plain.tokens
            drafted += spec.drafted
    return compare.rounds, drafted


@pytest.mark.parametrize("part", range(5))
def test_json_schema_generations(
    loop: Callable[..., Loop],
    compiler: Callable[..., GrammarCompiler],
    part: int,
    count_cases: Callable[[int], None],
) -> None:
    """C054 (openvinotoolkit/openvino.genai#4081), C055 (anthony-chaudhary/fak#5271), invariant 25: 5 x 100 generations,
    each plain, with drafts that are right and run past the end, with drafts that are legal and wrong, and with the grammar
    as drafter. The text is the plain one and valid; after every round the matcher equals one that saw only committed
    tokens.
    """
    family = [*FAMILIES, "llama", "llama"][part]
    rounds, drafted = schema_generations(loop(family), compiler(family), part, 100)
    assert drafted > 1000
    count_cases(rounds)


def test_the_grammar_drafter_saves_passes(
    loop: Callable[..., Loop], compiler: Callable[..., GrammarCompiler]
) -> None:
    """Key names and punctuation come in blocks. A random model splits them its own way, so less is accepted than of a
    trained one.
    """
    schema = {
        "type": "object",
        "properties": {
            "the other thing": {"type": "boolean"},
            "count of all things": {"type": "integer", "minimum": 0, "maximum": 9},
            "and then": {"enum": ["there", "thought"]},
        },
        "required": ["the other thing", "count of all things", "and then"],
        "additionalProperties": False,
    }
    start = compiler().start(Grammar.json_schema(schema))
    plain_passes = passes = 0
    for seed in range(20):
        plain = loop().run(start, seed=seed)
        forced = loop().run(start, drafter=GrammarDrafter(), seed=seed)
        assert forced.tokens == plain.tokens
        plain_passes += plain.passes
        passes += forced.passes
    assert passes < 0.8 * plain_passes


@pytest.mark.parametrize(
    ("grammar", "pattern"),
    [
        (Grammar.regex(r"(\([0-9]{3}\) )?[0-9]{3}-[0-9]{4}"), r"(\([0-9]{3}\) )?[0-9]{3}-[0-9]{4}"),
        (
            Grammar.lark('start: "[" item ("," item){0,3} "]"\nitem: /[a-z]{1,5}/ | "<" item ">"'),
            r"\[[a-z<>,]+\]",
        ),
        (
            Grammar.gbnf('root ::= item ("," item){1,3} "."\nitem ::= [a-z]{2,4} | "\\u00e9" [0-9]?'),
            r"[a-z0-9é,]+\.",
        ),
        (Grammar.gbnf(CHESS), r"(?s:1\. .*\n)"),
    ],
    ids=["regex", "lark", "gbnf", "chess"],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_other_notations(
    loop: Callable[..., Loop],
    compiler: Callable[..., GrammarCompiler],
    family: str,
    grammar: Grammar,
    pattern: str,
) -> None:
    start = compiler(family).start(grammar)
    for seed in range(4):
        plain = loop(family).run(start, seed=seed)
        for draft in (oracle(plain.tokens, 5), legal_but_wrong(plain.tokens, 4, seed)):
            spec = loop(family).run(start, drafter=GrammarDrafter(), draft=draft, seed=seed)
            assert spec.tokens == plain.tokens
        if plain.ended:
            assert re.fullmatch(pattern, text_of(start, plain.tokens[:-1]))


def test_a_failed_call_leaves_the_next_one_alone(
    loop: Callable[..., Loop], compiler: Callable[..., GrammarCompiler]
) -> None:
    """C056 (ggml-org/llama.cpp#18173, #13341): after a bad grammar, and after a text that went astray, the next
    generation is the one of a fresh compiler.
    """
    grammar = Grammar.json_schema({"enum": ["the cat", "the mat", "there"]})
    expected = loop().run(compiler().start(grammar), seed=1).tokens
    with pytest.raises(Exception, match="cannot be used"):
        compiler().start(Grammar.lark("start: nowhere"))
    astray = compiler().start(grammar)
    with pytest.raises(Exception, match="does not allow"):
        astray.commit([ord(" ")])
    assert loop().run(compiler().start(grammar), seed=1).tokens == expected
    assert loop().run(astray, seed=1).tokens == expected
