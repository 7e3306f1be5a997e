"""llama-cpp-python as the peer, at its best: its low-level interface, `llama_decode` in a loop, weights repacked as it likes.

Its kernels with and without flash attention are tried on the work to be measured, and the faster ones stay (`choose`).
Arg-max is NumPy's, which is faster than the library's own greedy sampler.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from .contestant import Contestant, memory_in_use

#: Most tokens of one llama_decode.
N_BATCH = 2048


class LlamaContestant(Contestant):
    """A model and, until `choose`, one context for each setting of flash attention."""

    COMMANDS = (*Contestant.COMMANDS, "choose")

    def import_library(self) -> None:
        try:
            import llama_cpp
        except ImportError as error:
            raise RuntimeError(
                f"llama-cpp-python cannot be imported ({error}); install the test extra from the source folder "
                "(`pip install '.[test]'`) or pass --peer none"
            ) from None
        self._lib: Any = llama_cpp
        self._errors: list[str] = []
        self._callback = llama_cpp.llama_log_callback(self._logged)
        llama_cpp.llama_log_set(self._callback, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()

    def __init__(self) -> None:
        super().__init__()
        self._model: Any = None
        self._contexts: dict[bool, Any] = {}
        self._views: dict[int, Any] = {}
        self._batch = Batch(self._lib, N_BATCH)

    def about(self) -> dict[str, str]:
        features = self._lib.llama_print_system_info().decode().strip(" |")
        return {
            "name": "llama-cpp-python",
            "version": self._lib.__version__,
            "features": " ".join(part.split("=")[0].strip().split()[-1] for part in features.split("|")),
        }

    def open(self, path: str, *, threads: int, n_ctx: int, n_outputs: int) -> dict[str, Any]:
        lib = self._lib
        self._load_model(path)
        for flash in (True, False):
            context = self._new_context(threads, n_ctx, flash)
            if context:
                self._contexts[flash] = context
        if not self._contexts:
            raise RuntimeError(f"llama-cpp-python cannot make a context: {self._last_error()}")
        self._use(next(iter(self._contexts)))
        return {"threads": threads, "n_ctx": lib.llama_n_ctx(self._ctx)}

    def choose(self, kind: str, ids: list[int], fill: int) -> dict[str, Any]:
        """Keep the faster setting of flash attention for this kind of work ("decode", "prefill" or "tn")."""
        work: dict[str, Callable[[], float]] = {
            "decode": lambda: self.decode(ids, fill)["seconds"],
            "prefill": lambda: self.prefill(ids)["seconds"],
            "tn": lambda: self._widths_time(ids, fill),
        }
        times: dict[bool, list[float]] = {flash: [] for flash in self._contexts}
        for attempt in range(3):
            for flash in times:
                self._use(flash)
                seconds = work[kind]()
                if attempt > 0:  # the first is warm-up
                    times[flash].append(seconds)
        best = {flash: min(found) for flash, found in times.items()}
        chosen = min(best, key=lambda flash: best[flash])
        for flash in list(self._contexts):
            if flash != chosen:
                self._lib.llama_free(self._contexts.pop(flash))
        self._use(chosen)
        return {"flash_attention": chosen, "seconds": {"on" if k else "off": v for k, v in best.items()}}

    def append(self, tokens: Sequence[int], rows: str) -> None:
        lib, ctx = self._lib, self._ctx
        for at in range(0, len(tokens), N_BATCH):
            part = tokens[at : at + N_BATCH]
            is_last = at + len(part) == len(tokens)
            status = lib.llama_decode(
                ctx, self._batch.fill(part, self._end, rows if rows != "last" or is_last else "none")
            )
            if status:
                raise RuntimeError(f"llama_decode returned {status}: {self._last_error()}")
            self._end += len(part)
        lib.llama_synchronize(ctx)

    def drop(self, position: int) -> None:
        if position == 0:
            self._lib.llama_memory_clear(self._memory, False)
        elif not self._lib.llama_memory_seq_rm(self._memory, 0, position, -1):
            raise RuntimeError("llama-cpp-python cannot drop tokens of this model")
        self._end = position

    def best(self) -> int:
        address = ctypes.cast(self._lib.llama_get_logits_ith(self._ctx, -1), ctypes.c_void_p).value or 0
        view = self._views.get(address)
        if view is None:
            import numpy as np

            row = (ctypes.c_float * self._n_vocab).from_address(address)
            view = self._views[address] = np.frombuffer(row, dtype=np.float32)
        return int(view.argmax())

    def is_end(self, token: int) -> bool:
        return bool(self._lib.llama_vocab_is_eog(self._vocab, token))

    def load(self, path: str, *, threads: int, n_ctx: int, text: str, **options: Any) -> dict[str, float]:
        import numpy as np

        np.zeros(8).argmax()  # imported before the clock runs, like everything else
        flash = bool(options.get("flash", True))
        start = perf_counter()
        self._load_model(path)
        self._contexts[flash] = context = self._new_context(threads, n_ctx, flash)
        if not context:
            raise RuntimeError(f"llama-cpp-python cannot make a context: {self._last_error()}")
        self._use(flash)
        loaded = perf_counter()
        data = text.encode()
        ids = (ctypes.c_int32 * (len(data) + 8))()
        n = self._lib.llama_tokenize(self._vocab, data, len(data), ids, len(ids), True, True)
        self.append(ids[:n], "last")
        self.best()
        first = perf_counter()
        return {
            "import_s": self.import_s,
            "load_s": loaded - start,
            "first_token_s": first - start,
            **memory_in_use(),
            "threads": threads,
            "n_ctx": self._lib.llama_n_ctx(self._ctx),
        }

    # ---- inside

    def _load_model(self, path: str) -> None:
        lib = self._lib
        params = lib.llama_model_default_params()
        params.n_gpu_layers = 0
        self._model = lib.llama_model_load_from_file(os.fsencode(path), params)
        if not self._model:
            raise RuntimeError(f"llama-cpp-python cannot load {path}: {self._last_error()}")
        self._vocab = lib.llama_model_get_vocab(self._model)
        self._n_vocab = lib.llama_vocab_n_tokens(self._vocab)

    def _new_context(self, threads: int, n_ctx: int, flash: bool) -> Any:
        lib = self._lib
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_seq_max = n_ctx, N_BATCH, 1
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = (
            lib.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash else lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        return lib.llama_init_from_model(self._model, params)

    def _use(self, flash: bool) -> None:
        self._ctx = self._contexts[flash]
        self._memory = self._lib.llama_get_memory(self._ctx)
        self.drop(0)

    def _widths_time(self, ids: list[int], fill: int) -> float:
        self.hold(ids[:fill])
        return sum(self.width(ids[fill : fill + n])["seconds"] for n in (1, 4, 16))

    def _logged(self, level: int, text: bytes, data: Any) -> None:
        if level >= 3 and text.strip():
            self._errors.append(text.decode("utf-8", "replace").strip())

    def _last_error(self) -> str:
        return self._errors[-1] if self._errors else "it gave no reason"


class Batch:
    """A llama_batch whose constant parts are filled in once, so that filling it costs next to nothing."""

    def __init__(self, lib: Any, n: int) -> None:
        self._zero = (lib.llama_seq_id * 1)(0)
        self._tokens = (lib.llama_token * n)()
        self._positions = (lib.llama_pos * n)()
        self._counts = (ctypes.c_int32 * n)(*([1] * n))
        self._sequences = (ctypes.POINTER(lib.llama_seq_id) * n)(
            *([ctypes.cast(self._zero, ctypes.POINTER(lib.llama_seq_id))] * n)
        )
        self._flags = {
            "none": (ctypes.c_int8 * n)(),
            "last": (ctypes.c_int8 * n)(),
            "all": (ctypes.c_int8 * n)(*([1] * n)),
        }
        self._struct = lib.llama_batch(
            n_tokens=0,
            token=self._tokens,
            embd=None,
            pos=self._positions,
            n_seq_id=self._counts,
            seq_id=self._sequences,
            logits=self._flags["all"],
        )
        self._flagged = 0

    def fill(self, tokens: Sequence[int], position: int, rows: str) -> Any:
        """The batch of these tokens at consecutive positions; rows is "none", "last" or "all"."""
        n = len(tokens)
        self._tokens[:n] = tokens
        self._positions[:n] = range(position, position + n)
        flags = self._flags[rows]
        if rows == "last":
            flags[self._flagged] = 0
            flags[n - 1] = 1
            self._flagged = n - 1
        self._struct.n_tokens = n
        self._struct.logits = flags
        return self._struct
