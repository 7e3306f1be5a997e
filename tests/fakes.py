"""A fake core: the seam of pyspec.core in pure Python, for tests of everything above it.

The fake "language model" is a hash: the logits of a row depend on the tokens and positions that are really in
the fake memory, so any cache error (a stale cell, a missing or doubled position) changes the answer. With
span=s they depend on the last s tokens and on whether the positions are gapless, which makes texts that
repeat themselves; with span=None on everything.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from pyspec.errors import CancelledError, ClosedError, ContextFullError, FileFormatError, OptionError
from pyspec.llm.backend import Backend

MASK = 2**64 - 1


def mix(*values: int) -> int:
    """A 64-bit hash of integers."""
    h = 0x9E3779B97F4A7C15
    for value in values:
        h = ((h ^ (value & MASK)) * 0xBF58476D1CE4E5B9) & MASK
        h ^= h >> 29
        h = (h * 0x94D049BB133111EB) & MASK
        h ^= h >> 32
    return h


class Rollback(Enum):
    NO = 0
    FULL = 1
    PART = 2
    TAIL = 3


class CancelToken:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass(frozen=True)
class FakeVocab:
    texts: list[bytes]
    kind: str = "gpt2"
    pre: str = "smollm"
    bos: int = 1
    eos: int = 2
    add_bos: bool = False
    add_eos: bool = False
    eog: frozenset[int] = frozenset({2})
    unk: int = -1
    sep: int = -1
    pad: int = -1
    mask: int = -1


def default_texts(n: int = 48) -> list[bytes]:
    """Specials, words, single bytes of multi-byte characters, then letters."""
    texts = [b"<unk>", b"<bos>", b"<eos>", b"<|a|>", b"<|b|>"]
    texts += [b" the", b" cat", b"ab", b" ", b"\n", b"STOP", b"ST", b"OP"]
    texts += [b"\xc4", b"\x8d", b"\xf0\x9f", b"\x98\x80", "é".encode(), "한".encode()]
    texts += [bytes([97 + i]) for i in range(26)]
    texts += [b"tok%d " % i for i in range(max(0, n - len(texts)))]
    return texts[:n]


def letters(n: int = 48) -> list[bytes]:
    """A vocabulary without specials' texts and without parts of characters: one to three letters each, some
    in others.
    """
    rng = random.Random(4)
    texts = [b"<unk>", b"<bos>", b"<eos>", b"<|a|>", b"<|b|>"]
    while len(texts) < n:
        text = "".join(rng.choice("abcde ") for _ in range(rng.choice((1, 2, 3)))).encode()
        if text not in texts:
            texts.append(text)
    return texts


class FakeTokenizer:
    """Longest match first; what matches nothing is dropped (tests use matching text)."""

    def __init__(self, vocab: FakeVocab) -> None:
        self.vocab = vocab
        self._order = sorted(range(5, len(vocab.texts)), key=lambda i: (-len(vocab.texts[i]), i))

    def encode(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        data = text.encode() if isinstance(text, str) else text
        ids = [self.vocab.bos] if add_special and self.vocab.add_bos else []
        order = [*range(5), *self._order] if parse_special else self._order
        at = 0
        while at < len(data):
            for i in order:
                if data.startswith(self.vocab.texts[i], at):
                    ids.append(i)
                    at += len(self.vocab.texts[i])
                    break
            else:
                at += 1
        return ids

    def encode_continuation(self, text: str | bytes) -> list[int]:
        return self.encode(text, add_special=False)

    def pieces(self) -> list[bytes]:
        return [self.piece(i) for i in range(len(self.vocab.texts))]

    def piece(self, token: int, special: bool = False) -> bytes:
        return self.vocab.texts[token] if special or token >= 5 else b""

    def decode(self, ids: Sequence[int], *, special: bool = False, continuation: bool = False) -> bytes:
        return b"".join(self.piece(i, special) for i in ids)


@dataclass
class FakeInfo:
    n_vocab: int
    n_ctx_train: int = 100_000
    architecture: str = "fake"
    name: str = "fake"
    n_params: int = 1
    file_bytes: int = 1
    weight_bytes: int = 1000
    packed_bytes: int = 0
    kernels: str = ""


@dataclass
class FakeModel:
    """span: see the module. agree: as a draft, its logits equal those of `like` for this part (0..1) of the
    contexts.
    """

    path: str = "fake.gguf"
    vocab: FakeVocab = field(default_factory=lambda: FakeVocab(default_texts()))
    seed: int = 1
    span: int | None = None
    like: FakeModel | None = None
    agree: float = 1.0
    boost: dict[int, float] = field(default_factory=dict)
    meta: dict[str, bytes] = field(default_factory=dict)
    closed: int = 0

    def __post_init__(self) -> None:
        self.info = FakeInfo(len(self.vocab.texts))
        self.tokenizer = FakeTokenizer(self.vocab)
        self.metadata = dict(self.meta)
        self._rows: dict[int, np.ndarray[Any, Any]] = {}

    def is_eog(self, token: int) -> bool:
        return token in self.vocab.eog

    def token_piece(self, token: int, special: bool = False) -> bytes:
        return self.tokenizer.piece(token, special)

    def meta_str(self, key: str) -> bytes | None:
        return self.meta.get(key)

    def close(self) -> None:
        self.closed += 1

    def logits(self, cells: Sequence[tuple[int, int]]) -> np.ndarray[Any, Any]:
        """Of the row after these (token, position) cells."""
        gapless = all(position == i for i, (_, position) in enumerate(cells))
        seen = cells if self.span is None or not gapless else cells[-self.span :]
        key = mix(self.seed, int(gapless), *(token for token, _ in seen))
        if key not in self._rows:
            self._rows[key] = self._row(key, cells)
        return self._rows[key]

    def _row(self, key: int, cells: Sequence[tuple[int, int]]) -> np.ndarray[Any, Any]:
        if self.like is not None and (mix(key, 77) % 1000) < 1000 * self.agree:
            row = self.like.logits(cells)
            n = len(self.vocab.texts)
            row = np.concatenate([row, np.full(max(0, n - len(row)), -1.0, np.float32)])[:n].copy()
        else:
            row = np.random.default_rng(key).normal(0, 3, len(self.vocab.texts)).astype(np.float32)
        for token, value in self.boost.items():
            row[token] += value
        return row


@dataclass
class FakeReport:
    weight_bytes: int
    cache_bytes: int
    compute_bytes: int
    output_bytes: int
    available_bytes: int = 2**33


def memory_estimate(model: FakeModel, **options: Any) -> FakeReport:
    return FakeReport(
        model.info.weight_bytes,
        10 * options["n_ctx"],
        7 * options["n_ubatch"],
        4 * options["n_outputs"] * model.info.n_vocab,
    )


class FakeContext:
    """The seam of pyspec.core.context.Context. `log` records (method, arguments); hooks let tests
    interfere.
    """

    def __init__(
        self,
        model: FakeModel,
        *,
        n_ctx: int = 0,
        n_batch: int = 2048,
        n_ubatch: int = 512,
        n_outputs: int = 64,
        n_threads: int = 0,
        type_k: str = "f16",
        type_v: str = "f16",
        memory_kind: str = "auto",
    ) -> None:
        self.model = model
        self.n_ctx = n_ctx or model.info.n_ctx_train
        self.n_batch, self.n_ubatch, self.max_outputs = n_batch, n_ubatch, n_outputs
        self.n_outputs_max = n_outputs
        self.n_vocab = model.info.n_vocab
        self.n_threads = n_threads or 1
        self.memory_kind = memory_kind
        self.type_k, self.type_v = type_k, type_v
        self.cells: list[tuple[int, int]] = []
        self.rows: list[np.ndarray[Any, Any]] = []
        self.closed = 0
        self.n_decoded = 0
        self.decodes: list[list[int]] = []
        self.on_decode: Callable[[FakeContext, list[int]], None] | None = None
        self.after_decode: Callable[[FakeContext], None] | None = None

    def decode(
        self,
        tokens: Sequence[int],
        *,
        positions: Sequence[int] | None = None,
        outputs: str | Sequence[bool] | None = None,
        cancel: CancelToken | None = None,
    ) -> int:
        self._alive()
        tokens = list(tokens)
        assert tokens and len(tokens) <= self.n_batch, f"{len(tokens)} tokens, n_batch {self.n_batch}"
        for token in tokens:
            if not 0 <= token < self.n_vocab:
                raise OptionError(f"token {token} outside the vocabulary")
        if len(self.cells) + len(tokens) > self.n_ctx:
            raise ContextFullError(f"{len(self.cells)} + {len(tokens)} > {self.n_ctx}")
        if self.on_decode is not None:
            self.on_decode(self, tokens)
        if cancel is not None and cancel.cancelled:
            raise CancelledError("cancelled")
        start = self.cells[-1][1] + 1 if self.cells else 0
        positions = list(positions) if positions is not None else list(range(start, start + len(tokens)))
        if outputs is None:
            flags = [False] * (len(tokens) - 1) + [True]
        elif isinstance(outputs, str):
            flags = [outputs == "all"] * len(tokens)
        else:
            flags = list(outputs)
        assert sum(flags) <= self.max_outputs, f"{sum(flags)} output rows, {self.max_outputs} reserved"
        self.rows = []
        for token, position, flag in zip(tokens, positions, flags, strict=True):
            self.cells.append((token, position))
            if flag:
                self.rows.append(self.model.logits(self.cells))
        self.n_decoded += len(tokens)
        self.decodes.append(tokens)
        if self.after_decode is not None:
            self.after_decode(self)
        return len(self.rows)

    @property
    def n_outputs(self) -> int:
        return len(self.rows)

    @property
    def n_cells(self) -> int:
        return len(self.cells)

    def logits(self, i: int) -> np.ndarray[Any, Any]:
        return self.rows[i]

    def seq_rm(self, seq_id: int, p0: int, p1: int) -> bool:
        self._alive()
        low, high = (0 if p0 < 0 else p0), (2**31 if p1 < 0 else p1)
        kept = [cell for cell in self.cells if not low <= cell[1] < high]
        if len(kept) != len(self.cells):
            if self.memory_kind == "test-no" or (self.memory_kind == "test-full" and kept):
                return False
            if self.memory_kind != "silent":  # "silent" says yes and does nothing, as some tools do
                self.cells = kept
        return True

    def can_seq_rm(self, seq_id: int, p0: int, p1: int) -> bool:
        saved = list(self.cells)
        answer = self.seq_rm(seq_id, p0, p1)
        self.cells = saved
        return answer

    def seq_add(self, seq_id: int, p0: int, p1: int, delta: int) -> bool:
        self._alive()
        if self.memory_kind in ("test-full", "test-no"):
            return False
        low, high = (0 if p0 < 0 else p0), (2**31 if p1 < 0 else p1)
        moved = [(token, p + delta if low <= p < high else p) for token, p in self.cells]
        positions = [position for _, position in moved]
        if positions != sorted(set(positions)) or min(positions, default=0) < 0:
            raise OptionError("positions lose their order")
        self.cells = moved
        return True

    def can_seq_add(self, seq_id: int, p0: int, p1: int, delta: int) -> bool:
        saved = list(self.cells)
        try:
            return self.seq_add(seq_id, p0, p1, delta)
        except OptionError:
            return False
        finally:
            self.cells = saved

    def seq_pos_max(self, seq_id: int) -> int:
        return self.cells[-1][1] if self.cells else -1

    def seq_pos_min(self, seq_id: int) -> int:
        return self.cells[0][1] if self.cells else -1

    def probe_rollback(self) -> Rollback:
        self.cells = []
        return {"test-no": Rollback.NO, "test-full": Rollback.FULL}.get(self.memory_kind, Rollback.PART)

    def state_save(self) -> bytes:
        return b"FAKE" + b"".join(struct.pack("<ii", *cell) for cell in self.cells)

    def state_restore(self, state: bytes) -> None:
        if state[:4] != b"FAKE":
            raise FileFormatError("not a state")
        self.cells = list(struct.iter_unpack("<ii", state[4:]))

    def kernel_runs(self) -> dict[str, int]:
        return {"attention": 1}

    def memory_report(self) -> FakeReport:
        return memory_estimate(
            self.model, n_ctx=self.n_ctx, n_ubatch=self.n_ubatch, n_outputs=self.max_outputs
        )

    def close(self) -> None:
        self.closed += 1

    def _alive(self) -> None:
        if self.closed:
            raise ClosedError("context closed")


@dataclass(frozen=True, slots=True)
class SamplingParams:
    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical_p: float = 1.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = 64
    seed: int | None = None
    logit_bias: dict[int, float] | None = None
    mirostat: int = 0

    @property
    def lookback(self) -> int:
        penalties = (self.repeat_penalty != 1.0, self.frequency_penalty, self.presence_penalty)
        return self.penalty_last_n if any(penalties) else 0


class FakeSampler:
    """Penalties, top-k, temperature and keyed Gumbel noise; enough to notice every bookkeeping error."""

    def __init__(self, params: SamplingParams, n_vocab: int) -> None:
        self.params = params
        self.n_vocab = n_vocab
        self.tokens: list[int] = []
        self.prompt_flags: list[bool] = []

    @property
    def n_history(self) -> int:
        return len(self.tokens)

    @property
    def index(self) -> int:
        return self.prompt_flags.count(False)

    def candidates(self, ctx: FakeContext, i: int, cap: int, mask: None = None) -> list[tuple[int, float]]:
        """(id, probability), best first."""
        p = self.params
        row = ctx.logits(i).astype(np.float64)
        for token, value in (p.logit_bias or {}).items():
            row[token] += value
        n = len(self.tokens) if p.penalty_last_n < 0 else p.penalty_last_n
        recent = self.tokens[-n:] if n else []
        for token in set(recent):
            count = recent.count(token)
            row[token] = row[token] / p.repeat_penalty if row[token] > 0 else row[token] * p.repeat_penalty
            row[token] -= count * p.frequency_penalty + p.presence_penalty
        order = sorted(range(len(row)), key=lambda t: (-row[t], t))
        if p.temperature <= 0:
            return [(order[0], 1.0)]
        order = order[: p.top_k] if p.top_k > 0 else order
        weights = np.exp((row[order] - row[order[0]]) / p.temperature)
        weights /= weights.sum()
        return [(token, float(w)) for token, w in zip(order, weights, strict=True)][:cap]

    def sample(self, ctx: FakeContext, i: int) -> int:
        found = self.candidates(ctx, i, self.n_vocab)
        if len(found) == 1:
            return found[0][0]

        def score(entry: tuple[int, float]) -> float:
            u = (mix(self.params.seed or 0, self.index, entry[0]) + 0.5) / 2**64
            return float(np.log(entry[1] + 1e-300) - np.log(-np.log(u)))

        return max(found, key=score)[0]

    def advance(self, token: int, prompt: bool = False) -> None:
        self.tokens.append(token)
        self.prompt_flags.append(prompt)

    def advance_from(self, ctx: FakeContext, i: int, token: int, mask: None = None) -> None:
        self.advance(token)

    def rollback(self, n: int) -> None:
        del self.tokens[len(self.tokens) - n :], self.prompt_flags[len(self.prompt_flags) - n :]

    def clone(self) -> FakeSampler:
        other = FakeSampler(self.params, self.n_vocab)
        other.tokens, other.prompt_flags = list(self.tokens), list(self.prompt_flags)
        return other

    def for_drafting(self, scale: float = 0.8) -> FakeSampler:
        """The temperature stays: what the fake has to show is that the draw is the target's."""
        return self.clone()

    def follow(self, target: FakeSampler) -> None:
        self.tokens, self.prompt_flags = list(target.tokens), list(target.prompt_flags)

    def draft(self, ctx: FakeContext, row: int, n_allowed: int) -> tuple[int, float]:
        token = self.sample(ctx, row)
        return (token, 0.9) if token < n_allowed else draft_choice(ctx, row, n_allowed)

    def close(self) -> None:
        pass

    def accept_match(
        self,
        ctx: FakeContext,
        draft: Sequence[int],
        *,
        model: FakeModel | None,
        n_max: int,
        end_ids: Sequence[int] = (),
    ) -> tuple[list[int], int]:
        assert ctx.n_outputs == len(draft) + 1
        out: list[int] = []
        n_accepted = 0
        for i in range(len(draft) + 1):
            token = self.sample(ctx, i)
            self.advance(token)
            out.append(token)
            matched = i < len(draft) and token == draft[i]
            n_accepted += matched
            is_end = token in end_ids or (model is not None and model.is_eog(token))
            if not matched or is_end or len(out) >= n_max:
                break
        return out, n_accepted


