"""Small but real vocabularies: byte-level BPE with learnt merges, and SentencePiece-style pieces with
scores."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

from .families import Hyper

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6

SPACE = "\u2581"

# What the merges are learnt from; any text will do.
CORPUS = """
The quick brown fox jumps over the lazy dog. The cat sat on the mat, and then the other cat sat there too.
Once upon a time there was a little model that could not count. It said one, two, three,
and then it said one again. She said that the thing they thought about was there all along;
nothing in the world could have been further away.
def add(left, right):
    return left + right
for index in range(10):
    print(index, add(index, index))
In 2024 there were 365 days, or 366 in a leap year. Das ist nicht alles, aber es ist genug.
日本語の文章です。 naïve café
"""

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PHI_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
GEMMA_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ '<start_of_turn>' + "
    "('model' if message['role'] == 'assistant' else message['role']) + '\n' + "
    "message['content'] + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)


@dataclass
class Vocabulary:
    """tokenizer.ggml.* of a tiny model."""

    model: str
    pre: str
    texts: list[str] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    scores: list[float] | None = None
    merges: list[str] | None = None
    scalars: list[tuple[str, str, Any]] = field(default_factory=list)  # (key, GGUF type, value)
    template: str | None = None

    def add(self, text: str, kind: int = NORMAL, score: float = 0.0) -> int:
        self.texts.append(text)
        self.types.append(kind)
        if self.scores is not None:
            self.scores.append(score)
        return len(self.texts) - 1


@lru_cache(maxsize=1)
def byte_alphabet() -> tuple[str, ...]:
    """GPT-2's printable stand-in for every byte."""
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, extra = {}, 0
    for byte in range(256):
        if byte in keep:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(0x100 + extra)
            extra += 1
    return tuple(table[b] for b in range(256))


def learn_merges(words: Counter[tuple[str, ...]], n: int) -> list[tuple[str, str]]:
    """Plain byte-pair learning: the most frequent pair first, ties by text, so that the result is the same
    everywhere."""
    merges: list[tuple[str, str]] = []
    while len(merges) < n:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        best = max(pairs, key=lambda p: (pairs[p], p))
        merges.append(best)
        merged: Counter[tuple[str, ...]] = Counter()
        for word, count in words.items():
            out, i = [], 0
            while i < len(word):
                if i + 1 < len(word) and (word[i], word[i + 1]) == best:
                    out.append(word[i] + word[i + 1])
                    i += 2
                else:
                    out.append(word[i])
                    i += 1
            merged[tuple(out)] += count
        words = merged
    return merges


@lru_cache(maxsize=1)
def _bpe_merges() -> tuple[tuple[str, str], ...]:
    alphabet = byte_alphabet()
    words: Counter[tuple[str, ...]] = Counter()
    for i, word in enumerate(CORPUS.split()):
        text = word if i == 0 else " " + word
        words[tuple(alphabet[b] for b in text.encode())] += 1
    return tuple(learn_merges(words, 120))


@lru_cache(maxsize=1)
def _spm_pieces() -> tuple[str, ...]:
    words = Counter(tuple(SPACE + word) for word in CORPUS.split())
    merged = [left + right for left, right in learn_merges(words, 90)]
    letters = sorted({c for word in words for c in word})
    return tuple(dict.fromkeys([*merged, *letters]))


def _bpe(h: Hyper) -> Vocabulary:
    v = Vocabulary("gpt2", h.pre)
    for text in byte_alphabet():
        v.add(text)
    v.merges = []
    known = set(v.texts)
    for left, right in _bpe_merges():
        v.merges.append(f"{left} {right}")
        if left + right not in known:
            known.add(left + right)
            v.add(left + right)
    end = v.add("<|endoftext|>", CONTROL)
    start = v.add("<|im_start|>", CONTROL)
    stop = v.add("<|im_end|>", CONTROL)
    v.add("<|tool|>", USER_DEFINED)
    qwen = h.pre == "qwen2"
    v.scalars = [
        ("bos_token_id", "u32", end if qwen else start),
        ("eos_token_id", "u32", stop),
        ("padding_token_id", "u32", end),
        ("add_bos_token", "bool", not qwen),
    ]
    v.template = CHATML
    return v


def _pieces(v: Vocabulary) -> None:
    for byte in range(256):
        v.add(f"<0x{byte:02X}>", BYTE)
    for rank, piece in enumerate(_spm_pieces()):
        v.add(piece, NORMAL, -float(rank))


def _spm(h: Hyper) -> Vocabulary:
    """The layout of Llama 2 and Phi-3 files."""
    v = Vocabulary("llama", h.pre, scores=[])
    unk, bos, eos = v.add("<unk>", UNKNOWN), v.add("<s>", CONTROL), v.add("</s>", CONTROL)
    _pieces(v)
    v.add("<|endoftext|>", CONTROL)
    for text in ("<|user|>", "<|assistant|>", "<|system|>"):
        v.add(text, USER_DEFINED)
    end = v.add("<|end|>", CONTROL)
    v.scalars = [
        ("bos_token_id", "u32", bos),
        ("eos_token_id", "u32", end if h.arch == "phi3" else eos),
        ("unknown_token_id", "u32", unk),
        ("add_bos_token", "bool", True),
        ("add_eos_token", "bool", False),
    ]
    v.template = PHI_TEMPLATE
    return v


def _gemma(h: Hyper) -> Vocabulary:
    v = Vocabulary("llama", h.pre, scores=[])
    pad, eos, bos = v.add("<pad>", CONTROL), v.add("<eos>", CONTROL), v.add("<bos>", CONTROL)
    unk = v.add("<unk>", UNKNOWN)
    v.add("<start_of_turn>", CONTROL)
    v.add("<end_of_turn>", CONTROL)
    for text in ("\n", "\n\n", SPACE * 2, SPACE * 3, SPACE * 4, "<unused0>"):
        v.add(text, USER_DEFINED)
    _pieces(v)
    v.scalars = [
        ("bos_token_id", "u32", bos),
        ("eos_token_id", "u32", eos),
        ("unknown_token_id", "u32", unk),
        ("padding_token_id", "u32", pad),
        ("add_bos_token", "bool", True),
        ("add_eos_token", "bool", False),
        ("add_space_prefix", "bool", False),
    ]
    v.template = GEMMA_TEMPLATE
    return v


def make_vocabulary(h: Hyper) -> Vocabulary:
    return {"bpe": _bpe, "spm": _spm, "gemma": _gemma}[h.vocab](h)
