"""`python -m tests.tiny DIR [DTYPE ...]`: write every family (f32 unless types are given; K-quants use wide
models)."""

from __future__ import annotations

import sys
from pathlib import Path

from .families import FAMILIES, needs_wide, wide
from .write import make_model


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    target = Path(arguments[0])
    target.mkdir(parents=True, exist_ok=True)
    for dtype in arguments[1:] or ["f32"]:
        for family in FAMILIES:
            overrides = wide(family, dtype) if needs_wide(dtype) else None
            print(make_model(family, target / f"{family}-{dtype}.gguf", dtype=dtype, overrides=overrides))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
