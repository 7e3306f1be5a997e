"""llama.cpp's tokenizer through llama-cpp-python's low-level functions: the oracle of these tests."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

_keep: list[Any] = []  # the log callback must outlive every call


def _quiet(llama: Any) -> None:
    if not _keep:
        _keep.append(llama.llama_log_callback(lambda level, text, data: None))
        llama.llama_log_set(_keep[0], ctypes.c_void_p(0))


class OracleVocab:
    """One vocabulary-only model. ``close`` it."""

    def __init__(self, path: Path) -> None:
        import llama_cpp.llama_cpp as llama

        self._llama = llama
        _quiet(llama)
        llama.llama_backend_init()
        params = llama.llama_model_default_params()
        params.vocab_only = True
        self._model = llama.llama_model_load_from_file(str(path).encode(), params)
        if not self._model:
            raise ValueError(f"llama.cpp does not load {path}")
        self._vocab = llama.llama_model_get_vocab(self._model)
        self._buffer = ctypes.create_string_buffer(4096)
        self.n_tokens: int = llama.llama_vocab_n_tokens(self._vocab)
        self.add_bos: bool = llama.llama_vocab_get_add_bos(self._vocab)
        self.add_eos: bool = llama.llama_vocab_get_add_eos(self._vocab)
        self.bos: int = llama.llama_vocab_bos(self._vocab)
        self.eos: int = llama.llama_vocab_eos(self._vocab)

    def encode(self, data: bytes, add_special: bool = False, parse_special: bool = False) -> list[int]:
        cap = len(data) + 16
        ids = (self._llama.llama_token * cap)()
        n = self._llama.llama_tokenize(self._vocab, data, len(data), ids, cap, add_special, parse_special)
        assert n >= 0, n
        return list(ids[:n])

    def piece(self, token: int, special: bool) -> bytes:
        n = self._llama.llama_token_to_piece(self._vocab, token, self._buffer, 4096, 0, special)
        assert n >= 0, n
        return ctypes.string_at(self._buffer, n)

    def decode(self, ids: list[int], special: bool = False) -> bytes:
        array = (self._llama.llama_token * len(ids))(*ids)
        buffer = ctypes.create_string_buffer(64 + 256 * len(ids))
        n = self._llama.llama_detokenize(self._vocab, array, len(ids), buffer, len(buffer), False, special)
        assert n >= 0, n
        return buffer.raw[:n]

    def is_eog(self, token: int) -> bool:
        return bool(self._llama.llama_vocab_is_eog(self._vocab, token))

    def close(self) -> None:
        if self._model:
            self._llama.llama_model_free(self._model)
            self._model = None
