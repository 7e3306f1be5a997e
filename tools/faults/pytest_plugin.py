"""Loaded into the runs of the tests (`-p tools.faults.pytest_plugin`), before anything is imported from pyspec."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

# An editable install finds pyspec's modules in the real tree whatever the path says.
sys.meta_path[:] = [
    finder for finder in sys.meta_path if type(finder).__name__ != "ScikitBuildRedirectingFinder"
]

try:
    from hypothesis import HealthCheck, Phase, settings
except ImportError:
    pass
else:
    # One failing example is enough: looking for the smallest takes minutes.
    settings.register_profile(
        "faults",
        phases=[Phase.explicit, Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    settings.load_profile("faults")


def pytest_collection_finish() -> None:
    """A run that tests other files than the changed ones would prove nothing."""
    import pyspec

    root = Path(os.environ["PYSPEC_FAULTS_TREE"])
    if root not in Path(pyspec.__file__).resolve().parents:
        pytest.exit(f"pyspec comes from {pyspec.__file__}, not from {root}", returncode=3)
