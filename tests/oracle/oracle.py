"""llama.cpp as the reference for logits and text, through llama-cpp-python's low-level API.

In-process and silent. One Oracle is one model with one context of one sequence. Never used by the package
itself."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]

# ggml type numbers of the K/V cache
CACHE_TYPES = {"f32": 0, "f16": 1, "q8_0": 8, "bf16": 30}

# The library rotates quantised caches by a Hadamard matrix unless this is set; neutral in exact arithmetic,
# but visible. Read when a context is made.
os.environ["LLAMA_ATTN_ROT_DISABLE"] = "1"

_silence: Any = None  # keeps the callback alive


def oracle_version() -> str:
    return version("llama-cpp-python")


def _library() -> Any:
    global _silence
    import llama_cpp

    if _silence is None:
        _silence = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(_silence, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
    return llama_cpp


class Oracle:
    """A model file and one context.

    kv          "f32", "f16", "bf16" or "q8_0" for K and V
    flash       flash attention; needed for a quantised V
    n_ubatch    tokens computed together
    repack      let the backend repack quantised weights (faster, another order of sums)
    """

    def __init__(
        self,
        path: str | Path,
        *,
        n_ctx: int = 1024,
        kv: str = "f32",
        flash: bool = False,
        n_threads: int = 1,
        n_batch: int = 2048,
        n_ubatch: int = 512,
        repack: bool = False,
        vocab_only: bool = False,
    ) -> None:
        lib = self._lib = _library()
        self._model: Any = None
        self._ctx: Any = None
        params = lib.llama_model_default_params()
        params.n_gpu_layers = 0
        params.use_extra_bufts = repack
        params.vocab_only = vocab_only
        self._model = lib.llama_model_load_from_file(os.fsencode(path), params)
        if not self._model:
            raise RuntimeError(f"the oracle cannot load {path}")
        self._vocab = lib.llama_model_get_vocab(self._model)
        self.n_vocab: int = lib.llama_vocab_n_tokens(self._vocab)
        self.n_ctx = n_ctx
        if vocab_only:
            return
        c = lib.llama_context_default_params()
        c.n_ctx, c.n_batch, c.n_ubatch, c.n_seq_max = n_ctx, n_batch, n_ubatch, 1
        c.n_threads = c.n_threads_batch = n_threads
        c.type_k = c.type_v = CACHE_TYPES[kv]
        c.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash else lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        c.offload_kqv = c.op_offload = False
        c.swa_full = True
        self._ctx = lib.llama_init_from_model(self._model, c)
        if not self._ctx:
            raise RuntimeError(f"the oracle cannot make a context for {path}")
        self._batch = lib.llama_batch_init(n_batch, 0, 1)
        self._memory = lib.llama_get_memory(self._ctx)
        self.n_batch = n_batch

    def decode(self, tokens: Sequence[int], *, start: int | None = None, chunk: int | None = None) -> Logits:
        """Append tokens and return the logits of each: (len(tokens), n_vocab). `start` sets the first
        position, `chunk` the number of tokens per call."""
        position = self.pos_max + 1 if start is None else start
        step = min(chunk or self.n_batch, self.n_batch)
        rows = []
        for i in range(0, len(tokens), step):
            part = tokens[i : i + step]
            b = self._batch
            b.n_tokens = len(part)
            for j, token in enumerate(part):
                b.token[j] = token
                b.pos[j] = position + i + j
                b.n_seq_id[j] = 1
                b.seq_id[j][0] = 0
                b.logits[j] = 1
            status = self._lib.llama_decode(self._ctx, b)
            if status:
                raise RuntimeError(f"the oracle's decode returned {status}")
            pointer = ctypes.cast(self._lib.llama_get_logits(self._ctx), ctypes.POINTER(ctypes.c_float))
            rows.append(np.ctypeslib.as_array(pointer, (len(part), self.n_vocab)).copy())
        return np.concatenate(rows)

    @property
    def pos_max(self) -> int:
        return int(self._lib.llama_memory_seq_pos_max(self._memory, 0))

    def seq_rm(self, p0: int, p1: int) -> bool:
        return bool(self._lib.llama_memory_seq_rm(self._memory, 0, p0, p1))

    def seq_add(self, p0: int, p1: int, delta: int) -> None:
        """Move positions; K follows at the next decode."""
        self._lib.llama_memory_seq_add(self._memory, 0, p0, p1, delta)

    def clear(self) -> None:
        self._lib.llama_memory_clear(self._memory, True)

    def state(self) -> bytes:
        size = self._lib.llama_state_get_size(self._ctx)
        buffer = (ctypes.c_uint8 * size)()
        written = self._lib.llama_state_get_data(self._ctx, buffer, size)
        return bytes(buffer[:written])

    def restore(self, state: bytes) -> None:
        buffer = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        if self._lib.llama_state_set_data(self._ctx, buffer, len(state)) != len(state):
            raise RuntimeError("the oracle refused its own state")

    def greedy(self, prompt: Sequence[int], n: int) -> list[int]:
        """n tokens of arg-max decoding (ties to the lowest id), end tokens included and not obeyed. Starts
        from empty."""
        self.clear()
        out: list[int] = []
        row = self.decode(prompt)[-1]
        while len(out) < n:
            out.append(int(np.argmax(row)))
            if len(out) < n:
                row = self.decode(out[-1:])[-1]
        return out

    def tokenize(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        data = text.encode() if isinstance(text, str) else text
        room = len(data) + 16
        ids = (ctypes.c_int32 * room)()
        n = self._lib.llama_tokenize(self._vocab, data, len(data), ids, room, add_special, parse_special)
        if n < 0:
            room = -n
            ids = (ctypes.c_int32 * room)()
            n = self._lib.llama_tokenize(self._vocab, data, len(data), ids, room, add_special, parse_special)
        return list(ids[:n])

    def piece(self, token: int, *, special: bool = True) -> bytes:
        buffer = ctypes.create_string_buffer(256)
        n = self._lib.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, special)
        if n < 0:
            buffer = ctypes.create_string_buffer(-n)
            n = self._lib.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, special)
        return buffer.raw[:n]

    def is_eog(self, token: int) -> bool:
        return bool(self._lib.llama_vocab_is_eog(self._vocab, token))

    def close(self) -> None:
        if self._ctx is not None:
            self._lib.llama_batch_free(self._batch)
            self._lib.llama_free(self._ctx)
            self._ctx = None
        if self._model:
            self._lib.llama_model_free(self._model)
            self._model = None

    def __enter__(self) -> Oracle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
