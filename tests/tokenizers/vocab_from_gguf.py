"""A Vocab straight from a GGUF file, without the C core.

Reads the metadata only (gguf-py takes seconds for 150,000 strings) and applies the rules the core applies: defaults of the
kind, special ids by key or by text, and the type corrections that come with them.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from pyspec.core.vocab import TokenType, Vocab

_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9

# Texts that make a token the special one when the file has no key for it, in order of preference.
_EOT = ["<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>", "_<EOT>",
        "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>"]  # fmt: skip
_FIM = {
    "fim_pre": ["<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>",
                "<|prefix|>"],
    "fim_suf": ["<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>",
                "<|suffix|>"],
    "fim_mid": ["<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>",
                "<|middle|>"],
    "fim_pad": ["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"],
    "fim_rep": ["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"],
    "fim_sep": ["<|file_sep|>"],
}  # fmt: skip
_EOG = [*_EOT, "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "</s>", "<|eom_id|>", "[EOS]", "<eos>", "<turn|>",
        "<|tool_response>", "[e~["]  # fmt: skip
_ID_KEYS = {
    "bos": "bos", "eos": "eos", "eot": "eot", "eom": "eom", "unk": "unknown", "sep": "seperator", "pad": "padding",
    "mask": "mask", **{name: name for name in _FIM},
}  # fmt: skip


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def string(self) -> bytes:
        n = self.number("<Q")
        self.at += n
        return self.data[self.at - n : self.at]

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            return self.number(_SCALARS[kind])
        item, n = self.number("<I"), self.number("<Q")
        if item in (_STRING, _ARRAY):
            return [self.value(item) for _ in range(n)]
        form = f"<{n}{_SCALARS[item][1]}"
        values = list(struct.unpack_from(form, self.data, self.at))
        self.at += struct.calcsize(form)
        return values


def read_metadata(path: Path) -> dict[str, Any]:
    """All keys of a GGUF file; strings as bytes."""
    return {key: value for key, value, _ in _entries(path)}


def _entries(path: Path) -> list[tuple[str, Any, tuple[int, int]]]:
    with open(path, "rb") as file:
        data = file.read(64 << 20)  # metadata of every model used here is far smaller
    reader = _Reader(data)
    assert data[:4] == b"GGUF", path
    reader.at = 16
    out = []
    for _ in range(reader.number("<Q")):
        start = reader.at
        key = reader.string().decode()
        value = reader.value(reader.number("<I"))
        out.append((key, value, (start, reader.at)))
    return out


def write_with_pre(source: Path, target: Path, pre: str) -> None:
    """A vocabulary-only copy of ``source`` with another ``tokenizer.ggml.pre``; "" leaves the key out.

    Keys that would override what comes with the name (BOS, EOS, add_*) are left out too.
    """
    drop = {f"tokenizer.ggml.{k}" for k in ("pre", "add_bos_token", "add_eos_token", "add_space_prefix")}
    with open(source, "rb") as file:
        data = file.read(64 << 20)
    kept = [data[a:b] for key, _, (a, b) in _entries(source) if key not in drop]
    if pre:
        key = b"tokenizer.ggml.pre"
        text = pre.encode()
        kept.append(struct.pack("<Q", len(key)) + key + struct.pack("<IQ", _STRING, len(text)) + text)
    target.write_bytes(data[:8] + struct.pack("<QQ", 0, len(kept)) + b"".join(kept))


def read_vocab(path: Path) -> Vocab:
    meta = read_metadata(path)

    def get(key: str, default: Any = None) -> Any:
        return meta.get(f"tokenizer.ggml.{key}", default)

    kind = get("model", b"").decode()
    texts = [text or b"[EMPTY_%d]" % i for i, text in enumerate(get("tokens"))]
    types = list(get("token_type") or [TokenType.NORMAL] * len(texts))
    spm = kind == "llama"
    ids = dict.fromkeys(_ID_KEYS, -1)
    ids.update({"bos": 1, "eos": 2, "unk": 0} if spm else {"bos": 11, "eos": 11})
    for name, key in _ID_KEYS.items():
        if ids[name] >= len(texts):
            ids[name] = -1
        value = get(f"{key}_token_id")
        if value is not None and value < len(texts):
            ids[name] = value
    eog = _correct_types(texts, types, ids)
    scalars = {k: v for k, v in meta.items() if k.startswith("tokenizer.") and not isinstance(v, list)}
    return Vocab(
        kind=kind,
        pre=get("pre", b"").decode(),
        texts=texts,
        types=types,
        scores=get("scores", []),
        merges=get("merges", []),
        add_bos=get("add_bos_token", spm),
        add_eos=get("add_eos_token", False),
        add_space_prefix=get("add_space_prefix", spm),
        eog=frozenset(eog),
        name=meta.get("general.name", b"").decode("utf-8", "replace"),
        meta=scalars,
        **ids,
    )


def _correct_types(texts: list[bytes], types: list[int], ids: dict[str, int]) -> set[int]:
    where = {text: i for i, text in enumerate(texts)}

    def by_text(candidates: list[str]) -> list[int]:
        return [where[c.encode()] for c in candidates if c.encode() in where]

    for name, candidates in {"eot": _EOT, "eom": ["<|eom_id|>"], **_FIM}.items():
        if ids[name] < 0 and (found := by_text(candidates)):
            ids[name] = found[0]
            types[found[0]] = TokenType.CONTROL
    eog = {ids[name] for name in ("fim_pad", "fim_rep", "fim_sep", "eos", "eot", "eom")} - {-1}
    for i in by_text(_EOG):
        types[i] = TokenType.CONTROL
        eog.add(i)
    for i in by_text(["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"]):
        types[i] = TokenType.USER_DEFINED
    named = {texts[i] for i in eog}
    if {b"<|call|>", b"<|calls|>"} & named and {b"<|return|>", b"<|flush|>"} & named and b"<|end|>" in named:
        eog.discard(where[b"<|end|>"])
        types[where[b"<|end|>"]] = TokenType.USER_DEFINED
    if {b"<|tool_response>", b"<|plamo:eos|>"} & named and b"</s>" in named:
        eog.discard(where[b"</s>"])
        types[where[b"</s>"]] = TokenType.NORMAL
    return eog
