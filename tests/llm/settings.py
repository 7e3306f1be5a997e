"""Ways of choosing tokens: every field of SamplingParams alone, and many together; and what may be added to a call."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

#: Without filters, so that a setting is seen alone.
BARE: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 5}

#: One setting at a time, some with what they need to be noticed.
ALONE: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "defaults": {"seed": 1},
    "temperature": BARE,
    "hot": {**BARE, "temperature": 4.0},
    "top-k": {**BARE, "top_k": 3},
    "top-p": {**BARE, "top_p": 0.6},
    "min-p": {**BARE, "min_p": 0.3},
    "typical": {**BARE, "typical_p": 0.5},
    "min-keep": {**BARE, "top_p": 0.01, "min_keep": 4},
    "top-n-sigma": {**BARE, "top_n_sigma": 1.5},
    "xtc": {**BARE, "xtc_probability": 0.6, "xtc_threshold": 0.05},
    "dynatemp": {**BARE, "dynatemp_range": 0.8, "dynatemp_exponent": 2.0},
    "mirostat": {**BARE, "mirostat": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.4},
    "repeat": {**BARE, "repeat_penalty": 1.6, "penalty_last_n": 6},
    "greedy repeat": {"temperature": 0.0, "repeat_penalty": 2.0},
    "frequency": {**BARE, "frequency_penalty": 1.5, "penalty_last_n": -1},
    "greedy frequency": {"temperature": 0.0, "frequency_penalty": 2.0},
    "presence": {**BARE, "presence_penalty": 2.5},
    "greedy presence": {"temperature": 0.0, "presence_penalty": 4.0, "penalty_last_n": 30},
    "reward": {"temperature": 0.0, "presence_penalty": -2.0, "penalty_last_n": 8},
    "bias": {**BARE, "logit_bias": {20: 4.0, 40: -5.0, 60: -math.inf}},
    "dry": {
        "temperature": 0.0,
        "dry_multiplier": 3.0,
        "dry_base": 1.5,
        "dry_allowed_length": 1,
        "logit_bias": {20: 9.0, 21: 9.0, 22: 8.0},  # so that something repeats itself
    },
    "seeded dry": {
        **BARE,
        "temperature": 0.5,
        "dry_multiplier": 2.0,
        "dry_allowed_length": 1,
        "dry_penalty_last_n": -1,
        "dry_sequence_breakers": [[20], [30, 31], "e"],
        "logit_bias": {21: 8.0, 22: 8.0},
    },
    "large seed": {**BARE, "seed": 2**64 - 1},
    "negative seed": {**BARE, "seed": -3},
}

#: Values for random combinations. Mirostat stands in place of the filters and comes alone.
_VALUES: dict[str, list[Any]] = {
    "temperature": [0.0, 0.3, 0.8, 1.0, 1.5],
    "top_k": [0, 5, 40],
    "top_p": [1.0, 0.9, 0.5],
    "min_p": [0.0, 0.05, 0.2],
    "typical_p": [1.0, 0.7],
    "repeat_penalty": [1.0, 1.3],
    "frequency_penalty": [0.0, 0.7, -0.2],
    "presence_penalty": [0.0, 0.9],
    "penalty_last_n": [64, -1, 0, 4],
    "min_keep": [0, 2],
    "top_n_sigma": [-1.0, 2.0],
    "xtc_probability": [0.0, 0.4],
    "xtc_threshold": [0.02, 0.1],
    "dynatemp_range": [0.0, 0.3],
    "dynatemp_exponent": [0.5, 1.0],
    "dry_multiplier": [0.0, 1.0],
    "dry_base": [1.2, 2.0],
    "dry_allowed_length": [1, 2],
    "dry_penalty_last_n": [64, -1, 5],
    "logit_bias": [None, {20: 2.0, 33: -math.inf}],
}


def combination(number: int) -> dict[str, Any]:
    """A value for every field, at random; the same for the same number."""
    rng = random.Random(number)
    found = {name: rng.choice(values) for name, values in _VALUES.items()}
    found["seed"] = rng.randrange(2**64)
    if rng.random() < 0.15:
        for name, off in (("top_k", 0), ("top_p", 1.0), ("min_p", 0.0), ("typical_p", 1.0)):
            found[name] = off
        found |= {"mirostat": 2, "mirostat_tau": 4.0, "mirostat_eta": 0.2, "top_n_sigma": -1.0}
        found |= {"xtc_probability": 0.0, "dynatemp_range": 0.0, "min_keep": 0}
    return found


def favourites(tokens: list[int], logits: np.ndarray) -> None:
    """A logits processor, in place: what it does depends on every token so far."""
    logits[(7 * len(tokens) + sum(tokens[-3:])) % len(logits)] += 6.0


def flatter(tokens: list[int], logits: np.ndarray) -> np.ndarray:
    """Another one, which returns a row and looks at the last token."""
    row = logits * np.float32(0.8)
    row[tokens[-1]] = -np.inf
    return row


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "the cat": {"enum": ["there", "thought", "then", 1, 12, None]},
        "count": {"type": "integer", "minimum": 0, "maximum": 120},
        "on": {"type": "array", "items": {"type": "boolean"}, "maxItems": 4},
    },
    "required": ["the cat", "count", "on"],
    "additionalProperties": False,
}

#: What a call may have besides: each must go with every setting.
BESIDES: dict[str, dict[str, Any]] = {
    "processor": {"logits_processor": favourites, "logprobs": 1},
    "processors": {"logits_processor": [flatter, favourites], "logprobs": "sampled"},
    "schema": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "cat", "schema": SCHEMA}},
        "logprobs": "sampled",
    },
    "gbnf": {"grammar": 'root ::= ([a-z]+ " " | [0-9]+ ",")+', "logprobs": 0},
    "both": {"grammar": "root ::= ([a-z ]+ | [.,;])+", "logits_processor": favourites, "logprobs": "sampled"},
    "sampled logprobs": {"logprobs": "sampled"},
}
