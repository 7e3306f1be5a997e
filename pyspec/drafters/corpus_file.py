"""Corpus files: tokenised documents on disk for drafters to copy from.

    write_corpus("project.corpus", [tokens_of_a, tokens_of_b], model.vocab)
    corpus = read_corpus("project.corpus", model.vocab)
    LLM(path, drafters=[Suffix(corpora=[corpus], end_tokens=model.vocab.eog)])

`LLM(path, corpora=["project.corpus"])` does the reading, `pyspec-cli corpus` the writing. Tokenise each document in the
form in which it will be generated: code as it stands inside a fenced block, with the newline before its first word.

A corpus made with another tokenizer has valid ids with meaningless text, so the file carries a fingerprint of
the vocabulary and is refused when it does not match.

Layout, little endian: magic (8 bytes), version u32, bytes of a token u32 (4), fingerprint (32 bytes), number
of documents u64, number of tokens u64; then the end of each document as u64, counted in tokens; then the
tokens as i32. Nothing may follow.
"""

from __future__ import annotations

import hashlib
import os
import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pyspec.core.vocab import Vocab
from pyspec.errors import FileFormatError, OptionError

__all__ = ["Corpus", "fingerprint", "is_corpus", "read_corpus", "write_corpus"]

MAGIC = b"pyspecTC"
VERSION = 1
#: What the automaton of one corpus takes: about 90 bytes of memory each.
MAX_TOKENS = 2**24

_HEAD = struct.Struct("<8sII32sQQ")
_SPECIALS = (
    "bos", "eos", "eot", "eom", "unk", "sep", "pad", "mask",
    "fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents as one array of ids; document i is tokens[ends[i-1]:ends[i]]."""

    tokens: array[int]
    ends: list[int]

    @property
    def documents(self) -> list[list[int]]:
        """The documents one by one."""
        return [self.tokens[a:b].tolist() for a, b in pairwise([0, *self.ends])]


def fingerprint(vocab: Vocab) -> bytes:
    """SHA-256 over what decides the meaning of ids: kind, pieces with types, merges, pre-tokenizer, special ids."""
    digest = hashlib.sha256()

    def add(items: Sequence[bytes]) -> None:
        digest.update(struct.pack("<Q", len(items)))
        digest.update(struct.pack(f"<{len(items)}I", *map(len, items)))
        digest.update(b"".join(items))

    add([vocab.kind.encode(), vocab.pre.encode()])
    add([bytes(text) for text in vocab.texts])
    add([bytes(merge) for merge in vocab.merges])
    digest.update(struct.pack(f"<{len(vocab.types)}i", *map(int, vocab.types)))
    specials = [int(getattr(vocab, name)) for name in _SPECIALS]
    flags = [vocab.add_bos, vocab.add_eos, vocab.add_space_prefix]
    digest.update(struct.pack(f"<{len(specials)}i3?", *specials, *flags))
    ends = sorted(vocab.eog)
    digest.update(struct.pack(f"<{len(ends)}i", *ends))
    return digest.digest()


def is_corpus(path: str | os.PathLike[str]) -> bool:
    """Does the file begin as a corpus does? OSError when it cannot be opened."""
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def write_corpus(path: str | os.PathLike[str], documents: Iterable[Sequence[int]], vocab: Vocab) -> Corpus:
    """Write documents (token ids of vocab); the file appears complete or not at all. Returns what was written.

    Errors: OptionError for ids outside the vocabulary or too many tokens; OSError.
    """
    tokens = array("i")
    ends: list[int] = []
    for document in documents:
        try:
            tokens.extend(document)
        except (TypeError, OverflowError) as error:
            raise OptionError(f"document {len(ends)} is not a list of token ids: {error}") from None
        ends.append(len(tokens))
        if len(tokens) > MAX_TOKENS:
            raise OptionError(
                f"the first {len(ends)} documents have {len(tokens)} tokens, a corpus holds at most {MAX_TOKENS}; split it"
            )
    if tokens and not 0 <= min(tokens) <= max(tokens) < vocab.n_tokens:
        raise OptionError(
            f"token ids from {min(tokens)} to {max(tokens)}, the vocabulary has {vocab.n_tokens}"
        )
    head = _HEAD.pack(MAGIC, VERSION, 4, fingerprint(vocab), len(ends), len(tokens))
    target = Path(path)
    part = target.with_name(f"{target.name}.part-{os.getpid()}")
    try:
        with part.open("wb") as file:
            file.write(head)
            file.write(struct.pack(f"<{len(ends)}Q", *ends))
            file.write(_little_endian(tokens).tobytes())
        part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    return Corpus(tokens, ends)


def read_corpus(path: str | os.PathLike[str], vocab: Vocab) -> Corpus:
    """Read what `write_corpus` wrote for the same vocabulary.

    Errors: FileFormatError for anything else, OSError when the file cannot be opened.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size or not head.startswith(MAGIC):
            raise FileFormatError(f"{path} is not a corpus file (it does not begin with {MAGIC.decode()})")
        _, version, width, print_of, n_documents, n_tokens = _HEAD.unpack(head)
        if (version, width) != (VERSION, 4):
            raise FileFormatError(
                f"{path} has version {version} with {width} bytes a token, this pyspec reads version "
                f"{VERSION} with 4; write it again"
            )
        if print_of != fingerprint(vocab):
            raise FileFormatError(
                f"{path} was made with another tokenizer (fingerprint {print_of.hex()[:16]}, this model's "
                f"is {fingerprint(vocab).hex()[:16]}); tokenise its documents again with this model"
            )
        expected = _HEAD.size + 8 * n_documents + 4 * n_tokens
        if n_tokens > MAX_TOKENS or size != expected:
            raise FileFormatError(
                f"{path} has {size} bytes; {n_documents} documents with {n_tokens} tokens (at most "
                f"{MAX_TOKENS}) need {expected}"
            )
        ends = list(struct.unpack(f"<{n_documents}Q", file.read(8 * n_documents)))
        tokens = array("i")
        tokens.frombytes(file.read(4 * n_tokens))
    tokens = _little_endian(tokens)
    if ends != sorted(ends) or (ends[-1] if ends else 0) != n_tokens or len(tokens) != n_tokens:
        raise FileFormatError(
            f"{path} is damaged: the ends of its documents do not fit its {n_tokens} tokens"
        )
    if tokens and not 0 <= min(tokens) <= max(tokens) < vocab.n_tokens:
        raise FileFormatError(
            f"{path} is damaged: ids from {min(tokens)} to {max(tokens)}, the vocabulary has {vocab.n_tokens}"
        )
    return Corpus(tokens, ends)


def _little_endian(tokens: array[int]) -> array[int]:
    if sys.byteorder == "big":
        tokens = tokens[:]
        tokens.byteswap()
    return tokens
