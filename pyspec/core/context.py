"""A context: the memory of one sequence on a model, and the output rows of the last decode."""

from __future__ import annotations

import enum
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspec._native import check, lib
from pyspec._native.jobs import CancelToken, ShortCalls, run_cancellable
from pyspec.core.model import Model
from pyspec.errors import ClosedError, OptionError, UnsupportedError

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "TAP_FINAL",
    "CancelToken",
    "Context",
    "ContextStats",
    "MemoryReport",
    "Rollback",
    "memory_estimate",
]

#: Tap number of the stream after the output norm; other taps are layer numbers.
TAP_FINAL = -1

CACHE_TYPES = {"f32": 0, "f16": 1, "q8_0": 8, "bf16": 30}
MEMORY_KINDS = {"auto": 0, "test-full": 1, "test-no": 2}

#: Calls expected to take longer run on a worker thread, so that Ctrl-C is served while they run. Seconds.
INLINE_LIMIT = 0.05
#: First guess of the time a token takes, before any was measured: bytes of weights read per second.
FIRST_GUESS_BYTES_PER_SECOND = 5e9


class Rollback(enum.IntEnum):
    """What a context's memory can undo (found by trying, see `Context.probe_rollback`)."""

    NO = 0
    FULL = 1
    PART = 2
    TAIL = 3


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Bytes a context needs; `weight_bytes` is shared by all contexts of a model."""

    weight_bytes: int
    cache_bytes: int
    compute_bytes: int
    output_bytes: int
    available_bytes: int

    @property
    def context_bytes(self) -> int:
        """What the context itself needs, weights apart."""
        return self.cache_bytes + self.compute_bytes + self.output_bytes


@dataclass(frozen=True, slots=True)
class ContextStats:
    """Counts since the context was made; times in microseconds."""

    n_decode: int
    n_tokens: int
    n_graph_build: int
    n_graph_reuse: int
    compute_us: int
    decode_us: int


def _params(
    n_ctx: int,
    n_batch: int,
    n_ubatch: int,
    n_outputs: int,
    n_threads: int,
    type_k: str,
    type_v: str,
    memory_kind: str,
) -> Any:
    ffi, library = lib()
    params = ffi.new("pyspec_context_params *")
    library.pyspec_context_params_default(params, ffi.sizeof("pyspec_context_params"))
    for name, value, known in (
        ("type_k", type_k, CACHE_TYPES),
        ("type_v", type_v, CACHE_TYPES),
        ("memory_kind", memory_kind, MEMORY_KINDS),
    ):
        if value not in known:
            raise OptionError(f"{name} is {value!r}, expected one of {', '.join(known)}")
        setattr(params, name, known[value])
    for name, number in (
        ("n_ctx", n_ctx),
        ("n_batch", n_batch),
        ("n_ubatch", n_ubatch),
        ("n_outputs", n_outputs),
        ("n_threads", n_threads),
    ):
        if not isinstance(number, int) or not -(2**31) <= number < 2**31:
            raise OptionError(f"{name} is {number!r}, expected an integer")
        setattr(params, name, number)
    return params


def memory_estimate(
    model: Model,
    *,
    n_ctx: int = 0,
    n_batch: int = 2048,
    n_ubatch: int = 512,
    n_outputs: int = 64,
    n_threads: int = 0,
    type_k: str = "f16",
    type_v: str = "f16",
) -> MemoryReport:
    """What `Context` with these options would need, computed without allocating it. Works on a metadata_only model."""
    ffi, library = lib()
    params = _params(n_ctx, n_batch, n_ubatch, n_outputs, n_threads, type_k, type_v, "auto")
    report = ffi.new("pyspec_memory_report *")
    check(library.pyspec_context_memory(model.handle, params, report, ffi.sizeof("pyspec_memory_report")))
    return MemoryReport(**{name: int(getattr(report, name)) for name in MemoryReport.__dataclass_fields__})


class Context:
    """Memory and compute buffers for one sequence.

    Args:
        model: what to compute with; stays loaded as long as this context is open.
        n_ctx: most tokens in memory; 0 = the model's training context.
        n_batch: most tokens of one `decode` call.
        n_ubatch: most tokens computed together; never changes results.
        n_outputs: most output rows of one `decode` call.
        n_threads: 0 = physical cores that this process may use.
        type_k, type_v: cache types: "f16", "f32", "bf16", "q8_0".
        memory_kind: "auto"; "test-full" and "test-no" imitate memories with limited undo, for tests.

    One thread at a time; a second one gets BusyError. Raises OptionError, OutOfMemoryError, UnsupportedError.
    """

    def __init__(
        self,
        model: Model,
        *,
        n_ctx: int = 0,
        n_batch: int = 2048,
        n_ubatch: int = 512,
        n_outputs: int = 64,
        n_threads: int = 0,
        type_k: str = "f16",
        type_v: str = "f16",
        memory_kind: str = "auto",
    ) -> None:
        self.model = model
        self._ffi, self._lib = ffi, library = lib()
        self._handle: Any = None
        out = ffi.new("pyspec_context **")
        params = _params(n_ctx, n_batch, n_ubatch, n_outputs, n_threads, type_k, type_v, memory_kind)
        check(library.pyspec_context_new(model.handle, params, out))
        self._handle = ffi.gc(out[0], library.pyspec_context_free)
        check(library.pyspec_context_get_params(self._handle, params, ffi.sizeof("pyspec_context_params")))
        self.n_ctx = int(params.n_ctx)
        self.n_batch = int(params.n_batch)
        self.n_ubatch = int(params.n_ubatch)
        self.n_outputs_max = int(params.n_outputs)
        self.n_threads = int(params.n_threads)
        self.n_vocab = model.info.n_vocab
        self.n_embd = model.info.n_embd
        self.type_k, self.type_v, self.memory_kind = type_k, type_v, memory_kind
        self._taps: tuple[int, ...] = ()
        self._n_tokens_of_rows = 0
        self._batch = ffi.new("pyspec_batch *")
        self._short_calls = ShortCalls()
        self._seconds: dict[int, float] = {}  # the last decode of so many tokens took
        self._first_guess = model.info.weight_bytes / FIRST_GUESS_BYTES_PER_SECOND

    def _expected_seconds(self, n: int) -> float:
        """About how long a decode of n tokens is going to take: as long as the last one, or in proportion to another."""
        if n in self._seconds:
            return self._seconds[n]
        smaller = max((known for known in self._seconds if known < n), default=0)
        return self._seconds[smaller] * n / smaller if smaller else self._first_guess * n

    @property
    def handle(self) -> Any:
        """The cffi handle; raises ClosedError."""
        if self._handle is None:
            raise ClosedError("this context has been closed")
        return self._handle

    def close(self) -> None:
        """Free the memory. Using the context afterwards raises ClosedError."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._ffi.release(handle)

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def decode(
        self,
        tokens: Sequence[int],
        *,
        positions: Sequence[int] | None = None,
        outputs: str | Sequence[bool] | None = None,
        cancel: CancelToken | None = None,
    ) -> int:
        """Append tokens to the memory and compute; returns the number of output rows.

        Args:
            tokens: up to n_batch ids.
            positions: growing positions behind everything in memory; None = consecutive.
            outputs: which tokens get a logits row: None = the last, "all", "none", or one flag for each token.
            cancel: stops the work from another thread.

        On any error (OptionError, ContextFullError, CancelledError, DeviceError, BusyError, ForkError) nothing has been
        added. Old rows are gone after every call.
        """
        ffi, batch, n = self._ffi, self._batch, len(tokens)
        handle = self.handle
        try:
            keep_tokens = ffi.new("int32_t[]", tokens)
            keep_positions = ffi.NULL if positions is None else ffi.new("int32_t[]", positions)
        except (OverflowError, TypeError) as error:
            raise OptionError(f"tokens and positions must be 32-bit integers: {error}") from None
        if positions is not None and len(positions) != n:
            raise OptionError(f"{len(positions)} positions were given for {n} tokens")
        if outputs is None:
            keep_outputs = ffi.NULL
        elif outputs == "all":
            keep_outputs = ffi.new("int8_t[]", b"\1" * n)
        elif outputs == "none":
            keep_outputs = ffi.new("int8_t[]", n)
        elif isinstance(outputs, str):
            raise OptionError(
                f"outputs is {outputs!r}, expected None, 'all', 'none' or one flag for each token"
            )
        elif len(outputs) != n:
            raise OptionError(f"{len(outputs)} output flags were given for {n} tokens")
        else:
            keep_outputs = ffi.new("int8_t[]", bytes(bool(flag) for flag in outputs))
        batch.tokens, batch.n_tokens = keep_tokens, n
        batch.positions, batch.outputs = keep_positions, keep_outputs

        run = self._short_calls.run if self._expected_seconds(n) < INLINE_LIMIT else run_cancellable
        start = time.perf_counter()
        run(self._lib.pyspec_decode, handle, batch, cancel=cancel)
        self._seconds[n] = time.perf_counter() - start
        self._n_tokens_of_rows = n
        return int(self._lib.pyspec_n_outputs(handle))

    @property
    def n_outputs(self) -> int:
        """Number of logits rows of the last decode."""
        return int(self._lib.pyspec_n_outputs(self.handle))

    def logits_ptr(self, i: int) -> Any:
        """cffi pointer to row i, {n_vocab} floats; rows follow each other. Valid until the next decode."""
        pointer = self._lib.pyspec_logits(self.handle, i)
        if pointer == self._ffi.NULL:
            raise OptionError(f"there is no output row {i}; the last decode left {self.n_outputs}")
        return pointer

    def logits_maxima_ptr(self, i: int) -> Any:
        """cffi pointer to the maxima of row i in blocks of 128, for the functions that choose tokens."""
        return self._lib.pyspec_logits_maxima(self.handle, i)

    def logits(self, i: int) -> NDArray[np.float32]:
        """Row i as a read-only NumPy view {n_vocab}. Valid until the next decode: copy what you keep."""
        return self._view(self.logits_ptr(i), (self.n_vocab,))

    def set_taps(self, layers: Sequence[int]) -> None:
        """Export the residual stream entering these layers (n_layer: after the last; TAP_FINAL: after the output norm)."""
        check(
            self._lib.pyspec_context_set_taps(
                self.handle, self._ffi.new("int32_t[]", list(layers)), len(layers)
            )
        )
        self._taps = tuple(layers)

    def taps(self, i: int) -> NDArray[np.float32]:
        """Rows {n_tokens, n_embd} of the i-th tapped layer, one for each token of the last decode. Read-only view."""
        pointer = self._lib.pyspec_taps(self.handle, i)
        if pointer == self._ffi.NULL:
            raise OptionError(f"there are no rows of tap {i}; {len(self._taps)} taps are set")
        return self._view(pointer, (self._n_tokens_of_rows, self.n_embd))

    def _view(self, pointer: Any, shape: tuple[int, ...]) -> NDArray[np.float32]:
        import math

        import numpy as np

        view = np.frombuffer(self._ffi.buffer(pointer, 4 * math.prod(shape)), dtype=np.float32).reshape(shape)
        view.flags.writeable = False
        return view

    def seq_rm(self, seq_id: int, p0: int, p1: int) -> bool:
        """Remove positions [p0, p1); negative = open end. False: this memory cannot, and nothing has changed."""
        try:
            check(self._lib.pyspec_seq_rm(self.handle, seq_id, p0, p1))
        except UnsupportedError:
            return False
        return True

    def can_seq_rm(self, seq_id: int, p0: int, p1: int) -> bool:
        """Would `seq_rm` succeed now?"""
        return bool(self._lib.pyspec_can_seq_rm(self.handle, seq_id, p0, p1))

    def seq_add(self, seq_id: int, p0: int, p1: int, delta: int) -> bool:
        """Move positions [p0, p1) by delta; negative p0 or p1 = open end. Their K rows are turned accordingly.

        False: this memory cannot, and nothing has changed. OptionError when positions would become negative or lose
        their order.
        """
        try:
            check(self._lib.pyspec_seq_add(self.handle, seq_id, p0, p1, delta))
        except UnsupportedError:
            return False
        return True

    def can_seq_add(self, seq_id: int, p0: int, p1: int, delta: int) -> bool:
        """Would `seq_add` succeed now?"""
        return bool(self._lib.pyspec_can_seq_add(self.handle, seq_id, p0, p1, delta))

    def seq_pos_min(self, seq_id: int = 0) -> int:
        """Smallest position in memory, -1 when empty."""
        return int(self._lib.pyspec_seq_pos_min(self.handle, seq_id))

    def seq_pos_max(self, seq_id: int = 0) -> int:
        """Largest position in memory, -1 when empty."""
        return int(self._lib.pyspec_seq_pos_max(self.handle, seq_id))

    @property
    def n_cells(self) -> int:
        """Number of tokens in memory."""
        return int(self._lib.pyspec_n_cells(self.handle))

    def probe_rollback(self) -> Rollback:
        """Find out by trying what the memory can undo. Empties it: call it on a fresh context."""
        out = self._ffi.new("pyspec_rollback *")
        check(self._lib.pyspec_probe_rollback(self.handle, out))
        return Rollback(int(out[0]))

    def state_save(self) -> bytes:
        """The memory as bytes, for `state_restore` on a context of the same file and cache types."""
        size = self._ffi.new("size_t *")
        check(self._lib.pyspec_state_size(self.handle, size))
        buffer = bytearray(size[0])
        check(self._lib.pyspec_state_save(self.handle, self._ffi.from_buffer(buffer), size[0], size))
        return bytes(buffer)

    def state_restore(self, state: bytes) -> None:
        """Put a saved memory back. What does not fit is refused before anything changes (FileFormatError, OptionError)."""
        check(self._lib.pyspec_state_restore(self.handle, self._ffi.from_buffer(state), len(state)))

    def stats(self) -> ContextStats:
        """Counts and times since the context was made."""
        out = self._ffi.new("pyspec_context_stats *")
        check(self._lib.pyspec_context_get_stats(self.handle, out, self._ffi.sizeof("pyspec_context_stats")))
        return ContextStats(**{name: int(getattr(out, name)) for name in ContextStats.__dataclass_fields__})

    def kernel_runs(self) -> dict[str, int]:
        """How often each kernel was run since the context was made, by name: `product.q4_K` (packed weights),
        `product_unpacked.iq4_nl` (weights as they lie in the file), the same with `experts`, and `attention`.
        """
        length = self._ffi.new("size_t *")
        check(self._lib.pyspec_context_kernel_runs(self.handle, self._ffi.NULL, 0, length))
        room = length[0] + 4096  # the numbers may grow meanwhile
        buffer = self._ffi.new("char[]", room)
        check(self._lib.pyspec_context_kernel_runs(self.handle, buffer, room, length))
        return {name: int(n) for name, n in json.loads(self._ffi.string(buffer)).items()}

    def memory_report(self) -> MemoryReport:
        """Bytes this context was planned with."""
        return memory_estimate(
            self.model,
            n_ctx=self.n_ctx,
            n_batch=self.n_batch,
            n_ubatch=self.n_ubatch,
            n_outputs=self.n_outputs_max,
            n_threads=self.n_threads,
            type_k=self.type_k,
            type_v=self.type_v,
        )
