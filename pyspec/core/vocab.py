"""The vocabulary of a model file as Python data: texts, types, special ids.

Filled by ``Model`` from the packed buffers of ``pyspec_model_get_vocab``. Plain data: no tokenizer library is touched
here, and an instance never changes after it was made, so threads may share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise


class TokenType(IntEnum):
    """Type of a token; the numbers are those of ``tokenizer.ggml.token_type`` and of ``pyspec_token_type``."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(slots=True, frozen=True)
class Vocab:
    """One vocabulary. Special ids are -1 when there is none.

    Attributes:
        kind: ``tokenizer.ggml.model``: "gpt2" (byte-level BPE), "llama" (SentencePiece BPE), ...
        pre: ``tokenizer.ggml.pre``, "" when the file has no such key.
        texts: text of each token as stored (byte alphabet for BPE, U+2581 for a space in SPM).
        types: ``TokenType`` of each token, after the end-of-generation corrections.
        scores: score of each token (SPM); empty means all 0.
        merges: merge rules "left right", best first (BPE).
        add_bos, add_eos, add_space_prefix: the file's key, or else the default of the kind.
        eog: every token that ends a generation.
        name: ``general.name``; some tokenizer quirks are bound to it.
        meta: scalar ``tokenizer.*`` keys of the file under their full names.
    """

    kind: str
    pre: str
    texts: Sequence[bytes]
    types: Sequence[int]
    scores: Sequence[float] = ()
    merges: Sequence[bytes] = ()
    bos: int = -1
    eos: int = -1
    eot: int = -1
    eom: int = -1
    unk: int = -1
    sep: int = -1
    pad: int = -1
    mask: int = -1
    fim_pre: int = -1
    fim_suf: int = -1
    fim_mid: int = -1
    fim_pad: int = -1
    fim_rep: int = -1
    fim_sep: int = -1
    add_bos: bool = False
    add_eos: bool = False
    add_space_prefix: bool = False
    eog: frozenset[int] = frozenset()
    name: str = ""
    meta: Mapping[str, object] = field(default_factory=dict)

    @property
    def n_tokens(self) -> int:
        return len(self.texts)


def unpack(buffer: bytes | memoryview, offsets: Sequence[int]) -> list[bytes]:
    """Cut a packed buffer into its entries: entry i is ``buffer[offsets[i]:offsets[i + 1]]``.

    ``offsets`` has one number more than there are entries; anything indexable that yields Python integers when iterated
    will do (pass ``array.tolist()`` for a NumPy array: iterating the array itself is ten times slower).
    """
    data = bytes(buffer)
    return [data[a:b] for a, b in pairwise(offsets)]
