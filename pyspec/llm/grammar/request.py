"""What `grammar=`, `response_format=` and `grammar_whitespace=` ask for, checked as far as that needs no model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspec.errors import GrammarError, OptionError

#: A line that only one of the two notations has: Lark's start rule (or llguidance's directive), GBNF's root rule.
_LARK = re.compile(r"^\s*(?:%llguidance\b|\??start(?![\w-])[^:\n]*:(?!:=))", re.MULTILINE)
_GBNF = re.compile(r"^\s*root\s*::=", re.MULTILINE)

_FORMATS = ("text", "json_object", "json_schema")


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar with its notation. Make one with the class methods; nothing is compiled before a model is there.

    Attributes:
        kind: "lark", "regex", "gbnf" or "json_schema".
        text: the grammar; of a schema its JSON, properties in the order in which they are generated.
        whitespace: JSON only: allow white space between the parts, however much the model likes. Without it the text
            is compact ({"a":1,"b":[2,3]}), which saves tokens.
    """

    kind: str
    text: str
    whitespace: bool = False

    @classmethod
    def lark(cls, text: str) -> Grammar:
        """Lark notation with llguidance's extensions; the start rule is `start`.

        Terminals (upper-case names, strings, expressions) match greedily: what a terminal can take, the next one does
        not get.
        """
        return cls("lark", _text("lark", text))

    @classmethod
    def regex(cls, pattern: str) -> Grammar:
        """A regular expression in the syntax of Rust's `regex`, for the whole answer. No look-around, no anchors."""
        return cls("regex", _text("regex", pattern))

    @classmethod
    def gbnf(cls, text: str) -> Grammar:
        """llama.cpp's notation; the start rule is `root`."""
        return cls("gbnf", _text("gbnf", text))

    @classmethod
    def json_schema(cls, schema: Mapping[str, Any] | str, *, whitespace: bool = False) -> Grammar:
        """A JSON schema as a mapping or as JSON text. {} is any JSON value.

        Properties appear in the order of the schema. Keywords that cannot be enforced are refused, not ignored.
        """
        if isinstance(schema, str):
            try:
                schema = json.loads(schema)
            except ValueError as error:
                raise GrammarError(f"the JSON schema is no JSON: {error}") from None
        if not isinstance(schema, Mapping):
            raise GrammarError(f"a JSON schema is an object, not {type(schema).__name__}")
        try:
            text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise GrammarError(f"the JSON schema has something that is not JSON: {error}") from None
        return cls("json_schema", text, whitespace)

    @classmethod
    def parse(cls, text: str) -> Grammar:
        """A grammar whose notation its start rule tells: `start: …` is Lark, `root ::= …` is GBNF.

        Anything else, a regular expression say, could mean several things and is refused.
        """
        is_lark, is_gbnf = bool(_LARK.search(text)), bool(_GBNF.search(text))
        if is_lark == is_gbnf:
            found = "has both a Lark and a GBNF start rule" if is_lark else "has no start rule"
            raise OptionError(
                f"the grammar text {found}, so its notation is unclear: Lark begins at 'start: …', GBNF at 'root ::= …'. "
                "Say which it is with pyspec.Grammar.lark(…), .gbnf(…), .regex(…) or .json_schema(…)"
            )
        return cls.lark(text) if is_lark else cls.gbnf(text)


#: Any JSON object: what {"type": "json_object"} means.
ANY_OBJECT = '{"type": "object"}'


def requested_grammar(
    grammar: Grammar | str | None = None,
    response_format: Mapping[str, Any] | None = None,
    whitespace: bool | None = None,
) -> Grammar | None:
    """The grammar that a call's options ask for; None: any text.

    Args:
        grammar: a Grammar, or text whose start rule tells the notation (`Grammar.parse`).
        response_format: {"type": "text"}, {"type": "json_object"} or {"type": "json_schema", "json_schema": {"name": …,
            "schema": {…}, "strict": …}}. The schema is always enforced, whatever `strict` says.
        whitespace: `grammar_whitespace=`, for JSON only; None: as the Grammar says, compact if it says nothing.

    Raises OptionError, GrammarError.
    """
    if grammar is not None and response_format is not None:
        raise OptionError("grammar and response_format cannot both be given: one answer follows one grammar")
    if whitespace is not None and not isinstance(whitespace, bool):
        raise OptionError(f"grammar_whitespace must be True or False, not {whitespace!r}")
    found = _from_format(response_format) if grammar is None else _from_grammar(grammar)
    if whitespace is None:
        return found
    if found is None or found.kind != "json_schema":
        raise OptionError("grammar_whitespace is about JSON, and the call asks for none")
    return replace(found, whitespace=whitespace)


def _from_grammar(grammar: Any) -> Grammar:
    if isinstance(grammar, Grammar):
        return grammar
    if isinstance(grammar, str):
        return Grammar.parse(grammar)
    raise OptionError(
        f"grammar takes a pyspec.Grammar or text, not {type(grammar).__name__}; "
        "a JSON schema is pyspec.Grammar.json_schema(…) or response_format="
    )


def _from_format(value: Any) -> Grammar | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise OptionError(f'response_format is a mapping such as {{"type": "json_object"}}, not {value!r}')
    kind = value.get("type")
    if kind not in _FORMATS:
        raise OptionError(f'response_format: "type" is {kind!r}, expected one of {", ".join(_FORMATS)}')
    _only(value, {"type", "json_schema"} if kind == "json_schema" else {"type"}, "response_format")
    if kind == "text":
        return None
    if kind == "json_object":
        return Grammar("json_schema", ANY_OBJECT)
    inner = value.get("json_schema")
    if not isinstance(inner, Mapping) or not isinstance(inner.get("schema"), Mapping):
        raise OptionError(
            'response_format: "json_schema" must be {"name": …, "schema": {…}}, with the JSON schema itself in "schema"'
        )
    _only(inner, {"name", "description", "schema", "strict"}, "response_format, json_schema")
    return Grammar.json_schema(inner["schema"])


def _only(value: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(value) - known)
    if unknown:
        raise OptionError(
            f"{where}: unknown {', '.join(map(repr, unknown))}; known: {', '.join(sorted(known))}"
        )


def _text(kind: str, text: object) -> str:
    if not isinstance(text, str) or not text.strip():
        raise OptionError(f"Grammar.{kind} takes text that is not empty, not {text!r}")
    return text
