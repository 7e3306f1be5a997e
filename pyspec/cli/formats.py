"""Structured output on the command line: a JSON schema, any JSON object, or a grammar file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspec.errors import GrammarError, OptionError


@dataclass(frozen=True)
class Format:
    """What answers have to follow. shown: in words, for people. options: of LLM.generate and LLM.chat."""

    shown: str = "none, answers are free"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        return bool(self.options)


FREE = Format()


def chosen_format(schema: str | None, grammar: str | None, whitespace: bool) -> Format:
    """What --format, --grammar and --grammar-whitespace ask for. OptionError, GrammarError for what cannot be used."""
    if schema is not None and grammar is not None:
        raise OptionError("--format and --grammar cannot both be given: one answer follows one grammar")
    if whitespace and schema is None:
        raise OptionError("--grammar-whitespace is about JSON: it needs --format")
    if schema is not None:
        return json_format(schema, whitespace)
    return FREE if grammar is None else grammar_format(grammar)


def json_format(text: str, whitespace: bool = False) -> Format:
    """`json` is any JSON object, everything else the path of a JSON schema."""
    from pyspec.llm.grammar import Grammar, check_grammar

    options: dict[str, Any] = {"grammar_whitespace": True} if whitespace else {}
    if text == "json":
        return Format("any JSON object", {"response_format": {"type": "json_object"}, **options})
    path = Path(text).expanduser()
    try:
        schema = json.loads(read_text(path, "JSON schema"))
    except json.JSONDecodeError as error:
        raise OptionError(f"{text} is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise OptionError(f"{text}: a JSON schema is an object {{…}}, and the file has {_kind(schema)}")
    try:
        check_grammar(Grammar.json_schema(schema))
    except GrammarError as error:
        raise GrammarError(f"{text}: {error}") from None
    response_format = {"type": "json_schema", "json_schema": {"name": path.stem, "schema": schema}}
    return Format(f"JSON after the schema {text}", {"response_format": response_format, **options})


def grammar_format(text: str) -> Format:
    """A file in Lark or GBNF; its start rule tells which."""
    from pyspec.llm.grammar import Grammar, check_grammar

    source = read_text(Path(text).expanduser(), "grammar")
    try:
        grammar = Grammar.parse(source)
        check_grammar(grammar)
    except (GrammarError, OptionError) as error:
        raise type(error)(f"{text}: {error}") from None
    notation = {"gbnf": "GBNF", "lark": "Lark"}[grammar.kind]
    return Format(f"the {notation} grammar {text}", {"grammar": grammar})


def read_text(path: Path, what: str) -> str:
    """The file's text without a byte order mark; OptionError says what is wrong with it, and that it should be `what`."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise OptionError(f"no such file: {path} (expected a {what})") from None
    except UnicodeDecodeError:
        raise OptionError(f"{path} is not a {what}: it is not UTF-8 text") from None
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror or error}") from None


def _kind(value: object) -> str:
    names = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
