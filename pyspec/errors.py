"""The errors of pyspec. Every one is a PyspecError; the C core's status codes map to them one to one."""

from __future__ import annotations

from typing import Any

__all__ = [
    "BusyError",
    "CancelledError",
    "ClosedError",
    "ContextFullError",
    "DeviceError",
    "FileFormatError",
    "ForkError",
    "GrammarError",
    "InternalError",
    "OptionError",
    "OutOfMemoryError",
    "PairMismatchError",
    "PyspecError",
    "TemplateError",
    "UnsupportedError",
    "status_to_error",
]


class PyspecError(Exception):
    """Base class of every error that pyspec raises on purpose."""


class FileFormatError(PyspecError):
    """The file is missing, truncated, damaged or not GGUF."""


class UnsupportedError(PyspecError):
    """A valid request or file that this build or object cannot serve."""


class OptionError(PyspecError, ValueError):
    """An argument is out of range, unknown, or contradicts another."""


class GrammarError(OptionError):
    """A grammar or JSON schema cannot be used, or no token of this model can continue a text that follows it.

    The message has the reason; the LLM stays usable.
    """


class PairMismatchError(PyspecError):
    """Target and draft model do not fit together; the message lists every rule that failed."""


class ContextFullError(PyspecError):
    """The tokens do not fit into the context.

    result: the answer so far, when a generation with on_full="error" ran into the end; else None.
    """

    result: Any = None


class CancelledError(PyspecError):
    """The call was cancelled; what it had done has been undone."""


class OutOfMemoryError(PyspecError, MemoryError):
    """Memory could not be reserved; the message has the numbers."""


class DeviceError(PyspecError):
    """The backend failed while computing."""


class BusyError(PyspecError):
    """Another thread is using this object."""


class ClosedError(PyspecError):
    """The object has been closed."""


class ForkError(PyspecError):
    """The object was made before fork() and is of no use in the child."""


class InternalError(PyspecError):
    """A defect of pyspec; please report it."""


class TemplateError(PyspecError):
    """A chat template does not compile or raised an error.

    `line` is the line of the template, None when unknown; `what` says what went wrong.
    """

    def __init__(self, line: int | None, what: str) -> None:
        super().__init__(line, what)
        self.line = line
        self.what = what

    def __str__(self) -> str:
        return f"chat template, line {self.line}: {self.what}" if self.line else f"chat template: {self.what}"


#: pyspec_status of the C header to the error raised for it. PYSPEC_OK (0) has none.
status_to_error: dict[int, type[PyspecError]] = {
    1: FileFormatError,
    2: UnsupportedError,
    3: OptionError,
    4: PairMismatchError,
    5: ContextFullError,
    6: CancelledError,
    7: OutOfMemoryError,
    8: DeviceError,
    9: BusyError,
    10: ClosedError,
    11: ForkError,
    12: InternalError,
}
