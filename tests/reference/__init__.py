"""Forward passes in NumPy, written for clarity, as an independent check of logits and hidden states."""

from .forward import Knobs, Trace, forward

__all__ = ["Knobs", "Trace", "forward"]
