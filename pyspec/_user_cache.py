"""Where this user's files that can be made again are kept: fetched models, measured costs."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def user_cache(folder: str) -> Path:
    """A directory for one kind of files; not created here.

    $XDG_CACHE_HOME/pyspec/FOLDER where that variable is set, else the platform's cache directory for the user.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    if base and os.path.isabs(base):  # the XDG rules say to ignore relative values
        root = Path(base)
    elif sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches"
    else:
        root = Path.home() / ".cache"
    return root / "pyspec" / folder
