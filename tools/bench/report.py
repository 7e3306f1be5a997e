"""A result as JSON for programs and as a table for people."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Any

from .drafters import COLUMNS
from .result import Result
from .stats import Summary


def as_json(result: Result) -> dict[str, Any]:
    """The contract's keys, and everything else under "details"."""
    return {
        "what": result.what,
        "model": result.model,
        "threads": result.threads,
        "pyspec": result.pyspec,
        "peer": result.peer,
        "ratio": result.ratio,
        "details": {
            "unit": result.unit,
            "settings": result.settings,
            "versions": result.versions,
            "machine": result.machine,
            "files": result.files,
            "notes": result.notes,
            "roofline": result.roofline,
            "spread": {
                side: {key: asdict(found) for key, found in spread.items()}
                for side, spread in result.spread.items()
            },
            "samples": result.samples,
        },
    }


def as_text(result: Result) -> str:
    """Heading, table, roofline, notes. Of kernels and drafters everything fits into 80 columns."""
    fit = _wrapped if result.what in ("kernels", "drafters") else list
    lines = [*fit(_heading(result)), "", *table(_rows(result))]
    if result.roofline:
        lines += ["", *_wrapped(_roofline(result.roofline))]
    if result.notes:
        lines += ["", *fit(result.notes)]
    return "\n".join(lines)


