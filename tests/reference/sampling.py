"""Slow, plain reference of sampling: Philox noise, filters, penalties, logprobs, sample-and-match.

Written from the definitions, with sorting instead of scanning, Python floats (IEEE double) for sums and NumPy
float32 where the core keeps a logit in 32 bits. A list of candidates is a list of `(token, logit)`; its order
matters only because sums run along it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

MASK32 = 0xFFFFFFFF
PURPOSE_TARGET = 0

Row = Sequence[float] | np.ndarray
Candidate = tuple[int, float]


def philox4x32_10(counter: Sequence[int], key: Sequence[int]) -> tuple[int, int, int, int]:
    """Philox4x32 with 10 rounds (Salmon et al., SC 2011)."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0 = 0xD2511F53 * c0
        p1 = 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK32, (p0 >> 32) ^ c3 ^ k1, p0 & MASK32
        k0 = (k0 + 0x9E3779B9) & MASK32
        k1 = (k1 + 0xBB67AE85) & MASK32
    return c0, c1, c2, c3


def uniform(seed: int, index: int, token: int, purpose: int = PURPOSE_TARGET) -> float:
    """An odd multiple of 2**-53 in (0, 1), a pure function of the arguments."""
    words = philox4x32_10(
        (index & MASK32, index >> 32, token, purpose),
        (seed & MASK32, seed >> 32),
    )
    return (2 * ((words[0] << 32 | words[1]) >> 12) + 1) / 2.0**53


def gumbel(seed: int, index: int, token: int, purpose: int = PURPOSE_TARGET) -> float:
    return -math.log(-math.log(uniform(seed, index, token, purpose)))


