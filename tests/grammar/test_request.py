"""What grammar=, response_format= and grammar_whitespace= are understood as. Needs no model and no llguidance."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from pyspec.errors import GrammarError, OptionError, PyspecError
from pyspec.llm.grammar.request import Grammar, requested_grammar

SCHEMA = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('start: "a" | "b"', "lark"),
        ('# comment\n\n  start : "a"\n', "lark"),
        ('start[capture="x"]: /a/', "lark"),
        ('%llguidance {}\nother: "a"', "lark"),
        ('root ::= "a"', "gbnf"),
        ('# start: no\nroot   ::= start\nstart ::= "a"', "gbnf"),
        ('item ::= "a"\nroot ::= item', "gbnf"),
    ],
)
def test_the_start_rule_tells_the_notation(text: str, kind: str) -> None:
    assert requested_grammar(text) == Grammar(kind, text)


@pytest.mark.parametrize(
    "text", ["[a-z]+", "(foo|bar)", "value: x", '{"type": "object"}', "hello", "x ::= y"]
)
def test_unclear_text_is_not_guessed_about(text: str) -> None:
    with pytest.raises(OptionError, match=r"notation is unclear.*Grammar\.lark"):
        requested_grammar(text)


def test_text_with_both_start_rules_is_refused() -> None:
    with pytest.raises(OptionError, match="both"):
        requested_grammar('start: "a"\nroot ::= "a"')


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, '{"type": "object"}'),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}},
            '{"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "integer"}}}',
        ),
        ({"type": "json_schema", "json_schema": {"schema": {}}}, "{}"),
    ],
)
def test_response_format(value: Any, expected: str | None) -> None:
    """The shape of OpenAI's interface. The order of properties is kept: it is the order of the answer."""
    found = requested_grammar(response_format=value)
    assert found == (None if expected is None else Grammar("json_schema", expected))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("json_object", "mapping"),
        ({}, "'type'|\"type\""),
        ({"type": "json"}, "expected one of text, json_object, json_schema"),
        ({"type": "json_object", "schema": {}}, "unknown 'schema'"),
        ({"type": "text", "extra": 1}, "unknown 'extra'"),
        ({"type": "json_schema"}, '"schema"'),
        ({"type": "json_schema", "schema": {}}, "unknown 'schema'"),
        ({"type": "json_schema", "json_schema": SCHEMA}, '"schema"'),
        ({"type": "json_schema", "json_schema": {"schema": {}, "stric": True}}, "unknown 'stric'"),
    ],
)
def test_nothing_in_response_format_is_ignored(value: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        requested_grammar(response_format=value)


def test_whitespace_belongs_to_json() -> None:
    assert requested_grammar(None, {"type": "json_object"}, True) == Grammar(
        "json_schema", '{"type": "object"}', True
    )
    flexible = Grammar.json_schema({}, whitespace=True)
    assert requested_grammar(flexible) is flexible
    assert requested_grammar(flexible, None, False) == Grammar("json_schema", "{}", False)
    for grammar in (None, Grammar.regex("a")):
        with pytest.raises(OptionError, match="about JSON"):
            requested_grammar(grammar, None, True)
    with pytest.raises(OptionError, match="True or False"):
        requested_grammar(flexible, None, "yes")  # type: ignore[arg-type]


def test_two_grammars_are_one_too_many() -> None:
    with pytest.raises(OptionError, match="one answer follows one grammar"):
        requested_grammar(Grammar.regex("a"), {"type": "json_object"})


@pytest.mark.parametrize(
    "make",
    [
        lambda: Grammar.json_schema("{not json"),
        lambda: Grammar.json_schema("[1]"),
        lambda: Grammar.json_schema({"const": {1, 2}}),
        lambda: Grammar.json_schema({"minimum": float("nan")}),
        lambda: Grammar.lark(""),
        lambda: Grammar.regex(7),  # type: ignore[arg-type]
        lambda: Grammar.gbnf("  \n"),
        lambda: requested_grammar(SCHEMA),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_grammar_is_refused(make: Any) -> None:
    with pytest.raises(OptionError):
        make()


def test_grammar_errors_are_option_errors() -> None:
    assert issubclass(GrammarError, OptionError)
    assert issubclass(GrammarError, PyspecError)


def test_the_library_is_not_imported_before_a_grammar_is_used() -> None:
    code = (
        "import sys, pyspec; from pyspec.llm.llm import LLM; from pyspec.llm.grammar import *; import pyspec.drafters.grammar;"
        " pyspec.Grammar.json_schema({}); sys.exit('llguidance' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
