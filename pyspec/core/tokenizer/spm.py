"""SentencePiece BPE ("llama" vocabularies) on top of the `sentencepiece` library."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from struct import pack
from typing import TYPE_CHECKING

from pyspec.core.tokenizer.base import Tokenizer, bool_key
from pyspec.core.tokenizer.pieces import SPACE_MARK, undo_space_mark
from pyspec.core.tokenizer.utf8 import symbol_lengths
from pyspec.core.vocab import TokenType, Vocab
from pyspec.errors import FileFormatError

if TYPE_CHECKING:
    import sentencepiece

# Field values of SentencePiece's model message (sentencepiece_model.proto).
_NORMAL, _UNKNOWN, _BYTE = 1, 2, 6
_MODEL_TYPE_BPE = 2


class SpmTokenizer(Tokenizer):
    """Pieces merged by score, bytes for what is left.

    The library only ever sees text without special tokens. Its model is made so that it merges exactly as llama.cpp does:
    every token except bytes is an ordinary piece (llama.cpp merges into control and unused tokens too), texts are not
    normalised, and white space is neither added nor removed; the space in front is ours.
    """

    def __init__(self, vocab: Vocab) -> None:
        add_bos = bool_key(vocab, "add_bos_token")
        super().__init__(
            vocab,
            bos=vocab.bos,
            add_bos=vocab.add_bos if add_bos is None else add_bos,
            add_eos=vocab.add_eos,
            decode_text=undo_space_mark,
        )
        self._byte_ids = _byte_ids(vocab)
        self._library = _build(vocab, self._byte_ids)

    def _encode_raw(self, data: bytes) -> list[int]:
        if self.vocab.add_space_prefix:
            data = b" " + data
        return self._encode_middle(data)

    def _encode_middle(self, data: bytes) -> list[int]:
        try:
            return self._encode_text(data.decode("utf-8"))
        except UnicodeDecodeError:
            return self._encode_broken(data)

    def _encode_text(self, text: str) -> list[int]:
        ids: list[int] = self._library.encode_as_ids(text)
        if self._byte_ids is None and len(self.vocab.texts) in ids:
            raise FileFormatError(
                "the text has characters outside the vocabulary, which has no byte tokens to spell them"
            )
        return ids

    def _encode_broken(self, data: bytes) -> list[int]:
        """Ids of bytes that are not UTF-8: symbols that are no characters become byte tokens and part what is around."""
        data = data.replace(
            b" ", SPACE_MARK
        )  # first, as llama.cpp does: a broken symbol may swallow part of the mark
        ids: list[int] = []
        run: list[str] = []
        at = 0
        for length in symbol_lengths(data):
            symbol = data[at : at + length]
            at += length
            try:
                run.append(symbol.decode("utf-8"))
            except UnicodeDecodeError:
                ids += self._encode_text("".join(run))
                run.clear()
                ids += self._spell(symbol)
        return ids + self._encode_text("".join(run))

    def _spell(self, symbol: bytes) -> list[int]:
        if self._byte_ids is None:
            raise FileFormatError("the text is not UTF-8 and the vocabulary has no byte tokens to spell it")
        return [self._byte_ids[b] for b in symbol]


def _byte_ids(vocab: Vocab) -> list[int] | None:
    """Ids of the tokens <0x00> to <0xFF>; None unless all are there and of byte type."""
    found = {vocab.texts[i]: i for i, kind in enumerate(vocab.types) if kind == TokenType.BYTE}
    ids = [found.get(b"<0x%02X>" % value, -1) for value in range(256)]
    return None if -1 in ids else ids


def _build(vocab: Vocab, byte_ids: Sequence[int] | None) -> sentencepiece.SentencePieceProcessor:
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model_message(vocab, byte_ids))
    except RuntimeError as error:  # an empty or repeated text
        raise FileFormatError(f"the vocabulary is not usable: {error}") from None
    return processor


def model_message(vocab: Vocab, byte_ids: Sequence[int] | None) -> bytes:
    """SentencePiece's model message for ``vocab``, in protobuf's wire format.

    The message is small enough to write by hand: repeated pieces (text, score, type), the trainer's model type, ids and
    byte fallback, and the normaliser's switches. The library insists on one unknown piece; it is added behind the
    vocabulary (id ``n_tokens``) so that the real one can be an ordinary piece. ``byte_ids`` are the tokens of the bytes 0 to
    255, to which unknown characters fall back.
    """
    n = vocab.n_tokens
    scores = vocab.scores if len(vocab.scores) else repeat(0.0, n)
    types = [_NORMAL] * n
    for i in byte_ids or ():
        types[i] = _BYTE
    out = [_piece(text, score, kind) for text, score, kind in zip(vocab.texts, scores, types, strict=True)]
    out.append(_piece(_unused_text(vocab), 0.0, _UNKNOWN))
    trainer = (
        _number(3, _MODEL_TYPE_BPE)
        + _number(35, int(byte_ids is not None))
        + _number(40, n)  # type, byte_fallback, unk_id
        + b"".join(_number(key, -1) for key in (41, 42, 43))  # bos_id, eos_id, pad_id: none
    )
    # name; then add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces
    normalizer = _message(1, b"identity") + _number(3, 0) + _number(4, 0) + _number(5, 1)
    return b"".join([*out, _message(2, trainer), _message(3, normalizer)])


def _unused_text(vocab: Vocab) -> bytes:
    """A text for the added unknown piece that no token has."""
    taken = set(vocab.texts)
    text = b"<unknown>"
    while text in taken:
        text += b">"
    return text


def _piece(text: bytes, score: float, kind: int) -> bytes:
    body = b"\n" + _varint(len(text)) + text + b"\x15" + pack("<f", score) + b"\x18" + bytes([kind])
    return b"\n" + _varint(len(body)) + body


def _message(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(body)) + body


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & (1 << 64) - 1)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