@dataclass
class Params:
    """Settings with the names and meanings of `pyspec.SamplingParams`; the defaults here are all "off"."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = 64
    seed: int = 0
    logit_bias: Mapping[int, float] = field(default_factory=dict)


def rank(candidate: Candidate) -> tuple[float, int]:
    """Sort key of the one order used everywhere: larger logit first, then lower id."""
    token, logit = candidate
    return -logit, token


def probabilities(candidates: Sequence[Candidate], temperature: float = 1.0) -> list[float]:
    top = max(logit for _, logit in candidates)
    weights = [math.exp((logit - top) / temperature) for _, logit in candidates]
    total = 0.0
    for weight in weights:
        total += weight
    return [weight / total for weight in weights]


def top_k(candidates: list[Candidate], k: int) -> list[Candidate]:
    return candidates if k <= 0 or k >= len(candidates) else sorted(candidates, key=rank)[:k]


def typical(candidates: list[Candidate], typical_p: float) -> list[Candidate]:
    """Closest to the entropy first, until the probability sum exceeds typical_p."""
    if typical_p >= 1:
        return candidates
    probs = probabilities(candidates)
    entropy = 0.0
    for p in probs:
        if p > 0:
            entropy -= p * math.log(p)
    distance = [abs(-math.log(p) - entropy) if p > 0 else math.inf for p in probs]
    order = sorted(range(len(candidates)), key=lambda i: (distance[i], rank(candidates[i])))
    kept = []
    total = 0.0
    for i in order:
        kept.append(candidates[i])
        total += probs[i]
        if total > typical_p:
            break
    return kept


def top_p(candidates: list[Candidate], limit: float) -> list[Candidate]:
    """Best first, until the probability sum reaches the limit."""
    if limit >= 1:
        return candidates
    probs = dict(zip((token for token, _ in candidates), probabilities(candidates), strict=True))
    kept = []
    total = 0.0
    for candidate in sorted(candidates, key=rank):
        kept.append(candidate)
        total += probs[candidate[0]]
        if total >= limit:
            break
    return kept


def min_p(candidates: list[Candidate], ratio: float) -> list[Candidate]:
    if ratio <= 0:
        return candidates
    lowest = max(logit for _, logit in candidates) + math.log(ratio)
    return [candidate for candidate in candidates if candidate[1] >= lowest]


def f32(x: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(x))


def adjusted(logits: Row, params: Params, history: Sequence[int]) -> list[float]:
    """Logits after bias, then penalties over the last penalty_last_n tokens of the history."""
    row = [float(x) for x in np.asarray(logits, dtype=np.float32)]
    for token, bias in params.logit_bias.items():
        row[token] = f32(row[token] + f32(bias))
    last_n = len(history) if params.penalty_last_n < 0 else params.penalty_last_n
    window = history[max(0, len(history) - last_n) :]
    for token in set(window):
        repeat = f32(params.repeat_penalty)
        logit = f32(row[token] * repeat if row[token] <= 0 else row[token] / repeat)
        count = window.count(token)
        row[token] = f32(logit - (count * f32(params.frequency_penalty) + f32(params.presence_penalty)))
    return row


def survivors(logits: Row, params: Params, history: Sequence[int]) -> list[Candidate]:
    row = adjusted(logits, params, history)
    candidates = [(token, logit) for token, logit in enumerate(row) if logit != -math.inf]
    if not candidates:
        raise ValueError("every token is forbidden")
    if any(math.isnan(logit) or logit == math.inf for _, logit in candidates):
        raise ValueError("a logit is NaN or +infinity")
    if params.temperature <= 0:
        return [min(candidates, key=rank)]
    candidates = top_k(candidates, params.top_k)
    candidates = typical(candidates, f32(params.typical_p))
    candidates = top_p(candidates, f32(params.top_p))
    return min_p(candidates, f32(params.min_p))


def distribution(logits: Row, params: Params, history: Sequence[int]) -> list[tuple[int, float]]:
    """`(token, probability)` after all filters and temperature, best first."""
    kept = survivors(logits, params, history)
    if params.temperature <= 0:
        return [(kept[0][0], 1.0)]
    probs = probabilities(kept, f32(params.temperature))
    order = sorted(range(len(kept)), key=lambda i: rank(kept[i]))
    return [(kept[i][0], probs[i]) for i in order]


def sample(logits: Row, params: Params, history: Sequence[int], index: int) -> int:
    """argmax over the survivors of log p + noise(seed, index, token).

    `history` includes the prompt, `index` does not count it.
    """
    kept = survivors(logits, params, history)
    if params.temperature <= 0:
        return kept[0][0]
    top = max(logit for _, logit in kept)
    scores = [
        ((logit - top) / f32(params.temperature) + gumbel(params.seed, index, token), -token)
        for token, logit in kept
    ]
    return -max(scores)[1]


def accept_match(
    rows: Sequence[Row],
    draft: Sequence[int],
    params: Params,
    history: Sequence[int],
    index: int,
    n_max: int,
    is_end: Callable[[int], bool] = lambda token: False,
) -> tuple[list[int], int]:
    """What plain decoding emits over these rows, cut after the first token the draft did not foresee."""
    emitted: list[int] = []
    while len(emitted) < n_max:
        i = len(emitted)
        emitted.append(sample(rows[i], params, [*history, *emitted], index + i))
        if i == len(draft) or emitted[i] != draft[i] or is_end(emitted[i]):
            break
    n_accepted = 0
    while n_accepted < min(len(emitted), len(draft)) and emitted[n_accepted] == draft[n_accepted]:
        n_accepted += 1
    return emitted, n_accepted


def logprobs(logits: Row, token: int, n_top: int) -> tuple[float, list[tuple[int, float]]]:
    """Log-softmax of raw logits: one token's value and the n_top best."""
    row = [float(x) for x in np.asarray(logits, dtype=np.float32)]
    top = max(row)
    log_sum = math.log(math.fsum(math.exp(x - top) for x in row))
    values = [x - top - log_sum for x in row]
    best = sorted(enumerate(row), key=rank)[:n_top]  # by logit: logprobs of different logits may round alike
    return values[token], [(i, values[i]) for i, _ in best]
