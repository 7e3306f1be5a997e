"""What can go wrong between a model's name and its file."""

from __future__ import annotations

from pyspec.errors import PyspecError


class FetchError(PyspecError):
    """A model file could not be found, downloaded or put together."""


class ModelNotFoundError(FetchError, FileNotFoundError):
    """The given text is neither an existing file nor a name in the manifest."""


class DownloadError(FetchError):
    """pip is missing, the package index cannot be reached, or it lacks a package."""


class ChecksumError(FetchError):
    """A downloaded package or the joined file is not what the manifest says."""


class LicenceError(FetchError):
    """The model's terms have to be accepted first, and nobody has."""


class OfflineError(FetchError):
    """The file is not in the cache and fetching is forbidden."""
