"""`pyspec-cli inspect`: what is in a model file, what it needs, and who can draft for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyspec.cli import options as opt

if TYPE_CHECKING:
    from pyspec.core.model import Model


def inspect(
    model: opt.Model,
    draft: opt.Draft = None,
    n_ctx: opt.NCtx = 4096,
    tensors: Annotated[
        bool, typer.Option("--tensors", help="List every tensor, not only the sums by type.")
    ] = False,
    json: opt.Json = False,
    offline: opt.Offline = False,
    accept_licence: opt.AcceptLicence = False,
) -> None:
    """Show what is in a model file and what it needs.

    Metadata, tensors, memory for a context, and which drafters fit; the weights are not loaded.
    """
    from pyspec.cli.common import find_model
    from pyspec.core.context import memory_estimate
    from pyspec.core.model import Model

    path = find_model(model, offline=offline, accept_licence=accept_licence)
    draft_path = None if draft is None else find_model(draft, offline=offline, accept_licence=accept_licence)
    with Model(path, metadata_only=True) as opened:
        length = min(n_ctx, opened.info.n_ctx_train) if n_ctx > 0 else opened.info.n_ctx_train
        memory = memory_estimate(opened, n_ctx=length)
        fits = drafter_fits(opened, draft_path)
        if json:
            _print_json(opened, memory, length, fits)
        else:
            for line in _report(opened, memory, length, fits, tensors):
                print(line)


def drafter_fits(model: Model, draft: Path | None) -> list[tuple[str, str, str]]:
    """(drafter, "yes" / "no" / "with a draft", why) for every drafter of the registry.

    Without a draft file, the fetched models that are smaller than this one are tried.
    """
    from pyspec.drafters.registry import DRAFTER_KINDS

    rows = []
    for kind in DRAFTER_KINDS:
        if not kind.needs_draft_model:
            rows.append((kind.name, "yes", kind.summary))
        elif draft is not None:
            rows.append((kind.name, *_fit(model, draft)))
        else:
            names = _fetched_drafts(model)
            found = f"fetched and fitting: {', '.join(names)}" if names else kind.summary
            rows.append((kind.name, "with a draft", found))
    return rows


def _fit(model: Model, draft: Path) -> tuple[str, str]:
    from pyspec.drafters.pair import check_pair

    report = check_pair(model, draft)
    if report.ok:
        return "yes", f"{draft.name} has the same vocabulary"
    return "no", f"{draft.name}: {'; '.join(map(str, report.failures))}"


def _fetched_drafts(model: Model) -> list[str]:
    from pyspec.errors import PyspecError
    from pyspec.fetch import cached_path, load_manifest

    names = []
    for entry in load_manifest().values():
        path = cached_path(entry.name)
        if path is None or entry.size >= model.info.file_bytes:
            continue
        try:
            if _fit(model, path)[0] == "yes":
                names.append(entry.name)
        except PyspecError:
            continue  # a damaged file in the cache is not this model's problem
    return names


def _report(
    model: Model, memory: Any, n_ctx: int, fits: list[tuple[str, str, str]], all_tensors: bool
) -> Iterator[str]:
    from pyspec.cli.output import bold, columns_table
    from pyspec.fetch.cache import format_bytes

    info = model.info
    yield bold(f"{model.path}")
    yield f"{info.name or 'unnamed'}, {info.architecture}, {_count(info.n_params)} parameters, {format_bytes(info.file_bytes)}"
    experts = f", {info.n_expert} experts ({info.n_expert_used} used)" if info.n_expert else ""
    window = f", sliding window {info.sliding_window}" if info.sliding_window else ""
    yield (
        f"{info.n_layer} layers, width {info.n_embd}, feed-forward {info.n_ff}{experts}, heads {info.n_head} "
        f"(KV {info.n_head_kv}), vocabulary {info.n_vocab}, trained for {info.n_ctx_train} tokens{window}"
    )
    yield ""
    yield bold("metadata")
    width = max((len(key) for key in model.metadata), default=0)
    for key, value in model.metadata.items():
        yield _cut(f"  {key.ljust(width)}  {_value(value)}")
    yield ""
    yield bold("tensors")
    rows = [["  type", "tensors", "bytes", "share"]]
    total = max(1, sum(tensor["bytes"] for tensor in model.tensors))
    for name, (count, size) in _by_type(model.tensors).items():
        rows.append([f"  {name}", str(count), format_bytes(size), f"{100 * size / total:.1f} %"])
    yield from columns_table(rows, right=frozenset({1, 2, 3}))
    if all_tensors:
        yield ""
        listed = [["  name", "type", "shape", "bytes"]]
        listed += [
            [f"  {t['name']}", t["type"], " x ".join(map(str, t["shape"])), str(t["bytes"])]
            for t in model.tensors
        ]
        yield from columns_table(listed, right=frozenset({3}))
    yield ""
    yield bold(f"memory for a context of {n_ctx} tokens")
    need = memory.weight_bytes + memory.cache_bytes + memory.compute_bytes + memory.output_bytes
    rows = [
        ["  weights", format_bytes(memory.weight_bytes)],
        ["  cache", format_bytes(memory.cache_bytes)],
        ["  compute", format_bytes(memory.compute_bytes)],
        ["  output rows", format_bytes(memory.output_bytes)],
        ["  together", format_bytes(need)],
        ["  available now", format_bytes(memory.available_bytes)],
    ]
    yield from columns_table(rows, right=frozenset({1}))
    yield ""
    yield bold("drafters")
    for line in columns_table([[f"  {name}", fit, why] for name, fit, why in fits]):
        yield _cut(line)


def _print_json(model: Model, memory: Any, n_ctx: int, fits: list[tuple[str, str, str]]) -> None:
    from json import dumps

    data = {
        "path": str(model.path),
        "info": dataclasses.asdict(model.info),
        "metadata": model.metadata,
        "tensors": model.tensors,
        "n_ctx": n_ctx,
        "memory": dataclasses.asdict(memory),
        "drafters": [{"name": name, "fits": fit, "why": why} for name, fit, why in fits],
    }
    print(dumps(data, ensure_ascii=False, default=str))


def _by_type(tensors: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """type -> (tensors, bytes), largest first."""
    sums: dict[str, tuple[int, int]] = {}
    for tensor in tensors:
        count, size = sums.get(tensor["type"], (0, 0))
        sums[tensor["type"]] = (count + 1, size + tensor["bytes"])
    return dict(sorted(sums.items(), key=lambda item: -item[1][1]))


def _value(value: Any) -> str:
    from pyspec.cli.output import printable

    if isinstance(value, dict) and set(value) == {"array", "length"}:
        return f"{value['length']} x {value['array']}"
    if isinstance(value, str):
        return printable(value.replace("\n", "\\n").replace("\t", "\\t"))
    return str(value)


def _cut(line: str) -> str:
    """The line, cut to the terminal's width; --json has the whole values."""
    import sys

    from pyspec.cli.output import cut_to, terminal_width

    return cut_to(line, terminal_width() if sys.stdout.isatty() else 120)


def _count(number: int) -> str:
    return (
        f"{number / 1e9:.2f}B" if number >= 1e9 else f"{number / 1e6:.0f}M" if number >= 1e6 else str(number)
    )
