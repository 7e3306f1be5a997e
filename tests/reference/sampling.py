"""Slow, plain reference of sampling: Philox noise, filters, penalties, logprobs, acceptance rules.

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
PURPOSE_TARGET, PURPOSE_ACCEPT, PURPOSE_RESIDUAL, PURPOSE_DRAFT = 0, 1, 2, 3
PURPOSE_XTC, PURPOSE_MIROSTAT, PURPOSE_SYNTHETIC = 5, 6, 7

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
    min_keep: int = 0
    top_n_sigma: float = -1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 64
    dry_sequence_breakers: Sequence[Sequence[int]] = ()


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


def top_n_sigma(candidates: list[Candidate], n: float) -> list[Candidate]:
    """Logits at most n standard deviations below the best."""
    if n <= 0:
        return candidates
    total = 0.0
    for _, logit in candidates:
        total += logit
    mean = total / len(candidates)
    squares = 0.0
    for _, logit in candidates:
        squares += (logit - mean) * (logit - mean)
    lowest = max(logit for _, logit in candidates) - n * math.sqrt(squares / len(candidates))
    return [candidate for candidate in candidates if candidate[1] >= lowest]


def typical(candidates: list[Candidate], typical_p: float, min_keep: int = 0) -> list[Candidate]:
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
        if total > typical_p and len(kept) >= min_keep:
            break
    return kept


def top_p(candidates: list[Candidate], limit: float, min_keep: int = 0) -> list[Candidate]:
    """Best first, until the probability sum reaches the limit."""
    if limit >= 1:
        return candidates
    probs = dict(zip((token for token, _ in candidates), probabilities(candidates), strict=True))
    kept = []
    total = 0.0
    for candidate in sorted(candidates, key=rank):
        kept.append(candidate)
        total += probs[candidate[0]]
        if total >= limit and len(kept) >= min_keep:
            break
    return kept


def min_p(candidates: list[Candidate], ratio: float, min_keep: int = 0) -> list[Candidate]:
    if ratio <= 0:
        return candidates
    lowest = max(logit for _, logit in candidates) + math.log(ratio)
    kept = [candidate for candidate in candidates if candidate[1] >= lowest]
    return kept if len(kept) >= min_keep else sorted(candidates, key=rank)[:min_keep]


def xtc(candidates: list[Candidate], threshold: float, min_keep: int = 0) -> list[Candidate]:
    """All tokens at least as likely as the threshold go, but the least likely of them."""
    if threshold > 0.5 or len(candidates) < 2:
        return candidates
    probs = dict(zip((token for token, _ in candidates), probabilities(candidates), strict=True))
    ordered = sorted(candidates, key=rank)
    n_likely = sum(probs[token] >= threshold for token, _ in ordered)
    kept = ordered[max(0, n_likely - 1) :]
    return kept if len(kept) >= min_keep else candidates


def mirostat(candidates: list[Candidate], temperature: float, mu: float) -> list[Candidate]:
    """Surprise at most mu, in bits; the best one in any case."""
    probs = probabilities(candidates, temperature)
    kept = [candidate for candidate, p in zip(candidates, probs, strict=True) if p >= 2.0**-mu]
    return kept or [min(candidates, key=rank)]


def dynamic_temperature(candidates: list[Candidate], params: Params) -> float:
    temperature, spread = f32(params.temperature), f32(params.dynatemp_range)
    if spread <= 0 or len(candidates) < 2:
        return temperature
    entropy = 0.0
    for p in probabilities(candidates):
        if p > 0:
            entropy -= p * math.log(p)
    share = min(1.0, max(0.0, entropy / math.log(len(candidates))))
    low = max(0.0, temperature - spread)
    return low + (temperature + spread - low) * share ** f32(params.dynatemp_exponent)


def repetitions(params: Params, history: Sequence[int]) -> dict[int, int]:
    """DRY by trying everything: token -> longest repetition that it would continue."""
    last_n = params.dry_penalty_last_n
    window = list(history) if last_n < 0 else list(history)[max(0, len(history) - last_n) :]
    n = len(window)
    since = n  # tokens behind the last breaker
    for end in range(1, n + 1):
        for breaker in params.dry_sequence_breakers:
            if len(breaker) <= end and window[end - len(breaker) : end] == list(breaker):
                since = n - end
    alone = {breaker[0] for breaker in params.dry_sequence_breakers if len(breaker) == 1}
    found: dict[int, int] = {}
    for end in range(1, n):  # window[:end] is an earlier end, window[end] followed it
        length = 0
        while length < end and window[end - 1 - length] == window[n - 1 - length]:
            length += 1
        length = min(length, since)
        token = window[end]
        if length >= params.dry_allowed_length and since >= params.dry_allowed_length and token not in alone:
            found[token] = max(found.get(token, 0), length)
    return found


def f32(x: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(x))


def adjusted(logits: Row, params: Params, history: Sequence[int]) -> list[float]:
    """Logits after bias, then penalties over the last penalty_last_n tokens of the history, then DRY."""
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
    if params.dry_multiplier:
        for token, length in repetitions(params, history).items():
            exponent = length - params.dry_allowed_length
            row[token] = f32(row[token] - f32(params.dry_multiplier) * f32(params.dry_base) ** exponent)
    return row


def has_mirostat(params: Params) -> bool:
    return params.mirostat == 2 and params.temperature > 0


def allowed(mask: Sequence[int] | np.ndarray | None, token: int) -> bool:
    return mask is None or bool(int(mask[token // 32]) >> (token % 32) & 1)


def survivors(
    logits: Row,
    params: Params,
    history: Sequence[int],
    index: int = 0,
    mask: Sequence[int] | np.ndarray | None = None,
    mu: float = 0.0,
) -> list[Candidate]:
    row = adjusted(logits, params, history)
    candidates = [
        (token, logit) for token, logit in enumerate(row) if logit != -math.inf and allowed(mask, token)
    ]
    if not candidates:
        raise ValueError("every token is forbidden")
    if any(math.isnan(logit) or logit == math.inf for _, logit in candidates):
        raise ValueError("a logit is NaN or +infinity")
    if params.temperature <= 0:
        return [min(candidates, key=rank)]
    if has_mirostat(params):
        return mirostat(candidates, f32(params.temperature), mu)
    keep = params.min_keep
    candidates = top_n_sigma(candidates, f32(params.top_n_sigma))
    candidates = top_k(candidates, params.top_k)
    candidates = typical(candidates, f32(params.typical_p), keep)
    candidates = top_p(candidates, f32(params.top_p), keep)
    candidates = min_p(candidates, f32(params.min_p), keep)
    chance = f32(params.xtc_probability)
    if chance > 0 and uniform(params.seed, index, 0, PURPOSE_XTC) < chance:
        candidates = xtc(candidates, f32(params.xtc_threshold), keep)
    if dynamic_temperature(candidates, params) <= 0:
        return [min(candidates, key=rank)]
    return candidates


def distribution(
    logits: Row,
    params: Params,
    history: Sequence[int],
    index: int = 0,
    mask: Sequence[int] | np.ndarray | None = None,
    mu: float = 0.0,
    scale: float = 1.0,
) -> list[tuple[int, float]]:
    """`(token, probability)` after all filters and temperature, best first."""
    kept = survivors(logits, params, history, index, mask, mu)
    if len(kept) == 1:
        return [(kept[0][0], 1.0)]
    probs = probabilities(kept, effective_temperature(kept, params) * scale)
    order = sorted(range(len(kept)), key=lambda i: rank(kept[i]))
    return [(kept[i][0], probs[i]) for i in order]


def effective_temperature(kept: list[Candidate], params: Params) -> float:
    return f32(params.temperature) if has_mirostat(params) else dynamic_temperature(kept, params)


def sample(
    logits: Row,
    params: Params,
    history: Sequence[int],
    index: int,
    mask: Sequence[int] | np.ndarray | None = None,
    mu: float = 0.0,
    scale: float = 1.0,
) -> int:
    """argmax over the survivors of log p + noise(seed, index, token).

    `history` includes the prompt, `index` does not count it.
    """
    kept = survivors(logits, params, history, index, mask, mu)
    if len(kept) == 1:
        return kept[0][0]
    top = max(logit for _, logit in kept)
    temperature = effective_temperature(kept, params) * scale
    purpose = PURPOSE_MIROSTAT if has_mirostat(params) else PURPOSE_TARGET
    scores = [
        ((logit - top) / temperature + gumbel(params.seed, index, token, purpose), -token)
        for token, logit in kept
    ]
    return -max(scores)[1]


def next_mu(
    logits: Row, params: Params, history: Sequence[int], token: int, mu: float, mask: np.ndarray | None = None
) -> float:
    """Mirostat's state after a token was chosen from a row."""
    if not has_mirostat(params):
        return mu
    p = dict(distribution(logits, params, history, 0, mask, mu))[token]
    return mu - f32(params.mirostat_eta) * (-math.log2(p) - f32(params.mirostat_tau))