def logprobs(ctx: FakeContext, i: int, token: int, n_top: int = 0) -> tuple[float, list[tuple[int, float]]]:
    row = ctx.logits(i).astype(np.float64)
    values = row - row.max() - np.log(np.exp(row - row.max()).sum())
    order = sorted(range(len(row)), key=lambda t: (-row[t], t))[:n_top]
    return float(values[token]), [(t, float(values[t])) for t in order]


def draft_choice(ctx: FakeContext, i: int, n_allowed: int, n_best: int = 10) -> tuple[int, float]:
    row = ctx.logits(i)[:n_allowed].astype(np.float64)
    order = sorted(range(len(row)), key=lambda t: (-row[t], t))[:n_best]
    weights = np.exp(row[order] - row[order[0]])
    return order[0], float(weights[0] / weights.sum())


class FakeCore:
    """A Backend whose files are the given models, with everything it made kept for inspection."""

    def __init__(self, *models: FakeModel, **context_changes: Any) -> None:
        self.models = {model.path: model for model in models}
        self.contexts: list[FakeContext] = []
        self.opened: list[str] = []
        self.samplers: list[FakeSampler] = []
        self._changes = context_changes

    def open_model(self, path: str, **options: Any) -> FakeModel:
        self.opened.append(str(path))
        if str(path) not in self.models:
            raise FileFormatError(f"{path}: no such file")
        return self.models[str(path)]

    def make_context(self, model: FakeModel, **options: Any) -> FakeContext:
        self.contexts.append(FakeContext(model, **options))
        return self.contexts[-1]

    def make_sampler(self, params: SamplingParams, n_vocab: int, *, model: FakeModel) -> FakeSampler:
        self.samplers.append(FakeSampler(params, n_vocab))
        return self.samplers[-1]

    @property
    def backend(self) -> Backend:
        return Backend(
            Model=self.open_model,
            Context=self.make_context,
            Sampler=self.make_sampler,
            SamplingParams=SamplingParams,
            CancelToken=CancelToken,
            logprobs=logprobs,
            draft_choice=draft_choice,
            memory_estimate=memory_estimate,
        )


def looping(**options: Any) -> FakeModel:
    """A target that never ends by itself and, decoded greedily, repeats itself every 24 tokens."""
    return FakeModel(**{"seed": 62, "span": 2, "boost": {2: -50}, **options})


def shuffled(seed: int, n: int, low: int = 5, high: int = 48) -> list[int]:
    """n pseudo-random token ids."""
    rng = random.Random(seed)
    return [rng.randrange(low, high) for _ in range(n)]
