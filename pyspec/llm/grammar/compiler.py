"""Grammars compiled for one model."""

from __future__ import annotations

import logging
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyspec.errors import GrammarError
from pyspec.llm.grammar.gbnf_lark import gbnf_to_lark
from pyspec.llm.grammar.state import GrammarState

if TYPE_CHECKING:
    from pyspec.core.model import Model
    from pyspec.llm.grammar.request import Grammar
    from pyspec.llm.grammar.vocabulary import GrammarVocabulary

log = logging.getLogger("pyspec")

#: Compiled grammars kept: an application has a handful of formats, and each may weigh megabytes.
CACHED = 16


class GrammarCompiler:
    """Compiles grammars for one model and keeps the last ones. Cheap to make: the vocabulary is built and llguidance
    imported when the first grammar comes. Threads may share one.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._lock = Lock()
        self._vocabulary: GrammarVocabulary | None = None
        self._compiled: OrderedDict[Grammar, Any] = OrderedDict()

    @property
    def vocabulary(self) -> GrammarVocabulary:
        """The model's vocabulary as llguidance knows it. UnsupportedError when there is no end token."""
        if self._vocabulary is None:
            from pyspec.llm.grammar.vocabulary import GrammarVocabulary

            self._vocabulary = GrammarVocabulary(self._model.tokenizer, self._model.info.n_vocab)
        return self._vocabulary

    def start(self, grammar: Grammar) -> GrammarState:
        """A state at the beginning of a text, for one generation.

        Raises GrammarError with the library's reason when the grammar cannot be used.
        """
        with self._lock:
            matcher = self._compiled.get(grammar)
            if matcher is None:
                matcher = self._compile(grammar)
                self._compiled[grammar] = matcher
                while len(self._compiled) > CACHED:
                    self._compiled.popitem(last=False)
            else:
                self._compiled.move_to_end(grammar)
            return GrammarState(matcher.deep_copy(), self.vocabulary)

    def close(self) -> None:
        """Give back the memory; a later `start` builds everything anew."""
        with self._lock:
            self._compiled.clear()
            self._vocabulary = None

    def _compile(self, grammar: Grammar) -> Any:
        library = self.vocabulary.library
        import llguidance

        limits = llguidance.LLParserLimits(verbose_errors=False)
        matcher = llguidance.LLMatcher(library, _library_text(grammar), log_level=0, limits=limits)
        if matcher.is_error():
            raise _unusable(grammar, matcher.get_error())
        for warning in matcher.get_grammar_warnings():
            log.warning("grammar: %s", warning)
        return matcher


def check_grammar(grammar: Grammar) -> None:
    """GrammarError when the grammar cannot be used, whatever the model. Needs none, so that a mistake shows at once."""
    from llguidance import LLMatcher

    reason = LLMatcher.validate_grammar(_library_text(grammar))
    if reason:
        raise _unusable(grammar, reason)


def _unusable(grammar: Grammar, reason: str) -> GrammarError:
    what = "JSON schema" if grammar.kind == "json_schema" else f"{grammar.kind} grammar"
    return GrammarError(f"the {what} cannot be used: {reason}")


def _library_text(grammar: Grammar) -> str:
    """The grammar in llguidance's own form."""
    from llguidance import LLMatcher

    if grammar.kind == "json_schema":
        try:
            # As defaults, so that a schema's own "x-guidance" object may say otherwise.
            return str(
                LLMatcher.grammar_from_json_schema(
                    grammar.text, defaults={"whitespace_flexible": grammar.whitespace}
                )
            )
        except ValueError as error:
            raise GrammarError(f"the JSON schema cannot be used: {error}") from None
    if grammar.kind == "regex":
        return str(LLMatcher.grammar_from_regex(grammar.text))
    text = gbnf_to_lark(grammar.text) if grammar.kind == "gbnf" else grammar.text
    return str(LLMatcher.grammar_from_lark(text))
