"""The terminal program `pyspec-cli`: one module per verb, heavy imports only inside the verbs.

Exit codes: 0 done, 1 failed while running, 2 wrong usage, 3 a model, file or pair that will not do, 130 interrupted,
141 the reader of the output went away. User mistakes are one line on stderr; `--debug` adds the traceback.
"""

from __future__ import annotations

from pyspec.cli.app import main

__all__ = ["main"]
