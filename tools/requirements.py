"""Print what a developer's environment holds: the build's, the package's, the tests' and lint's requirements.

With these installed the package itself is built without isolation, which lets a second build reuse the first one.
CMake and Ninja come from the index too, so that a machine needs only Python and a compiler.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Read pyproject.toml of the current folder; print one requirement per line."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # pip carries a TOML reader, and nothing else is installed yet
        from pip._vendor import tomli as tomllib

    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    requirements = [
        *project["build-system"]["requires"],
        "cmake>=3.21",
        "ninja",
        *project["project"]["dependencies"],
        *extras["test"],
        *extras["dev"],
    ]
    print("\n".join(dict.fromkeys(requirements)))


if __name__ == "__main__":
    main()
