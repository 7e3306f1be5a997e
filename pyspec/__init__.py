"""pyspec: run local GGUF language models fast, with speculative decoding that never changes the text.

    import pyspec

    with pyspec.LLM("model.gguf") as llm:
        print(llm.generate("The capital of France is", max_tokens=16).text)

`LLM` is the whole thing. `Model`, `Context`, `Sampler` and `Drafter` are its parts, for people who build their
own loop. Names are imported when they are first used, so `import pyspec` itself is cheap.
"""

from __future__ import annotations

from pyspec._version import __version__

TYPE_CHECKING = False  # true for type checkers; importing `typing` would be most of this module's cost
if TYPE_CHECKING:
    from typing import Any

    from pyspec.core.context import CancelToken, Context
    from pyspec.core.model import Model
    from pyspec.core.sampler import Sampler, SamplingParams
    from pyspec.drafters.base import Draft, Drafter
    from pyspec.errors import (
        BusyError,
        CancelledError,
        ClosedError,
        ContextFullError,
        DeviceError,
        FileFormatError,
        ForkError,
        GrammarError,
        InternalError,
        OptionError,
        OutOfMemoryError,
        PairMismatchError,
        PyspecError,
        TemplateError,
        UnsupportedError,
    )
    from pyspec.llm.grammar.request import Grammar
    from pyspec.llm.llm import LLM

#: Where each public name lives.
_HOMES = {
    "LLM": "pyspec.llm.llm",
    "Grammar": "pyspec.llm.grammar.request",
    "Model": "pyspec.core.model",
    "Context": "pyspec.core.context",
    "CancelToken": "pyspec.core.context",
    "Sampler": "pyspec.core.sampler",
    "SamplingParams": "pyspec.core.sampler",
    "Drafter": "pyspec.drafters.base",
    "Draft": "pyspec.drafters.base",
    "BusyError": "pyspec.errors",
    "CancelledError": "pyspec.errors",
    "ClosedError": "pyspec.errors",
    "ContextFullError": "pyspec.errors",
    "DeviceError": "pyspec.errors",
    "FileFormatError": "pyspec.errors",
    "ForkError": "pyspec.errors",
    "GrammarError": "pyspec.errors",
    "InternalError": "pyspec.errors",
    "OptionError": "pyspec.errors",
    "OutOfMemoryError": "pyspec.errors",
    "PairMismatchError": "pyspec.errors",
    "PyspecError": "pyspec.errors",
    "TemplateError": "pyspec.errors",
    "UnsupportedError": "pyspec.errors",
}

__all__ = [
    "LLM",
    "BusyError",
    "CancelToken",
    "CancelledError",
    "ClosedError",
    "Context",
    "ContextFullError",
    "DeviceError",
    "Draft",
    "Drafter",
    "FileFormatError",
    "ForkError",
    "Grammar",
    "GrammarError",
    "InternalError",
    "Model",
    "OptionError",
    "OutOfMemoryError",
    "PairMismatchError",
    "PyspecError",
    "Sampler",
    "SamplingParams",
    "TemplateError",
    "UnsupportedError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pyspec' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
