"""`pyspec-cli check-pair`: can one model draft for another?"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from pyspec.cli import options as opt
from pyspec.cli.common import MODEL


def check_pair(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The model that answers (path or name).")],
    draft: Annotated[str, typer.Argument(metavar="DRAFT", help="The model that would draft (path or name).")],
    json: opt.Json = False,
    offline: opt.Offline = False,
    accept_licence: opt.AcceptLicence = False,
) -> None:
    """Can one model draft for another?

    Compares the vocabularies and lists every rule that fails, with both values.
    Exit code 0 when DRAFT can draft for TARGET, 3 when it cannot. Neither model's weights are loaded.
    """
    from pyspec.cli.common import find_model
    from pyspec.drafters.pair import check_pair as compare

    paths = [find_model(name, offline=offline, accept_licence=accept_licence) for name in (target, draft)]
    report = compare(paths[0], paths[1])
    if json:
        from json import dumps

        data: dict[str, Any] = {**dataclasses.asdict(report), "ok": report.ok}
        print(dumps(data, ensure_ascii=False))
    else:
        print(report)
    if not report.ok:
        raise typer.Exit(MODEL)
