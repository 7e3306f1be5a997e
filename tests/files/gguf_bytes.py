"""GGUF files written byte by byte, right or wrong on purpose. Uses nothing but the standard library, so that a
mistake of a GGUF library cannot hide one of ours."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_FORMATS = {
    U8: "B",
    I8: "b",
    U16: "H",
    I16: "h",
    U32: "I",
    I32: "i",
    F32: "f",
    BOOL: "?",
    U64: "Q",
    I64: "q",
    F64: "d",
}

TENSOR_F32 = 0


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def value_bytes(kind: int, value: object) -> bytes:
    if kind == STRING:
        assert isinstance(value, (str, bytes))
        return text(value)
    return struct.pack("<" + _FORMATS[kind], value)


@dataclass
class GgufFile:
    """The parts of a file; `build` puts them together. Counts may be set to lie, entries may be raw bytes."""

    version: int = 3
    alignment: int = 32
    magic: bytes = b"GGUF"
    keys: list[bytes] = field(default_factory=list)
    entries: list[bytes] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)
    starts: list[int] = field(default_factory=list)  # of each tensor inside the data section
    n_keys: int | None = None
    n_tensors: int | None = None

    def key(self, name: str, kind: int, value: object) -> GgufFile:
        self.keys.append(text(name) + struct.pack("<i", kind) + value_bytes(kind, value))
        return self

    def array(self, name: str, kind: int, values: Sequence[object]) -> GgufFile:
        payload = b"".join(value_bytes(kind, value) for value in values)
        self.keys.append(text(name) + struct.pack("<iiQ", ARRAY, kind, len(values)) + payload)
        return self

    def drop(self, name: str) -> GgufFile:
        self.keys = [key for key in self.keys if not key.startswith(text(name))]
        return self

    def tensor(self, name: str, shape: Sequence[int], kind: int, data: bytes) -> GgufFile:
        """Shape in ggml order, first number contiguous."""
        self.data += bytes(-len(self.data) % self.alignment)
        offset = len(self.data)
        self.starts.append(offset)
        dims = struct.pack(f"<I{len(shape)}q", len(shape), *shape)
        self.entries.append(text(name) + dims + struct.pack("<iQ", kind, offset))
        self.data += data
        return self

    def header(self) -> bytes:
        n_tensors = len(self.entries) if self.n_tensors is None else self.n_tensors
        n_keys = len(self.keys) if self.n_keys is None else self.n_keys
        start = self.magic + struct.pack("<Iqq", self.version, n_tensors, n_keys)
        return start + b"".join(self.keys) + b"".join(self.entries)

    def build(self) -> bytes:
        header = self.header()
        return header + bytes(-len(header) % self.alignment) + bytes(self.data)

    def boundaries(self) -> list[int]:
        """Offsets where a section, a key, a table entry or a tensor begins or ends; the end of the file excluded."""
        offsets = [0, 4, 8, 16, 24]
        at = 24
        for piece in [*self.keys, *self.entries]:
            at += len(piece)
            offsets.append(at)
        data_start = at + -at % self.alignment
        offsets += [data_start + start for start in self.starts]
        return sorted(set(offsets))


def byte_alphabet() -> list[str]:
    """The 256 characters in which byte-level vocabularies write bytes, by byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b) if b in printable else chr(next(others)) for b in range(256)]


@dataclass(frozen=True)
class Sizes:
    """Of the tiny llama."""

    embd: int = 32
    heads: int = 2
    heads_kv: int = 1
    ff: int = 64
    layers: int = 1


def llama_keys(file: GgufFile, sizes: Sizes = Sizes()) -> GgufFile:
    """Metadata and vocabulary of the tiny llama: 256 byte tokens, one merge, a start and an end token."""
    file.key("general.architecture", STRING, "llama").key("general.name", STRING, "tiny").key(
        "general.alignment", U32, 32
    )
    for name, value in (
        ("context_length", 512),
        ("embedding_length", sizes.embd),
        ("block_count", sizes.layers),
        ("feed_forward_length", sizes.ff),
        ("attention.head_count", sizes.heads),
        ("attention.head_count_kv", sizes.heads_kv),
        ("rope.dimension_count", sizes.embd // sizes.heads),
    ):
        file.key(f"llama.{name}", U32, value)
    file.key("llama.attention.layer_norm_rms_epsilon", F32, 1e-5).key("llama.rope.freq_base", F32, 10000.0)
    tokens = [*byte_alphabet(), "ab", "<s>", "<|im_end|>"]
    file.key("tokenizer.ggml.model", STRING, "gpt2").key("tokenizer.ggml.pre", STRING, "gpt-2")
    file.array("tokenizer.ggml.tokens", STRING, tokens).array(
        "tokenizer.ggml.token_type", I32, [1] * 257 + [3, 3]
    )
    file.array("tokenizer.ggml.merges", STRING, ["a b"])
    file.key("tokenizer.ggml.bos_token_id", U32, 257).key("tokenizer.ggml.eos_token_id", U32, 258)
    return file.key("tokenizer.ggml.add_bos_token", BOOL, False)


def llama_tensors(sizes: Sizes = Sizes()) -> list[tuple[str, tuple[int, ...]]]:
    """Names and shapes; the output matrix is tied to the embedding."""
    kv = sizes.embd // sizes.heads * sizes.heads_kv
    shapes: list[tuple[str, tuple[int, ...]]] = [
        ("token_embd.weight", (sizes.embd, 259)),
        ("output_norm.weight", (sizes.embd,)),
    ]
    for i in range(sizes.layers):
        shapes += [
            (f"blk.{i}.attn_norm.weight", (sizes.embd,)),
            (f"blk.{i}.attn_q.weight", (sizes.embd, sizes.embd)),
            (f"blk.{i}.attn_k.weight", (sizes.embd, kv)),
            (f"blk.{i}.attn_v.weight", (sizes.embd, kv)),
            (f"blk.{i}.attn_output.weight", (sizes.embd, sizes.embd)),
            (f"blk.{i}.ffn_norm.weight", (sizes.embd,)),
            (f"blk.{i}.ffn_gate.weight", (sizes.embd, sizes.ff)),
            (f"blk.{i}.ffn_up.weight", (sizes.embd, sizes.ff)),
            (f"blk.{i}.ffn_down.weight", (sizes.ff, sizes.embd)),
        ]
    return shapes


def random_f32(shape: Sequence[int], seed: str) -> bytes:
    count = 1
    for n in shape:
        count *= n
    generator = random.Random(seed)
    return struct.pack(f"<{count}f", *(generator.uniform(-0.3, 0.3) for _ in range(count)))


def tiny_llama(sizes: Sizes = Sizes()) -> GgufFile:
    """A complete model of about 75 kB that loads and decodes."""
    file = llama_keys(GgufFile(), sizes)
    for name, shape in llama_tensors(sizes):
        file.tensor(name, shape, TENSOR_F32, random_f32(shape, name))
    return file


def split_llama(n_parts: int) -> list[bytes]:
    """The tiny llama with two layers, in parts. Only the first has the metadata."""
    sizes = Sizes(layers=2)
    shapes = llama_tensors(sizes)
    parts = []
    for no in range(n_parts):
        file = llama_keys(GgufFile(), sizes) if no == 0 else GgufFile()
        file.key("split.no", U16, no).key("split.count", U16, n_parts).key(
            "split.tensors.count", I32, len(shapes)
        )
        for name, shape in shapes[no::n_parts]:
            file.tensor(name, shape, TENSOR_F32, random_f32(shape, name))
        parts.append(file.build())
    return parts
