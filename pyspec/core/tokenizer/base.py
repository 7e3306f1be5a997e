"""What every tokenizer does, whatever its kind: special tokens, BOS and EOS, decoding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from pyspec.core.tokenizer.pieces import Pieces
from pyspec.core.tokenizer.special import SpecialTokens
from pyspec.core.tokenizer.utf8 import to_bytes
from pyspec.core.vocab import Vocab
from pyspec.errors import FileFormatError


class Tokenizer(ABC):
    """Text to token ids and back, with the ids llama.cpp gives.

    Immutable after construction; threads may share one.

    Attributes:
        vocab: the vocabulary it was made from.
        bos, eos: ids that ``encode`` adds, -1 for none.
        add_bos, add_eos: whether ``encode(add_special=True)`` adds them: the file's key, else the default of the
            pre-tokenizer, else that of the kind.
    """

    def __init__(
        self, vocab: Vocab, *, bos: int, add_bos: bool, add_eos: bool, decode_text: Callable[[bytes], bytes]
    ) -> None:
        self.vocab = vocab
        self.bos = bos
        self.eos = vocab.eos
        self.add_bos = add_bos
        self.add_eos = add_eos
        self._special = SpecialTokens(vocab)
        self._pieces = Pieces(vocab, decode_text)

    def encode(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        """Token ids of ``text``.

        Args:
            text: any text. Bytes need not be valid UTF-8; they are never refused, and every kind reads them as llama.cpp
                does. BPE: a byte that starts no character is read as U+FFFD (one per byte; over-long forms are read as
                the character they spell, surrogates keep their three bytes), so the text does not come back from
                ``decode``. SPM: the first byte of a character decides how many bytes belong to it, and a group that is no
                character becomes byte tokens. Lone surrogates of a str count as their three bytes.
            add_special: add BOS and EOS where the vocabulary wants them. A BOS already in the text is not noticed.
            parse_special: the text of control tokens stands for the token. Without it such text is plain text; only
                user-defined tokens are always recognised.

        Raises:
            FileFormatError: the file wants a BOS or EOS token added but names none.
        """
        ids: list[int] = []
        if add_special and self.add_bos:
            ids.append(self._wanted(self.bos, "BOS"))
        for part in self._special.split(to_bytes(text), parse_special):
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += self._encode_raw(part)
        if add_special and self.add_eos:
            ids.append(self._wanted(self.eos, "EOS"))
        return ids

    def encode_continuation(self, text: str | bytes) -> list[int]:
        """Token ids of text that goes on after other tokens: nothing is added, no BOS and no space in front.

        The tokens before it are not known, so a first word that the tokenizer would have joined to them stays apart.
        """
        ids: list[int] = []
        for part in self._special.split(to_bytes(text), False):
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += self._encode_middle(part)
        return ids

    def decode(self, ids: Iterable[int], *, special: bool = False, continuation: bool = False) -> bytes:
        """Bytes of a token sequence; may end inside a character when the sequence does.

        SPM vocabularies put a space in front of a text. It is taken off again when it is the first thing in the text (a
        leading BOS that prints nothing may stand before it), so that ``decode(encode(text))`` is the text. With
        ``continuation`` the tokens go on after others and every space stays. Nothing else is changed: spaces before
        punctuation, which llama.cpp removes when it decodes whole texts of some vocabularies, stay.

        Args:
            ids: token ids. Raises OptionError for one outside the vocabulary.
            special: give the text of control and unknown tokens too.
            continuation: the tokens continue a text.
        """
        ids = list(ids)
        if continuation or not self.vocab.add_space_prefix:
            return b"".join([self.piece(i, special) for i in ids])
        start = 1 if ids and not special and self.add_bos and ids[0] == self.bos else 0
        pieces = [self.piece(i, special) for i in ids[start:]]
        if pieces:
            pieces[0] = pieces[0].removeprefix(b" ")
        return b"".join(pieces)

    def piece(self, token: int, special: bool = False) -> bytes:
        """Bytes of one token, see ``decode``; a leading space is kept. A character may be spread over several tokens.

        Control and unknown tokens give nothing unless ``special``. Raises OptionError for an id outside the vocabulary.
        """
        return self._pieces.get(token, special)

    def pieces(self) -> list[bytes]:
        """``piece`` of every token, by id. Computed at once, which is much faster than one by one."""
        return self._pieces.all()

    def _encode_middle(self, data: bytes) -> list[int]:
        """Like ``_encode_raw`` for a text that follows ordinary tokens."""
        return self._encode_raw(data)

    @abstractmethod
    def _encode_raw(self, data: bytes) -> list[int]:
        """Ids of a text without special tokens; it starts the whole text or follows a special token."""

    def _wanted(self, token: int, name: str) -> int:
        if token < 0:
            raise FileFormatError(
                f"the file wants {name} added to texts but has no {name} token; pass add_special=False"
            )
        return token


def bool_key(vocab: Vocab, key: str) -> bool | None:
    """A boolean ``tokenizer.ggml.*`` key of the file; None when it has none."""
    value = vocab.meta.get(f"tokenizer.ggml.{key}")
    return None if value is None else bool(value)
