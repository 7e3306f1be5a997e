"""SuffixIndex: the C core's index of a token sequence, which guesses how the sequence goes on by copying."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspec._native import check, lib
from pyspec.errors import ClosedError, OptionError

__all__ = ["SuffixIndex", "SuffixInfo"]


@dataclass(frozen=True, slots=True)
class SuffixInfo:
    """Size of an index.

    n_indexed: tokens of the session's text in it, repeated ones counted again. n_states, n_transitions: of its
    automata. n_corpora: bodies of text beside the session's. memory_bytes: of everything.
    """

    n_indexed: int
    n_states: int
    n_transitions: int
    n_corpora: int
    memory_bytes: int


class SuffixIndex:
    """Follows one token sequence through all edits; see `pyspec_suffix` in pyspec_history.h for what each call does.

    max_draft: longest guess. memory_tokens: what the index holds of the session's text, about 90 bytes each.
    end_tokens: a guess ends with any of them. One thread at a time.
    """

    def __init__(
        self, *, max_draft: int = 31, memory_tokens: int = 262144, end_tokens: Sequence[int] = ()
    ) -> None:
        self._ffi, self._lib = ffi, library = lib()
        c = ffi.new("pyspec_suffix_params *")
        library.pyspec_suffix_params_default(c, ffi.sizeof("pyspec_suffix_params"))
        try:
            c.max_draft, c.memory_tokens = max_draft, memory_tokens
            keep_ends = ffi.new("int32_t[]", list(end_tokens))
        except (TypeError, OverflowError) as error:
            raise OptionError(f"max_draft, memory_tokens or end_tokens: {error}") from None
        c.n_end, c.end_tokens = len(keep_ends), keep_ends
        out = ffi.new("pyspec_suffix **")
        check(library.pyspec_suffix_new(c, out))
        self._handle: Any = ffi.gc(out[0], library.pyspec_suffix_free)
        self._tokens = ffi.new("int32_t[]", max_draft)
        self._confidence = ffi.new("float[]", max_draft)
        self._n = ffi.new("int32_t *")

    @property
    def handle(self) -> Any:
        """The cffi handle; raises ClosedError."""
        if self._handle is None:
            raise ClosedError("this suffix index has been closed")
        return self._handle

    def close(self) -> None:
        """Free it. May be called twice."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._ffi.release(handle)

    def follow(self, start: int, tokens: Sequence[int]) -> None:
        """The first `start` tokens are as before, then come these, nothing else."""
        status = self._lib.pyspec_suffix_follow(self.handle, start, self._ids(tokens), len(tokens))
        if status:
            check(status)

    def append(self, tokens: Sequence[int]) -> None:
        """The sequence goes on with these."""
        check(self._lib.pyspec_suffix_append(self.handle, self._ids(tokens), len(tokens)))

    def truncate(self, n_tokens: int) -> None:
        """Cut to the first n_tokens; what goes beyond `undoable` tokens stays in the index as earlier text."""
        check(self._lib.pyspec_suffix_truncate(self.handle, n_tokens))

    def undo(self, n: int) -> None:
        """Take back the newest n tokens without a trace. OptionError when n is larger than `undoable`."""
        check(self._lib.pyspec_suffix_undo(self.handle, n))

    @property
    def undoable(self) -> int:
        """How many tokens `undo` can take back, at most 64."""
        return int(self._lib.pyspec_suffix_undoable(self.handle))

    def remove(self, begin: int, end: int) -> None:
        """Tokens [begin, end) left the sequence and later ones moved up."""
        check(self._lib.pyspec_suffix_remove(self.handle, begin, end))

    def add_document(self, tokens: Sequence[int]) -> None:
        """Text to copy from that is not part of the sequence."""
        check(self._lib.pyspec_suffix_add_document(self.handle, self._ids(tokens), len(tokens)))

    def add_corpus(self, tokens: Any, ends: Sequence[int]) -> None:
        """A fixed body of text: document i is tokens[ends[i-1]:ends[i]].

        tokens: ids as a list, or as anything with a buffer of 32-bit integers.
        """
        ffi = self._ffi
        ids = self._ids(tokens) if isinstance(tokens, list) else ffi.from_buffer("int32_t[]", tokens)
        if ends and ends[-1] > len(ids):
            raise OptionError(f"the last document ends at {ends[-1]}, there are {len(ids)} tokens")
        check(
            self._lib.pyspec_suffix_add_corpus(self.handle, ids, ffi.new("int64_t[]", list(ends)), len(ends))
        )

    def reset(self) -> None:
        """Forget the sequence, the documents and everything learnt; corpora stay."""
        check(self._lib.pyspec_suffix_reset(self.handle))

    def draft(
        self, n_history: int, last: int, limit: int, min_product: float
    ) -> tuple[list[int], list[float]] | None:
        """What follows n_history tokens and `last`, which then are the sequence: (tokens, confidence) or None.

        At most `limit` tokens, cut before the product of confidences falls below min_product.
        """
        tokens, confidence, n = self._tokens, self._confidence, self._n
        status = self._lib.pyspec_suffix_draft(
            self.handle, n_history, last, limit, min_product, tokens, confidence, n
        )
        if status:
            check(status)
        count = n[0]
        if count == 0:
            return None
        unpack = self._ffi.unpack
        return unpack(tokens, count), unpack(confidence, count)

    def guess(self, limit: int, min_product: float) -> tuple[list[int], list[float]]:
        """What follows the sequence as it is; empty lists: no opinion."""
        tokens, confidence, n = self._tokens, self._confidence, self._n
        check(self._lib.pyspec_suffix_guess(self.handle, limit, min_product, tokens, confidence, n))
        return self._ffi.unpack(tokens, n[0]), self._ffi.unpack(confidence, n[0])

    def __len__(self) -> int:
        """Tokens of the sequence."""
        return int(self._lib.pyspec_suffix_n_tokens(self.handle))

    def tokens(self) -> list[int]:
        """The sequence."""
        return (
            list(self._ffi.unpack(self._lib.pyspec_suffix_tokens(self.handle), len(self)))
            if len(self)
            else []
        )

    @property
    def info(self) -> SuffixInfo:
        """Size of the index."""
        c = self._ffi.new("pyspec_suffix_info *")
        check(self._lib.pyspec_suffix_get_info(self.handle, c, self._ffi.sizeof("pyspec_suffix_info")))
        return SuffixInfo(c.n_indexed, c.n_states, c.n_transitions, c.n_corpora, c.memory_bytes)

    def _ids(self, tokens: Sequence[int]) -> Any:
        try:
            return self._ffi.new("int32_t[]", tokens if isinstance(tokens, list) else list(tokens))
        except (TypeError, OverflowError) as error:
            raise OptionError(f"token ids must be 32-bit integers: {error}") from None
