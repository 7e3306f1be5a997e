"""The binding to the C core: the only Python that knows C.

`lib()` gives cffi's two objects and `check` turns a status into an error; `jobs.run_cancellable` runs a long call so
that Ctrl-C and CancelToken work, `log.drain_log` forwards the core's log. The library is loaded by the first `lib()`,
not by the import.

The folder that holds the library is this package's, or the one named by the environment variable PYSPEC_NATIVE_DIR
(for developers: the folder `native` of a CMake build).
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from pathlib import Path
from typing import Any

from pyspec._native.cpu import refuse_foreign_cpu
from pyspec.errors import InternalError, PyspecError, UnsupportedError, status_to_error

__all__ = ["build_info", "check", "include_dir", "lib", "native_dir", "status_error"]

LIBRARY_NAME = "libpyspec.so"


@functools.cache
def native_dir() -> Path:
    """The folder that holds the library, its binding and its build record."""
    override = os.environ.get("PYSPEC_NATIVE_DIR")
    places = [Path(override)] if override else [Path(place) for place in __path__]
    for place in places:
        if (place / LIBRARY_NAME).is_file():
            return place
    searched = ", ".join(map(str, places))
    raise UnsupportedError(
        f"pyspec's library {LIBRARY_NAME} is not in {searched}; install pyspec from its source folder "
        "with `pip install .`, or run `make build` there"
    )


def include_dir() -> Path:
    """The folder that holds pyspec.h, for C programs that link against the library in `native_dir()`."""
    return native_dir() / "include"


@functools.cache
def build_info() -> dict[str, Any]:
    """What the library was built for and with, as recorded by the build. Does not load the library."""
    import json

    path = native_dir() / "build_info.json"
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnsupportedError(
            f"pyspec's build record {path} cannot be read ({error}); install pyspec again"
        ) from None
    return record


@functools.cache
def lib() -> tuple[Any, Any]:
    """cffi's `(ffi, lib)`. The first call checks the CPU and loads the library; any thread.

    Raises UnsupportedError when the library is missing or was built for another CPU.
    """
    refuse_foreign_cpu(build_info()["instruction_sets"])
    path = native_dir() / LIBRARY_NAME
    ffi = _load_binding().ffi
    try:
        return ffi, ffi.dlopen(str(path))
    except OSError as error:
        raise UnsupportedError(f"pyspec's library {path} cannot be loaded: {error}") from None


def _load_binding() -> Any:
    name = "pyspec._native._binding"
    path = native_dir() / "_binding.py"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UnsupportedError(f"pyspec's binding {path} is missing; install pyspec again")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def status_error(status: int) -> PyspecError:
    """The error for a status that is not PYSPEC_OK, with the message of this thread's last failed call."""
    ffi, library = lib()
    message = ffi.string(library.pyspec_last_error()).decode("utf-8", "replace")
    kind = status_to_error.get(int(status), InternalError)
    if not message:
        message = ffi.string(library.pyspec_status_name(status)).decode()
    return kind(message)


def check(status: int) -> None:
    """Raise the error of `status` unless it is PYSPEC_OK. Call it on the thread that made the failed call."""
    if status:
        raise status_error(status)
