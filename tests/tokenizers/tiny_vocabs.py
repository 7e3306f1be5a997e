"""Small hand-made vocabularies, and a way to put any Vocab into a GGUF file so that the oracle can read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pyspec.core.tokenizer.pieces import byte_alphabet
from pyspec.core.vocab import TokenType, Vocab

ALPHABET = byte_alphabet()
Extra = Sequence[tuple[str, TokenType]]


def bpe_vocab(
    merges: Iterable[str], extra: Extra = (), *, without: str = "", pre: str = "gpt-2", **fields: Any
) -> Vocab:
    """All 256 byte characters but ``without``, the results of ``merges`` ("a b" lines) but those in the list
    ``missing``, then ``extra`` tokens."""
    merges = list(merges)
    missing = fields.pop("missing", ())
    texts = [c for c in ALPHABET if c not in without]
    results = (line[0] + line[1:].replace(" ", "", 1) for line in merges)
    texts += [t for t in dict.fromkeys(results) if t not in missing and t not in texts]
    types = [TokenType.NORMAL] * len(texts) + [kind for _, kind in extra]
    texts += [text for text, _ in extra]
    return Vocab(
        kind="gpt2",
        pre=pre,
        texts=[t.encode() for t in texts],
        types=types,
        merges=[m.encode() for m in merges],
        **fields,
    )


def spm_vocab(
    pieces: Iterable[tuple[str, float]], extra: Extra = (), *, byte_tokens: bool = True, **fields: Any
) -> Vocab:
    """<unk>, <s>, </s>, the byte tokens, then ``pieces`` with scores, then ``extra`` tokens with score 0."""
    texts = ["<unk>", "<s>", "</s>"]
    types = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL]
    scores = [0.0] * 3
    if byte_tokens:
        texts += [f"<0x{value:02X}>" for value in range(256)]
        types += [TokenType.BYTE] * 256
        scores += [0.0] * 256
    for text, score in pieces:
        texts.append(text)
        types.append(TokenType.NORMAL)
        scores.append(score)
    for text, kind in extra:
        texts.append(text)
        types.append(kind)
        scores.append(0.0)
    defaults: dict[str, Any] = {"bos": 1, "eos": 2, "unk": 0, "add_bos": True, "add_space_prefix": True}
    return Vocab(
        kind="llama",
        pre="",
        texts=[t.encode() for t in texts],
        types=types,
        scores=scores,
        **{**defaults, **fields},
    )


def write_gguf(vocab: Vocab, path: Path) -> Path:
    """A vocabulary-only file for ``vocab``: its lists, name, BOS, EOS and the keys in ``meta``."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(vocab.kind)
    if vocab.pre:
        writer.add_tokenizer_pre(vocab.pre)
    if vocab.name:
        writer.add_name(vocab.name)
    writer.add_token_list(list(vocab.texts))
    writer.add_token_types(list(vocab.types))
    if vocab.kind == "llama":
        writer.add_token_scores(list(vocab.scores))
        writer.add_add_space_prefix(vocab.add_space_prefix)
    else:
        writer.add_token_merges([m.decode() for m in vocab.merges])
    if vocab.bos >= 0:
        writer.add_bos_token_id(vocab.bos)
    if vocab.eos >= 0:
        writer.add_eos_token_id(vocab.eos)
    for key, value in vocab.meta.items():
        assert isinstance(value, bool), key
        writer.add_bool(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def token_id(vocab: Vocab, text: str) -> int:
    return list(vocab.texts).index(text.encode())


def token_texts(vocab: Vocab, ids: Iterable[int]) -> list[str]:
    return [vocab.texts[i].decode() for i in ids]