def accept_match(
    rows: Sequence[Row],
    draft: Sequence[int],
    params: Params,
    history: Sequence[int],
    index: int,
    n_max: int,
    is_end: Callable[[int], bool] = lambda token: False,
    masks: np.ndarray | None = None,
) -> tuple[list[int], int]:
    """What plain decoding emits over these rows, cut after the first token the draft did not foresee."""
    emitted: list[int] = []
    mu = 2 * f32(params.mirostat_tau)
    while len(emitted) < n_max:
        i = len(emitted)
        mask = None if masks is None else masks[i]
        so_far = [*history, *emitted]
        emitted.append(sample(rows[i], params, so_far, index + i, mask, mu))
        mu = next_mu(rows[i], params, so_far, emitted[i], mu, mask)
        if i == len(draft) or emitted[i] != draft[i] or is_end(emitted[i]):
            break
    n_accepted = 0
    while n_accepted < min(len(emitted), len(draft)) and emitted[n_accepted] == draft[n_accepted]:
        n_accepted += 1
    return emitted, n_accepted


def draft(
    logits: Row,
    params: Params,
    history: Sequence[int],
    index: int,
    scale: float,
    n_best: int,
    mu: float = 0.0,
) -> tuple[int, float]:
    """A coupled drafter's guess and its share among the best candidates' perturbed logits."""
    if params.temperature <= 0:
        row = adjusted(logits, params, history)
        best = sorted(((t, x) for t, x in enumerate(row) if x != -math.inf), key=rank)[:n_best]
        return best[0][0], 1 / sum(math.exp(x - best[0][1]) for _, x in best)
    token = sample(logits, params, history, index, mu=mu, scale=scale)
    kept = sorted(survivors(logits, params, history, index, mu=mu), key=rank)
    temperature = effective_temperature(kept, params) * scale
    purpose = PURPOSE_MIROSTAT if has_mirostat(params) else PURPOSE_TARGET
    scores = {t: x + temperature * gumbel(params.seed, index, t, purpose) for t, x in kept}
    shown = {t for t, _ in kept[:n_best]} | {token}
    return token, 1 / sum(math.exp(scores[t] - scores[token]) for t in shown)


