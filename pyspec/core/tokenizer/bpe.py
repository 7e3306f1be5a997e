"""Byte-level BPE on top of the `tokenizers` library."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import add, itemgetter
from typing import TYPE_CHECKING

from pyspec.core.tokenizer.base import Tokenizer, bool_key
from pyspec.core.tokenizer.pieces import byte_alphabet, undo_byte_alphabet
from pyspec.core.tokenizer.pretokenizers import PreTokenizer, find_pretokenizer
from pyspec.core.tokenizer.utf8 import lenient_decode
from pyspec.core.vocab import Vocab

if TYPE_CHECKING:
    import tokenizers

# Stands in for a lone surrogate while a text is cut into words: no expression tells the two apart.
_STAND_IN = "\ue000"


class BpeTokenizer(Tokenizer):
    """GPT-2 style BPE: words by regular expressions, bytes as printable characters, merges by rank.

    Texts that llama.cpp can form but the vocabulary does not hold (a byte's character, or the result of a merge rule) get
    ids behind the vocabulary inside the library, and are replaced afterwards by what llama.cpp emits for them. Dropping
    them before merging, as the library would, makes their neighbours merge.
    """

    def __init__(self, vocab: Vocab) -> None:
        from tokenizers import models

        pre = find_pretokenizer(vocab.pre)
        add_bos = bool_key(vocab, "add_bos_token")
        if add_bos is None:
            add_bos = vocab.add_bos if pre.add_bos is None else pre.add_bos
        named = pre.default_bos or "tokenizer.ggml.bos_token_id" in vocab.meta
        super().__init__(
            vocab,
            bos=vocab.bos if named else -1,
            add_bos=add_bos,
            add_eos=vocab.add_eos,
            decode_text=undo_byte_alphabet,
        )
        self._alphabet = byte_alphabet()
        self._splitter = _splitter(pre)
        self._whole_words: dict[str, int] = {}
        ids, merges = _text_ids(vocab), _merge_pairs(vocab)
        missing = _number_texts([c for c in self._alphabet if c not in ids], vocab.n_tokens)
        ignore_merges = pre.ignore_merges
        if not _all_known(ids, merges):
            missing = _number_texts(list(missing) + _formed_texts(ids, merges), vocab.n_tokens)
            if ignore_merges:  # the library would find the added texts as whole words too
                self._whole_words = ids
                ignore_merges = False
        model = models.BPE(vocab=ids | missing, merges=merges, ignore_merges=ignore_merges)
        self._expansion = {i: _spell(ids, text) for text, i in missing.items()}
        self._library = _pipeline(model, self._splitter)

    def _encode_raw(self, data: bytes) -> list[int]:
        text, whole = lenient_decode(data)
        if whole and not self._whole_words:
            ids = self._library.encode(text, add_special_tokens=False).ids
        else:
            ids = self._encode_words(text)
        if self._expansion:
            expansion = self._expansion
            ids = [j for i in ids for j in expansion.get(i, (i,))]
        return ids

    def _encode_words(self, text: str) -> list[int]:
        """The library's steps one by one: for texts it cannot take and vocabularies it would misread. Slow."""
        ids: list[int] = []
        stand_in = "".join([_STAND_IN if 0xD800 <= ord(c) < 0xE000 else c for c in text])
        for _, (start, end) in self._splitter.pre_tokenize_str(stand_in):
            word = "".join([self._alphabet[b] for b in text[start:end].encode("utf-8", "surrogatepass")])
            whole = self._whole_words.get(word)
            ids += [t.id for t in self._library.model.tokenize(word)] if whole is None else [whole]
        return ids


def _text_ids(vocab: Vocab) -> dict[str, int]:
    """Text -> id. Texts that are not UTF-8 can never be formed and are left out."""
    try:
        return dict(zip(_decode_all(vocab.texts), range(vocab.n_tokens), strict=True))
    except UnicodeDecodeError:
        decoded = ((text.decode("utf-8", "replace"), i, text) for i, text in enumerate(vocab.texts))
        return {string: i for string, i, text in decoded if string.encode("utf-8") == text}


def _merge_pairs(vocab: Vocab) -> list[tuple[str, str]]:
    """Merge rules in order; of equal ones the first counts. Lines that are no rule, or one with a space in a part, which
    no symbol ever has, are left out."""
    lines = list(vocab.merges)
    if len(set(lines)) < len(lines):
        lines = list(dict.fromkeys(lines))
    if set(map(_count_spaces, lines)) <= {1}:  # as good as always, and three times faster than line by line
        try:
            parts = b" ".join(lines).decode("utf-8").split(" ")
        except UnicodeDecodeError:
            parts = [""]
        if "" not in parts:
            return list(zip(parts[::2], parts[1::2], strict=True))
    pairs = []
    for line in lines:
        at = line.find(b" ")
        if 0 < at < len(line) - 1 and line.count(b" ") == 1:
            pairs.append((line[:at].decode("utf-8", "replace"), line[at + 1 :].decode("utf-8", "replace")))
    return pairs


def _count_spaces(line: bytes) -> int:
    return line.count(b" ")


def _decode_all(texts: Sequence[bytes]) -> list[str]:
    """Every text decoded; in one go, because 150,000 calls take a tenth of a second."""
    separator = "\0"
    strings = separator.encode().join(texts).decode("utf-8").split(separator)
    return strings if len(strings) == len(texts) else [text.decode("utf-8") for text in texts]


def _all_known(ids: dict[str, int], merges: list[tuple[str, str]]) -> bool:
    """Whether the parts and results of all merge rules are tokens. The library fails, and not gracefully, if not."""
    left, right = map(itemgetter(0), merges), map(itemgetter(1), merges)
    parts, results = chain.from_iterable(merges), map(add, left, right)
    return all(map(ids.__contains__, chain(parts, results)))


def _formed_texts(ids: dict[str, int], merges: list[tuple[str, str]]) -> list[str]:
    """Parts and results of merge rules that are no tokens."""
    return [text for left, right in merges for text in (left, right, left + right) if text not in ids]


def _number_texts(texts: list[str], first_free: int) -> dict[str, int]:
    return {text: first_free + i for i, text in enumerate(dict.fromkeys(texts))}


def _spell(ids: dict[str, int], text: str) -> tuple[int, ...]:
    """What llama.cpp emits for a symbol that is no token: the single-byte texts among its UTF-8 bytes."""
    return tuple(ids[c] for c in text if c.isascii() and c in ids)


def _splitter(pre: PreTokenizer) -> tokenizers.pre_tokenizers.PreTokenizer:
    from tokenizers import Regex, pre_tokenizers

    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated") for regex in pre.regexes])


def _pipeline(
    model: tokenizers.models.BPE, splitter: tokenizers.pre_tokenizers.PreTokenizer
) -> tokenizers.Tokenizer:
    from tokenizers import Tokenizer, pre_tokenizers

    library = Tokenizer(model)
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.pre_tokenizer = pre_tokenizers.Sequence([splitter, to_bytes])
    return library
