"""The oracle: llama-cpp-python behind a small interface. `from tests.oracle import Oracle`."""

from .oracle import Oracle, oracle_version

__all__ = ["Oracle", "oracle_version"]
