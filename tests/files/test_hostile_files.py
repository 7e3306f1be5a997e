"""Wrong files give typed errors with a useful message, whatever is wrong with them: no crash, no leak.

The native tests go through every byte and bit of the container; here the whole way from Python is taken: loading,
hyper-parameters, contexts, and the model as target and as draft.
"""

from __future__ import annotations

import gc
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspec._native import build_info
from pyspec.core.context import Context
from pyspec.core.model import Model
from pyspec.errors import FileFormatError, OptionError, OutOfMemoryError, PyspecError, UnsupportedError

from .gguf_bytes import (
    BOOL,
    F32,
    I32,
    STRING,
    TENSOR_F32,
    U16,
    U32,
    U64,
    GgufFile,
    llama_keys,
    llama_tensors,
    random_f32,
    split_llama,
    text,
    tiny_llama,
)

MODES = [
    pytest.param({"metadata_only": True}, id="metadata"),
    pytest.param({"use_mmap": True}, id="mmap"),
    pytest.param({"use_mmap": False}, id="read"),
]

NOT_MODELS = {
    "empty": (b"", "is empty (0 bytes)"),
    "three_bytes": (b"GGU", "too short to be a model"),
    "html": (b"<!DOCTYPE html>\n<html><body>Sign in</body></html>", "web page"),
    "old_ggml": (b"lmgg" + bytes(range(200)), "old GGML model"),
    "old_ggjt": (struct.pack("<II", 0x67676A74, 3) + bytes(500), "old GGML model"),
    "zip": (b"PK\x03\x04" + bytes(500), "zip archive"),
    "lfs_pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    "safetensors": (struct.pack("<Q", 90) + b'{"model.embed_tokens.weight":{}}' + bytes(90), "safetensors"),
    "zeros": (bytes(100_000), "starts with zeros"),
    "big_endian": (b"GGUF" + struct.pack(">Iqq", 3, 0, 0) + bytes(100), "big-endian"),
    "version_1": (b"GGUF" + struct.pack("<III", 1, 0, 0) + bytes(100), "GGUF version 1"),
}


def open_model(path: Path, **options: Any) -> Model:
    return Model(path, **options)


def expect(error: type[PyspecError], part: str, path: Path, **options: bool) -> PyspecError:
    with pytest.raises(error) as caught:
        open_model(path, **options)
    message = str(caught.value)
    assert part in message
    assert str(path) in message
    assert "\n" not in message
    return caught.value


def decode_some(model: Model) -> bytes:
    """Logits of two tokens, as bytes."""
    with Context(model, n_ctx=64, n_threads=1) as context:
        context.decode([97, 98])
        return bytes(context.logits(0).tobytes())


def test_the_good_file_is_good(good_path: Path) -> None:
    """Or the tests below would prove nothing."""
    with Model(good_path) as mapped, Model(good_path, use_mmap=False) as read:
        assert mapped.info.n_vocab == 259
        assert mapped.info.file_bytes == good_path.stat().st_size
        assert decode_some(mapped) == decode_some(read)
        assert mapped.token_piece(256) == b"ab"
        assert mapped.is_eog(258) and not mapped.is_eog(257)


# ------------------------------------------------------------------------------------------------- not a model (C097)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", NOT_MODELS)
def test_not_a_model(kind: str, mode: dict[str, bool], tmp_path: Path) -> None:
    """C097 (abetlen/llama-cpp-python#755, ggml-org/llama.cpp#2629, augmentedmike/miniclaw-os#495)."""
    content, hint = NOT_MODELS[kind]
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    error = UnsupportedError if kind in ("big_endian", "version_1") else FileFormatError
    message = str(expect(error, hint, path, **mode))
    if error is FileFormatError:
        assert f"{len(content)} bytes" in message
        assert not content or f"first bytes '{chr(content[0])}" in message or "first bytes '\\x" in message


@pytest.mark.parametrize("mode", MODES)
def test_no_file_there(mode: dict[str, bool], tmp_path: Path) -> None:
    """C097 (abetlen/llama-cpp-python#755): a missing path, a folder, a dangling link, a pipe."""
    expect(FileFormatError, "no such file", tmp_path / "absent.gguf", **mode)
    expect(FileFormatError, "is a directory", tmp_path, **mode)
    (tmp_path / "link.gguf").symlink_to(tmp_path / "gone.gguf")
    expect(FileFormatError, "link to a file that does not exist", tmp_path / "link.gguf", **mode)
    os.mkfifo(tmp_path / "pipe.gguf")
    expect(FileFormatError, "not a regular file", tmp_path / "pipe.gguf", **mode)


