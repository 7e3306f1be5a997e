"""Text that follows a grammar or a JSON schema, through `llguidance`.

`request` understands what the caller asks for, `compiler` makes it usable for one vocabulary, `state` follows one
generation: it cuts drafts and fills a mask for each row of a verification. `gbnf`, `gbnf_rules` and `gbnf_lark` read
llama.cpp's grammar notation. Nothing here imports llguidance before a grammar is used.
"""

from __future__ import annotations

from pyspec.llm.grammar.compiler import GrammarCompiler, check_grammar
from pyspec.llm.grammar.request import Grammar, requested_grammar
from pyspec.llm.grammar.state import GrammarState

__all__ = ["Grammar", "GrammarCompiler", "GrammarState", "check_grammar", "requested_grammar"]