def table(rows: list[list[str]]) -> list[str]:
    """Rows of cells as aligned lines: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "-" * max(map(len, lines)))
    return lines


def number(value: float | None) -> str:
    """A number with about four digits; "-" for none."""
    if value is None:
        return "-"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3
    return f"{value:.{digits}f}"


def _heading(result: Result) -> list[str]:
    machine, lines = result.machine, []
    about = [result.model, f"{result.threads} threads", result.unit]
    lines.append(f"{result.what}: {', '.join(filter(None, about))}")
    for role, record in result.files.items():
        lines.append(f"{role}: {record['name']}, {record['bytes']} bytes, sha256 {record['sha256']}")
    lines += [f"{name}: {version}" for name, version in result.versions.items()]
    if machine:
        lines.append(
            f"machine: {machine['cpu']}, {machine['cpus']} CPUs, load {machine['load_average']}, {machine['system']}, "
            f"Python {machine['python']}"
        )
        lines.append(f"CPU features: {' '.join(machine['cpu_features'])}")
    shown = {key: value for key, value in result.settings.items() if value is not None}
    lines.append("settings: " + ", ".join(f"{key} {_setting(value)}" for key, value in shown.items()))
    return lines


def _wrapped(lines: list[str]) -> list[str]:
    return [piece for line in lines for piece in textwrap.wrap(line, 79, subsequent_indent="  ") or [""]]


def _roofline(found: dict[str, Any]) -> list[str]:
    lines = [
        f"roofline: {number(found['read_gb_s'])} GB/s read, {number(found['dot_gmac_s'])} GMAC/s of 8-bit numbers "
        f"({found['kernels']}, {found['threads']} threads)"
    ]
    if "bytes" in found:
        lines.append(
            f"a decode reads {number(found['bytes'] / 1e6)} MB of weights and multiplies {number(found['macs'] / 1e6)} "
            "million for each token"
        )
    return lines


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key} {number(found)}" for key, found in value.items()) + ")"
    if isinstance(value, list):
        return "/".join(map(str, value)) or "none"
    return str(value)


def _rows(result: Result) -> list[list[str]]:
    if result.what == "round":
        return _round_rows(result)
    if result.what == "kernels":
        return _kernel_rows(result)
    if result.what == "drafters":
        return _drafter_rows(result)
    if result.what == "acceptance":
        return _acceptance_rows(result)
    if result.what == "chain":
        return _chain_rows(result)
    rows = [["", "pyspec", "quartiles", "peer", "quartiles", "ratio", "quartiles"]]
    keys = list(result.pyspec)
    for key in keys:
        row = [key]
        for side in ("pyspec", "peer", "ratio"):
            row += _cells(result.spread[side].get(key))
        rows.append(row)
    extra = _extra_columns(result, keys)
    for name, cells in extra.items():
        for row, cell in zip(rows, [name, *cells], strict=True):
            row.append(cell)
    if not result.peer:
        rows = [row[:3] + row[7:] for row in rows]
    return rows


def _cells(found: Summary | None) -> list[str]:
    if found is None:
        return ["-", "-"]
    return [number(found.median), f"{number(found.q1)}..{number(found.q3)}"]


def _extra_columns(result: Result, keys: list[str]) -> dict[str, list[str]]:
    """What only some benchmarks have: T(n)/T(1) and the roofline, or the counts of speculation."""
    columns = {}
    if result.what == "tn":
        if "1" in keys:
            columns["T(n)/T(1)"] = [number(result.pyspec[key] / result.pyspec["1"]) for key in keys]
            if result.peer:
                columns["peer T(n)/T(1)"] = [number(result.peer[key] / result.peer["1"]) for key in keys]
        if result.roofline:
            columns["roofline"] = [_percent(result.roofline["share"][key]) for key in keys]
        return columns
    if result.what == "spec":
        columns = {
            name: [str(result.pyspec[key][name]) for key in keys]
            for name in ("drafted", "accepted", "rounds")
        }
        columns["plain"] = [number(result.pyspec[key]["plain_tok_s"]) for key in keys]
        columns["gain"] = [number(result.pyspec[key]["gain"]) for key in keys]
        columns["text"] = ["same" if result.pyspec[key]["same_text"] else "OTHER" for key in keys]
        return columns
    return {}


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _kernel_rows(result: Result) -> list[list[str]]:
    rows = [["type", "matrix", "n", "us", "GB/s", "GMAC/s", "roofline", "ggml GMAC/s", "ratio"]]
    for key, ours in result.pyspec.items():
        rows.append(
            [
                *key.split(),
                *(number(ours[name]) for name in ("us", "gb_s", "gmac_s")),
                _percent(ours["share"]),
                number(result.peer[key]["gmac_s"]),
                number(result.ratio[key]),
            ]
        )
    return rows


def _drafter_rows(result: Result) -> list[list[str]]:
    rows = [["drafter", "history", *COLUMNS.values(), "drafted", "right"]]
    for key, found in result.pyspec.items():
        share = _percent(found["right"] / found["drafted"]) if found["drafted"] else "-"
        numbers = [number(found[name]) for name in COLUMNS]
        rows.append([*key.split(), *numbers, number(found["drafted"] / found["rounds"]), share])
    return rows


def _acceptance_rows(result: Result) -> list[list[str]]:
    rows = [["temperature and way", "drafted", "accepted", "rate", "tokens a verification", "emitted"]]
    for key, found in result.pyspec.items():
        counts = [str(found[name]) for name in ("drafted", "accepted")]
        rows.append(
            [key, *counts, _percent(found["acceptance"]), number(found["length"]), str(found["emitted"])]
        )
    return rows


def _chain_rows(result: Result) -> list[list[str]]:
    alone = list(next(iter(result.pyspec.values()))["alone"])
    rows = [["", "plain", *alone, "together", "best alone", "share", "quartiles", "gain", "text"]]
    for kind, found in result.pyspec.items():
        single = (found["alone"][name]["tok_s"] for name in alone)
        rates = [number(value) for value in (found["plain_tok_s"], *single, found["tok_s"])]
        shares = _cells(result.spread["ratio"].get(kind))
        text = "same" if found["same_text"] else "OTHER"
        rows.append([kind, *rates, found["best"] or "-", *shares, number(found["gain"]), text])
    return rows


def _round_rows(result: Result) -> list[list[str]]:
    found = result.pyspec
    return [
        ["", "pyspec"],
        ["median", number(found["median_us"])],
        ["quartiles", _cells(result.spread["pyspec"]["median_us"])[1]],
        ["95th percentile", number(found["p95_us"])],
        ["whole round, median", number(found["wall_us"])],
        ["rounds", str(found["rounds"])],
    ]