def test_path_with_any_characters(good: GgufFile, tmp_path: Path) -> None:
    odd = tmp_path / "größe 模型 🤖.gguf"
    odd.write_bytes(good.build())
    Model(odd).close()
    odd.write_bytes(b"x" * 100)
    expect(FileFormatError, "not a GGUF file", odd)


@pytest.mark.parametrize("kind", ["missing", "directory", "empty", "three_bytes", "html", "old_ggml"])
def test_bad_draft(kind: str, good_path: Path, tmp_path: Path) -> None:
    """C097 (ggml-org/llama.cpp#2629): the same as draft; the target is fine and can be used afterwards."""
    from pyspec.llm.llm import LLM

    bad = tmp_path / "draft.gguf"
    if kind == "directory":
        bad.mkdir()
    elif kind != "missing":
        bad.write_bytes(NOT_MODELS[kind][0])
    with pytest.raises(FileFormatError) as caught:
        LLM(good_path, draft=bad)
    assert str(bad) in str(caught.value)
    with LLM(good_path, n_ctx=64) as llm:
        assert llm.generate("ab", max_tokens=2, temperature=0).tokens


def test_failures_leak_nothing(good: GgufFile, tmp_path: Path) -> None:
    """C097 (abetlen/llama-cpp-python#755): neither files nor memory, however often it is tried."""
    bytes_ = good.build()
    paths = []
    for name, content in {
        "html": NOT_MODELS["html"][0],
        "header": bytes_[: len(good.header()) // 2],
        "data": bytes_[:-1],
        "arch": tiny_llama()
        .drop("general.architecture")
        .key("general.architecture", STRING, "made-up")
        .build(),
    }.items():
        paths.append(tmp_path / f"{name}.gguf")
        paths[-1].write_bytes(content)

    def fail_often(n: int) -> None:
        for i in range(n):
            for path in paths:
                with pytest.raises(PyspecError):
                    Model(path, use_mmap=i % 2 == 0)
        gc.collect()

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    fail_often(20)
    files, memory = len(os.listdir("/proc/self/fd")), resident()
    fail_often(150)
    assert len(os.listdir("/proc/self/fd")) == files
    # The address sanitizer keeps freed memory for a while, 256 MB by default.
    allowed = (300 if build_info()["sanitize"] else 8) << 20
    assert resident() - memory < allowed


# ----------------------------------------------------------------------------------------------------- cut short (C100)


def test_cut_at_every_boundary(good: GgufFile, tmp_path: Path, count_cases: Callable[[int], None]) -> None:
    """C100 (oobabooga/textgen#6080): each section, key, table entry and tensor, one byte before and after as well."""
    content = good.build()
    boundaries = good.boundaries()
    assert len(boundaries) > 30
    cuts = sorted({cut for at in boundaries for cut in (at - 1, at, at + 1) if 0 <= cut < len(content)})
    path = tmp_path / "cut.gguf"
    path.write_bytes(content)
    for cut in reversed(cuts):
        os.truncate(path, cut)
        for options in ({"metadata_only": True}, {"use_mmap": True}, {"use_mmap": False}):
            expect(FileFormatError, "", path, **options)
    count_cases(3 * len(cuts))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
def test_download_cut_short(share: float, mode: dict[str, bool], good: GgufFile, tmp_path: Path) -> None:
    """C100 (oobabooga/textgen#6080): the header is complete, the tensor data is not."""
    content = good.build()
    size = int(len(content) * share) if share < 1 else len(content) - 1
    assert size > len(good.header())
    path = tmp_path / "cut.gguf"
    path.write_bytes(content[:size])
    error = expect(FileFormatError, "the file is cut short", path, **mode)
    assert str(size) in str(error) and str(len(content)) in str(error)


def test_cut_while_open(good: GgufFile, good_path: Path) -> None:
    """C100 (oobabooga/textgen#6080): a mapped file that shrinks would be a bus error at the next access."""
    unpacked = {"pack_weights": False}  # packed weights leave nothing in the file
    with Model(good_path, **unpacked) as mapped, Model(good_path, use_mmap=False, **unpacked) as read:
        before = decode_some(read)
        with Context(mapped, n_ctx=64, n_threads=1) as context:
            context.decode([97])
            os.truncate(good_path, len(good.header()) + 100)
            with pytest.raises(FileFormatError, match="while it was open"):
                context.decode([98])
        assert decode_some(read) == before
    with pytest.raises(FileFormatError):
        Model(good_path)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_truncated_real_model(mode: dict[str, bool], truncated_7b: Path) -> None:
    """C100 (oobabooga/textgen#6080): the first 95 MB of a real 7B file."""
    error = expect(FileFormatError, "the file is cut short", truncated_7b, **mode)
    assert "99614720" in str(error)


# ------------------------------------------------------------------------------------------------------------ bit flips


def flip_and_use(content: bytes, bit: int, path: Path) -> bool:
    """True when the file with this bit flipped still loads (and then it must decode, or be refused with a typed error)."""
    flipped = bytearray(content)
    flipped[bit // 8] ^= 1 << bit % 8
    path.write_bytes(flipped)
    # Unlinked and new each time: a model of an earlier round may still be mapped.
    try:
        with Model(path) as model:
            assert len(model.tensors) > 0 and model.info.n_vocab > 0
            model.token_piece(5)
            decode_some(model)
    except (FileFormatError, UnsupportedError, OptionError, OutOfMemoryError) as error:
        assert str(error)
        return False
    finally:
        path.unlink()
    return True


def check_flips(good: GgufFile, bits: list[int], path: Path) -> tuple[int, int]:
    content = good.build()
    read = sum(flip_and_use(content, bit, path) for bit in bits)
    return read, len(bits) - read


def test_flipped_bits(good: GgufFile, tmp_path: Path, count_cases: Callable[[int], None]) -> None:
    """A seeded sample over the header and the tensor table; then every bit of the hyper-parameters' values."""
    header = good.header()
    bits = random.Random(2024).sample(range(len(header) * 8), 600)
    for key in good.keys:
        if key[8:].startswith((b"llama.", b"general.alignment")):
            end = header.index(key) + len(key)
            bits += range((end - 4) * 8, end * 8)
    read, refused = check_flips(good, bits, tmp_path / "flip.gguf")
    assert read > 50 and refused > 50  # both kinds are in the sample
    count_cases(len(bits))


@pytest.mark.long
def test_every_flipped_bit(good: GgufFile, tmp_path: Path, count_cases: Callable[[int], None]) -> None:
    """Every bit of header and table, all the way to a decode."""
    bits = list(range(len(good.header()) * 8))
    read, refused = check_flips(good, bits, tmp_path / "flip.gguf")
    assert read + refused == len(bits)
    count_cases(len(bits))


# --------------------------------------------------------------------------------------------------- numbers that lie


HUGE = [2**31, 2**32 + 1, 2**40, 2**61 + 1, 2**62, 2**63 - 1]


@pytest.mark.parametrize("count", HUGE)
def test_huge_counts(count: int, good: GgufFile, tmp_path: Path) -> None:
    """Nothing is reserved on the word of a count; the message says what was declared."""
    path = tmp_path / "huge.gguf"

    def write(file: GgufFile) -> Path:
        path.write_bytes(file.build())
        return path

    for mode in ({"metadata_only": True}, {"use_mmap": True}):
        keys, tensors = tiny_llama(), tiny_llama()
        keys.n_keys = count
        tensors.n_tensors = count
        expect(FileFormatError, str(count), write(keys), **mode)
        expect(FileFormatError, str(count), write(tensors), **mode)
        for element in (U16, F32, U64, STRING):
            lie = tiny_llama()
            lie.keys.insert(1, text("lie") + struct.pack("<iiQ", 9, element, count))
            expect(FileFormatError, str(count), write(lie), **mode)
        lie = tiny_llama()
        lie.keys.insert(1, text("lie") + struct.pack("<iQ", STRING, count))
        expect(FileFormatError, str(count), write(lie), **mode)
        lie = tiny_llama()
        lie.keys.insert(1, struct.pack("<Q", count) + b"name")
        expect(FileFormatError, "key of", write(lie), **mode)
        shape = tiny_llama()
        shape.entries[-1] = text("big") + struct.pack("<IqqiQ", 2, count, count, TENSOR_F32, 0)
        expect(FileFormatError, "tensor 'big'", write(shape), **mode)


# ----------------------------------------------------------------------------------------- files this build cannot serve


def test_unknown_architecture(tmp_path: Path) -> None:
    path = tmp_path / "arch.gguf"
    path.write_bytes(
        tiny_llama().drop("general.architecture").key("general.architecture", STRING, "made-up").build()
    )
    for mode in ({"metadata_only": True}, {"use_mmap": True}):
        with pytest.raises(UnsupportedError, match=r"'made-up'.*llama.*qwen2"):
            open_model(path, **mode)
    path.write_bytes(tiny_llama().drop("general.architecture").build())
    expect(FileFormatError, "'general.architecture' is missing", path)
    path.write_bytes(tiny_llama().drop("general.architecture").key("general.architecture", U32, 7).build())
    expect(FileFormatError, "has type u32, expected string", path)


@pytest.mark.parametrize("kind", [-1, 4, 5, 9, 15, 24, 26, 28, 31, 33, 36, 38, 42, 200, 2**31 - 1])
def test_tensor_types_without_product(kind: int, tmp_path: Path) -> None:
    """Unknown, removed, and those that only hold integers or activations."""
    file = llama_keys(GgufFile())
    for name, shape in llama_tensors():
        file.tensor(
            name, shape, kind if name == "blk.0.attn_q.weight" else TENSOR_F32, random_f32(shape, name) * 2
        )
    path = tmp_path / "type.gguf"
    path.write_bytes(file.build())
    if kind in (9, 15):  # blocks of 32 and 256: the name is what matters
        with pytest.raises((UnsupportedError, FileFormatError), match=r"blk\.0\.attn_q\.weight"):
            Model(path)
    else:
        expect(UnsupportedError, "blk.0.attn_q.weight", path)


@pytest.mark.parametrize(
    "name",
    [name for name, _ in llama_tensors()]
    + ["llama.embedding_length", "llama.block_count", "tokenizer.ggml.tokens"],
)
def test_missing_part_is_named(name: str, tmp_path: Path) -> None:
    file = llama_keys(GgufFile()).drop(name)
    for tensor, shape in llama_tensors():
        if tensor != name:
            file.tensor(tensor, shape, TENSOR_F32, random_f32(shape, tensor))
    path = tmp_path / "part.gguf"
    path.write_bytes(file.build())
    expect(FileFormatError, name, path)


def test_wrong_kind_of_value_is_named(tmp_path: Path) -> None:
    path = tmp_path / "kind.gguf"
    for key, kind, value, expected in (
        ("llama.embedding_length", U64, 32, "u32"),
        ("llama.attention.layer_norm_rms_epsilon", U32, 1, "f32"),
        ("tokenizer.ggml.add_bos_token", U32, 1, "bool"),
        ("tokenizer.ggml.eos_token_id", I32, 1, "u32"),
        ("tokenizer.ggml.model", BOOL, True, "string"),
    ):
        path.write_bytes(tiny_llama().drop(key).key(key, kind, value).build())
        error = expect(FileFormatError, key, path)
        assert f"expected {expected}" in str(error)


# --------------------------------------------------------------------------------------------------- split files (C099)


@pytest.fixture
def split_paths(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"tiny-{i + 1:05d}-of-00003.gguf" for i in range(3)]
    for path, content in zip(paths, split_llama(3), strict=True):
        path.write_bytes(content)
    return paths


def test_split_model_loads(split_paths: list[Path]) -> None:
    """C099 (lemonade-sdk/lemonade#499): opening the first part loads all."""
    from .gguf_bytes import Sizes

    whole = split_paths[0].with_name("whole.gguf")
    whole.write_bytes(tiny_llama(Sizes(layers=2)).build())
    with Model(split_paths[0]) as split, Model(split_paths[0], use_mmap=False) as read, Model(whole) as one:
        assert split.info.file_bytes == sum(path.stat().st_size for path in split_paths)
        assert split.info.weight_bytes == one.info.weight_bytes
        assert {tensor["part"] for tensor in split.tensors} == {0, 1, 2}
        assert decode_some(split) == decode_some(read) == decode_some(one)


@pytest.mark.parametrize("mode", MODES)
def test_split_model_mistakes(mode: dict[str, bool], split_paths: list[Path]) -> None:
    """C099 (lemonade-sdk/lemonade#499, ggml-org/llama.cpp#9613): a later part first, a part missing, parts joined."""
    first, second, third = split_paths
    for number, path in ((2, second), (3, third)):
        error = expect(FileFormatError, f"is part {number} of 3", path, **mode)
        assert str(first) in str(error)
    joined = first.with_name("joined.gguf")
    joined.write_bytes(b"".join(path.read_bytes() for path in split_paths))
    expect(FileFormatError, "--merge", joined, **mode)
    joined.rename(first.with_name("joined-00001-of-00003.gguf"))
    expect(FileFormatError, "--merge", first.with_name("joined-00001-of-00003.gguf"), **mode)
    renamed = first.with_name("renamed.gguf")
    renamed.write_bytes(first.read_bytes())
    expect(FileFormatError, "rename the parts", renamed, **mode)

    content = third.read_bytes()
    third.write_bytes(content[:-1])
    with pytest.raises(FileFormatError, match="the file is cut short") as caught:
        open_model(first, **mode)
    assert str(third) in str(caught.value)
    third.write_bytes(second.read_bytes())
    with pytest.raises(FileFormatError, match="is not part 3 of 3"):
        open_model(first, **mode)
    third.unlink()
    error = expect(FileFormatError, "1 of the 3 parts", first, **mode)
    assert str(third) in str(error)