def reject(
    logits: Row,
    params: Params,
    history: Sequence[int],
    index: int,
    drafted: int,
    law: Mapping[int, float],
    mask: np.ndarray | None = None,
) -> tuple[int, bool]:
    """One place of rejection sampling: the token, and whether it is the draft's."""
    p = dict(distribution(logits, params, history, index, mask))
    q = law.get(drafted, 0.0)
    chance = min(1.0, p.get(drafted, 0.0) / q) if q > 0 else 0.0
    if uniform(params.seed, index, 0, PURPOSE_ACCEPT) < chance:
        return drafted, True
    left = {token: max(0.0, value - law.get(token, 0.0)) for token, value in p.items()}
    if math.fsum(left.values()) < 1e-6:
        left = p
    scores = [
        (math.log(value) + gumbel(params.seed, index, token, PURPOSE_RESIDUAL), -token)
        for token, value in left.items()
        if value > 0
    ]
    return -max(scores)[1], False


def logprobs(logits: Row, token: int, n_top: int) -> tuple[float, list[tuple[int, float]]]:
    """Log-softmax of raw logits: one token's value and the n_top best."""
    row = [float(x) for x in np.asarray(logits, dtype=np.float32)]
    top = max(row)
    log_sum = math.log(math.fsum(math.exp(x - top) for x in row))
    values = [x - top - log_sum for x in row]
    best = sorted(enumerate(row), key=rank)[:n_top]  # by logit: logprobs of different logits may round alike
    return values[token], [(i, values[i]) for i, _ in best]
