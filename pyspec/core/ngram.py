"""Handles of the core's n-gram drafters: tables over one session's committed tokens.

What each kind does stands in csrc/history and in `pyspec.drafters`, whose classes are made of these.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from pyspec._native import check, lib
from pyspec.errors import ClosedError, OptionError

__all__ = ["KINDS", "TABLES", "NgramTable"]

#: Names of the kinds, and their values in the C interface.
KINDS = {
    "simple": "PYSPEC_NGRAM_SIMPLE",
    "map-k": "PYSPEC_NGRAM_MAP_K",
    "map-k4v": "PYSPEC_NGRAM_MAP_K4V",
    "mod": "PYSPEC_NGRAM_MOD",
    "cache": "PYSPEC_NGRAM_CACHE",
}
#: Tables of counts of kind "cache", and their values in the C interface.
TABLES = {
    "context": "PYSPEC_NGRAM_CONTEXT",
    "dynamic": "PYSPEC_NGRAM_DYNAMIC",
    "static": "PYSPEC_NGRAM_STATIC",
    "learnt": "PYSPEC_NGRAM_LEARNT",
}


class NgramTable:
    """One drafter of the core. Owns its handle; one thread at a time. Token ids are 32-bit integers.

    Options that are not given have the core's defaults (`options` after construction); values out of range raise
    OptionError.
    """

    def __init__(self, kind: str, **options: int) -> None:
        self._ffi, self._lib = ffi, library = lib()
        if kind not in KINDS:
            raise OptionError(f"unknown kind of n-gram drafter {kind!r}; known kinds: {', '.join(KINDS)}")
        self.kind = kind
        params = ffi.new("pyspec_ngram_params *")
        number = getattr(library, KINDS[kind])
        check(library.pyspec_ngram_params_default(params, number, ffi.sizeof("pyspec_ngram_params")))
        for name, value in options.items():
            try:
                setattr(params, name, value)
            except (AttributeError, OverflowError, TypeError) as error:
                raise OptionError(f"n-gram drafter: {name}={value!r}: {error}") from None
        out = ffi.new("pyspec_ngram **")
        check(library.pyspec_ngram_new(params, out))
        self._handle: Any = ffi.gc(out[0], library.pyspec_ngram_free)
        #: Values in use.
        self.options = {
            name: int(getattr(params, name))
            for name, _ in ffi.typeof("pyspec_ngram_params").fields
            if name not in ("struct_size", "kind")
        }
        #: Longest draft it ever makes.
        self.max_draft: int = params.m
        # Made once: a round costs what the calls cost.
        self._draft = ffi.new("int32_t[]", self.max_draft)
        self._confidence = ffi.new("float[]", self.max_draft)
        self._n = ffi.new("int32_t *")
        self._propose = library.pyspec_ngram_propose
        self._commit = library.pyspec_ngram_commit
        self._unpack = ffi.unpack

    @property
    def handle(self) -> Any:
        """The cffi handle; raises ClosedError."""
        if self._handle is None:
            raise ClosedError("this n-gram drafter has been closed")
        return self._handle

    def close(self) -> None:
        """Free it. May be called twice."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._ffi.release(handle)

    def begin(self, tokens: Sequence[int]) -> None:
        """The history is now exactly these tokens. Costs what differs from the one before."""
        packed = array("i", tokens)
        check(
            self._lib.pyspec_ngram_begin(self.handle, self._ffi.from_buffer("int32_t[]", packed), len(packed))
        )

    def propose(self, history: Sequence[int], last: int, limit: int) -> tuple[list[int], list[float]] | None:
        """Up to limit tokens that may follow history + [last], and for each the estimated probability that it is
        right when those before it are; None for no guess.

        Of the history only its length is looked at: when it is another one than the table's, the table begins anew.
        """
        handle = self.handle
        found = self._n
        check(self._propose(handle, len(history), last, limit, self._draft, self._confidence, found))
        n: int = found[0]
        if n < 0:
            self.begin(history)
            check(self._propose(handle, len(history), last, limit, self._draft, self._confidence, found))
            n = found[0]
        if n == 0:
            return None
        return self._unpack(self._draft, n), self._unpack(self._confidence, n)

    def commit(
        self, kept: list[int], emitted: list[int], n_own_draft: int = 0, n_own_accepted: int = 0
    ) -> None:
        """The history grew by kept; emitted are the target's tokens after `last` of `propose`. The counts are those of
        the verified draft when it was this drafter's.
        """
        check(self._commit(self.handle, kept, len(kept), emitted, len(emitted), n_own_draft, n_own_accepted))

    def truncate(self, n_tokens: int, withdrawn: bool = False) -> None:
        """Only the first n_tokens tokens stay. withdrawn: the others never were part of a text."""
        check(self._lib.pyspec_ngram_truncate(self.handle, n_tokens, withdrawn))

    def remove(self, first: int, end: int) -> None:
        """Tokens [first, end) left the history; those after them moved up."""
        check(self._lib.pyspec_ngram_remove(self.handle, first, end))

    @property
    def n_tokens(self) -> int:
        """Length of the history."""
        return int(self._lib.pyspec_ngram_history(self.handle, self._ffi.NULL, 0))

    def history(self) -> list[int]:
        """A copy of the history."""
        n = self.n_tokens
        tokens = self._ffi.new("int32_t[]", n)
        self._lib.pyspec_ngram_history(self.handle, tokens, n)
        return list(tokens)

    @property
    def memory_bytes(self) -> int:
        """Bytes in use now."""
        return int(self._lib.pyspec_ngram_memory(self.handle))

    def load(self, table: str, content: bytes, name: str) -> None:
        """Replace the table "dynamic" or "static" of a "cache". FileFormatError, and no change, for bytes that are not
        such a table; name stands in the message.
        """
        check(
            self._lib.pyspec_ngram_load(
                self.handle,
                self._table(table),
                self._ffi.from_buffer(content),
                len(content),
                name.encode("utf-8", "replace"),
            )
        )

    def save(self, table: str) -> bytes:
        """The records of a table of a "cache", as they stand in a file."""
        size = self._ffi.new("size_t *")
        number = self._table(table)
        check(self._lib.pyspec_ngram_save(self.handle, number, self._ffi.NULL, 0, size))
        content = self._ffi.new("char[]", size[0])
        check(self._lib.pyspec_ngram_save(self.handle, number, content, size[0], size))
        return bytes(self._ffi.buffer(content, size[0]))

    def _table(self, name: str) -> int:
        if name not in TABLES:
            raise OptionError(f"unknown table {name!r}; known tables: {', '.join(TABLES)}")
        return int(getattr(self._lib, TABLES[name]))
