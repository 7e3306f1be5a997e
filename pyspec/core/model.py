"""A loaded GGUF model: weights, vocabulary, metadata. Immutable; share it between contexts and threads."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspec._native import check, lib
from pyspec._native.jobs import CancelToken, run_cancellable
from pyspec.errors import ClosedError, ForkError

if TYPE_CHECKING:
    from types import TracebackType

    from pyspec.core.dry import PieceSearch
    from pyspec.core.tokenizer.base import Tokenizer
    from pyspec.core.vocab import Vocab

__all__ = ["Model", "ModelInfo"]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Facts about a model. Per-layer values are those of layer 0; bytes count all parts of a split file.

    packed_bytes: of the matrices in the form of the fast kernels. kernels: the instruction set that computes attention and
    the products with those.
    """

    architecture: str
    name: str
    n_vocab: int
    n_embd: int
    n_layer: int
    n_head: int
    n_head_kv: int
    n_ff: int
    n_ctx_train: int
    n_expert: int
    n_expert_used: int
    sliding_window: int
    n_params: int
    file_bytes: int
    weight_bytes: int
    packed_bytes: int
    kernels: str


class Model:
    """Open a GGUF file (for a split model: its first part).

    Args:
        path: the file.
        device: "cpu"; anything else is refused with the reason.
        use_mmap: map the weights that are not packed (default) or read them. A mapped file must not be cut short while in use;
            replacing it by renaming is fine.
        metadata_only: read keys, tensor table and vocabulary only. Enough for `info`, `tokenizer`, memory estimates and
            pair checks; contexts cannot be made.
        pack_weights: copy the matrices into the form of the fast kernels (default). False computes on the file's bytes:
            twice as slow (prompts five to eight times), but a mapped file then needs no memory of its own.
        kernels: instruction set of the fast kernels: "auto" (the best of this processor), "avx512_vnni", "avx2_vnni",
            "avx2" or "portable".
        progress: called on this thread with the fraction done, 0..1.
        cancel: cancels the loading from another thread.

    Raises FileFormatError, UnsupportedError, OptionError, OutOfMemoryError, CancelledError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        device: str = "cpu",
        use_mmap: bool = True,
        metadata_only: bool = False,
        pack_weights: bool = True,
        kernels: str = "auto",
        progress: Callable[[float], None] | None = None,
        cancel: CancelToken | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self.metadata_only = metadata_only
        self._handle: Any = None
        self._pid = os.getpid()
        self._ffi, self._lib = ffi, library = lib()

        device_text = ffi.new("char[]", device.encode())
        kernels_text = ffi.new("char[]", kernels.encode())
        params = ffi.new("pyspec_model_params *")
        library.pyspec_model_params_default(params, ffi.sizeof("pyspec_model_params"))
        params.device = device_text
        params.use_mmap = use_mmap
        params.metadata_only = metadata_only
        params.pack_weights = pack_weights
        params.kernels = kernels_text
        out = ffi.new("pyspec_model **")

        def load(job: Any) -> int:
            return int(library.pyspec_model_load(os.fsencode(self.path), params, job, out))

        try:
            run_cancellable(load, progress=progress, cancel=cancel)
        finally:
            if out[0] != ffi.NULL:
                self._handle = ffi.gc(out[0], library.pyspec_model_free)

    @property
    def handle(self) -> Any:
        """The cffi handle; raises ClosedError / ForkError."""
        if self._handle is None:
            raise ClosedError(f"the model {self.path} has been closed")
        if self._pid != os.getpid():
            raise ForkError("this model was opened before fork(); open it again in the child process")
        return self._handle

    def close(self) -> None:
        """Let go of the weights. They are freed when the last context on this model is closed too."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._ffi.release(handle)
        for cached in ("vocab", "tokenizer", "piece_search", "_description"):  # tens of megabytes
            self.__dict__.pop(cached, None)

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Model({self.path!r})"

    @cached_property
    def info(self) -> ModelInfo:
        """Sizes and names."""
        info = self._ffi.new("pyspec_model_info *")
        check(self._lib.pyspec_model_get_info(self.handle, info, self._ffi.sizeof("pyspec_model_info")))

        def text(pointer: Any) -> str:
            return bytes(self._ffi.string(pointer)).decode("utf-8", "replace")

        numbers = {
            name: int(getattr(info, name))
            for name in ModelInfo.__dataclass_fields__
            if name not in ("architecture", "name", "kernels")
        }
        return ModelInfo(
            architecture=text(info.architecture), name=text(info.name), kernels=text(info.kernels), **numbers
        )

    @cached_property
    def _description(self) -> dict[str, Any]:
        raw = bytes(self._ffi.string(self._lib.pyspec_model_json(self.handle)))
        description: dict[str, Any] = json.loads(raw.decode("utf-8", "surrogateescape"))
        return description

    @property
    def metadata(self) -> dict[str, Any]:
        """Every key of the file. Arrays of more than 64 elements are shown as {"array": type, "length": n}."""
        metadata: dict[str, Any] = self._description["metadata"]
        return metadata

    @property
    def tensors(self) -> list[dict[str, Any]]:
        """The tensor table: name, type, shape (ggml order), bytes, part."""
        tensors: list[dict[str, Any]] = self._description["tensors"]
        return tensors

    def meta_str(self, key: str) -> bytes | None:
        """Bytes of a string key, however long, or None when the key is absent or not a string."""
        length = self._ffi.new("size_t *")
        pointer = self._lib.pyspec_model_meta_str(self.handle, key.encode(), length)
        return None if pointer == self._ffi.NULL else bytes(self._ffi.buffer(pointer, length[0]))

    @cached_property
    def vocab(self) -> Vocab:
        """The vocabulary. Raises UnsupportedError when the file has none."""
        from pyspec.core.vocab import Vocab, unpack

        ffi = self._ffi
        v = ffi.new("pyspec_vocab *")
        check(self._lib.pyspec_model_get_vocab(self.handle, v, ffi.sizeof("pyspec_vocab")))

        def packed(text: Any, offsets: Any, n: int) -> list[bytes]:
            if n == 0:
                return []
            ends = list(ffi.unpack(offsets, n + 1))
            return unpack(bytes(ffi.buffer(text, ends[-1])) if ends[-1] else b"", ends)

        specials = (
            "bos", "eos", "eot", "eom", "unk", "sep", "pad", "mask",
            "fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep",
        )  # fmt: skip
        return Vocab(
            kind=ffi.string(v.kind).decode("utf-8", "replace"),
            pre=ffi.string(v.pre).decode("utf-8", "replace"),
            texts=packed(v.text, v.text_offset, v.n_tokens),
            types=list(ffi.unpack(v.types, v.n_tokens)),
            scores=list(ffi.unpack(v.scores, v.n_tokens)),
            merges=packed(v.merges, v.merges_offset, v.n_merges),
            add_bos=bool(v.add_bos),
            add_eos=bool(v.add_eos),
            add_space_prefix=bool(v.add_space_prefix),
            eog=frozenset(ffi.unpack(v.eog, v.n_eog)) if v.n_eog else frozenset(),
            name=self.info.name,
            meta={
                key: value
                for key, value in self.metadata.items()
                if key.startswith("tokenizer.") and not isinstance(value, (dict, list))
            },
            **{name: int(getattr(v, name)) for name in specials},
        )

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Text to tokens and back. Raises UnsupportedError for tokenizer kinds that pyspec does not know."""
        from pyspec.core.tokenizer import make_tokenizer

        return make_tokenizer(self.vocab)

    @cached_property
    def piece_search(self) -> PieceSearch:
        """Finds the tokens whose text contains a string; made when first asked for."""
        from pyspec.core.dry import PieceSearch

        return PieceSearch(self.tokenizer)

    def token_piece(self, token: int, *, special: bool = False) -> bytes:
        """Bytes of one token as text; control tokens give nothing unless `special`. b"" for ids outside the vocabulary."""
        buffer = self._ffi.new("char[]", 256)
        n = self._lib.pyspec_token_piece(self.handle, token, special, buffer, 256)
        if n > 256:
            buffer = self._ffi.new("char[]", n)
            self._lib.pyspec_token_piece(self.handle, token, special, buffer, n)
        return bytes(self._ffi.buffer(buffer, n)) if n > 0 else b""

    def is_eog(self, token: int) -> bool:
        """Does this token end a generation?"""
        return bool(self._lib.pyspec_token_is_eog(self.handle, token))
