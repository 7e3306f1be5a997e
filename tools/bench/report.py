"""A result as JSON for programs and as a table for people."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

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
            "spread": {
                side: {key: asdict(found) for key, found in spread.items()}
                for side, spread in result.spread.items()
            },
            "samples": result.samples,
        },
    }


def as_text(result: Result) -> str:
    """Heading, table, notes."""
    lines = [*_heading(result), "", *table(_rows(result))]
    if result.notes:
        lines += ["", *result.notes]
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
    lines.append(f"{result.what}: {result.model}, {result.threads} threads, {result.unit}")
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
    """What only some benchmarks have: T(n)/T(1), or the counts of speculation."""
    if result.what == "tn" and "1" in keys:
        columns = {"T(n)/T(1)": [number(result.pyspec[key] / result.pyspec["1"]) for key in keys]}
        if result.peer:
            columns["peer T(n)/T(1)"] = [number(result.peer[key] / result.peer["1"]) for key in keys]
        return columns
    if result.what == "spec":
        columns = {
            name: [str(result.pyspec[key][name]) for key in keys]
            for name in ("drafted", "accepted", "rounds")
        }
        columns["plain"] = [number(result.pyspec[key]["plain_tok_s"]) for key in keys]
        columns["text"] = ["same" if result.pyspec[key]["same_text"] else "OTHER" for key in keys]
        return columns
    return {}


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
