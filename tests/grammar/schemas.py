"""Random JSON schemas whose texts are short, so that a random model comes to an end."""

from __future__ import annotations

import random
from typing import Any

_WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "mat",
    "then",
    "count",
    "naïve",
    "日本",
    'a"b',
    "back\\slash",
    "line\nbreak",
    "x y",
]


def random_schema(rng: random.Random, depth: int = 2) -> dict[str, Any]:
    """An object at the top; anything below."""
    return _object(rng, depth)


def _object(rng: random.Random, depth: int) -> dict[str, Any]:
    names = rng.sample(_WORDS, rng.randint(1, 4))
    return {
        "type": "object",
        "properties": {name: _value(rng, depth - 1) for name in names},
        "required": [name for name in names if rng.random() < 0.6],
        "additionalProperties": False,
    }


def _value(rng: random.Random, depth: int) -> dict[str, Any]:
    kinds = ["enum", "const", "integer", "boolean", "null", "string", "number", "pattern"]
    if depth > 0:
        kinds += ["object", "array", "anyOf"]
    kind = rng.choice(kinds)
    if kind == "enum":
        return {"enum": rng.sample([*_WORDS, 1, 2.5, None, True], rng.randint(1, 5))}
    if kind == "const":
        return {"const": rng.choice([*_WORDS, 17, False, {"k": [1, "v"]}])}
    if kind == "integer":
        low = rng.randint(-50, 50)
        return {"type": "integer", "minimum": low, "maximum": low + rng.randint(0, 1000)}
    if kind == "number":
        return (
            {"type": "number", "minimum": -1, "maximum": 1, "multipleOf": 0.25}
            if rng.random() < 0.2
            else {"enum": [0.5, -1e3, 12]}
        )
    if kind == "string":
        return {"type": "string", "maxLength": rng.randint(0, 6)}
    if kind == "pattern":
        return {"type": "string", "pattern": rng.choice(["^[a-c]{2,4}$", "^(the|then) cat$", "^[0-9]{3}-x$"])}
    if kind == "object":
        return _object(rng, depth)
    if kind == "array":
        return {"type": "array", "items": _value(rng, depth - 1), "maxItems": rng.randint(0, 3)}
    if kind == "anyOf":
        return {"anyOf": [_value(rng, depth - 1) for _ in range(2)]}
    return {"type": kind}
