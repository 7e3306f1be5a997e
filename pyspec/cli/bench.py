"""`pyspec-cli bench`: how fast is this model on this machine, plain and with drafters?"""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from pyspec.cli import options as opt
from pyspec.cli.common import Runtime

_TEXT = (
    "A lighthouse keeper writes down the weather, the ships and the state of the lamp every evening. "
    "In the morning the ledger is read aloud, corrected, and carried down to the harbour office. "
)
_TASK = (
    "Write a Python function that reads a CSV file of daily temperatures and prints the mean, the lowest and the highest "
    "value of each month. Explain each step."
)


def bench(
    context: typer.Context,
    model: opt.Model,
    draft: opt.Draft = None,
    drafters: opt.Drafters = None,
    n_draft: opt.NDraft = None,
    controller: opt.Controller = None,
    tokens: Annotated[int, typer.Option("--tokens", help="Length of each answer, in tokens.")] = 128,
    prompt_tokens: Annotated[
        int, typer.Option("--prompt-tokens", help="Length of the prompt that is timed.")
    ] = 512,
    repeat: Annotated[int, typer.Option("--repeat", help="Runs of each kind; medians are shown.")] = 3,
    n_ctx: opt.NCtx = 4096,
    threads: opt.Threads = 0,
    json: opt.Json = False,
    offline: opt.Offline = False,
    accept_licence: opt.AcceptLicence = False,
) -> None:
    """Measure the speed of a model on this machine.

    Loading, prompt processing and greedy generation; with drafters, also what they gain.
    """
    from pyspec.cli.session import open_llm
    from pyspec.errors import OptionError

    runtime: Runtime = context.obj
    for name, value in (("--tokens", tokens), ("--prompt-tokens", prompt_tokens), ("--repeat", repeat)):
        if value < 1:
            raise OptionError(f"{name} has to be at least 1, not {value}")
    begin = time.perf_counter()
    with open_llm(
        runtime,
        model,
        draft,
        offline=offline,
        accept_licence=accept_licence,
        template=None,
        drafters=drafters,
        n_draft=n_draft,
        controller=controller,
        n_ctx=n_ctx,
        n_threads=threads,
    ) as llm:
        result: dict[str, Any] = {"model": model, "load_s": time.perf_counter() - begin}
        result["prompt"] = _prompt_speed(llm, prompt_tokens, repeat)
        plain = _answer_speed(llm, tokens, repeat, drafters="none")
        result["plain"] = plain
        if draft is not None or drafters not in (None, "none"):
            with_drafters = _answer_speed(llm, tokens, repeat)
            with_drafters["same_text"] = with_drafters.pop("text") == plain["text"]
            with_drafters["speedup"] = with_drafters["tok_s"] / plain["tok_s"] if plain["tok_s"] else 0.0
            result["with_drafters"] = with_drafters
        del plain["text"]
    if json:
        from json import dumps

        print(dumps(result))
    else:
        _print_table(result)


def _prompt_speed(llm: Any, prompt_tokens: int, repeat: int) -> dict[str, Any]:
    from statistics import median

    base = llm.tokenize(_TEXT)
    room = min(prompt_tokens, llm.n_ctx - 1)
    body = (base * (room // len(base) + 1))[:room]
    speeds = []
    for run in range(repeat):
        shifted = body[run + 1 :] + body[: run + 1]  # another beginning each time, so that nothing is reused
        stats = llm.generate(shifted, max_tokens=1, temperature=0.0, drafters="none").stats
        speeds.append(1000 * stats.prompt_tokens_evaluated / stats.prompt_ms if stats.prompt_ms else 0.0)
    return {"tokens": room, "tok_s": median(speeds)}


def _answer_speed(llm: Any, tokens: int, repeat: int, **options: Any) -> dict[str, Any]:
    from statistics import median

    from pyspec.cli.session import has_template

    runs = []
    for _ in range(repeat):
        call = {"max_tokens": tokens, "temperature": 0.0, **options}
        if has_template(llm, None):
            runs.append(llm.chat([{"role": "user", "content": _TASK}], **call))
        else:
            runs.append(llm.generate(_TASK, **call))
    last = runs[-1]
    return {
        "tok_s": median(run.stats.tokens_per_second for run in runs),
        "tokens": last.usage.completion,
        "mean_acceptance_length": last.stats.mean_acceptance_length,
        "acceptance": last.stats.acceptance,
        "text": last.text,
    }


def _print_table(result: dict[str, Any]) -> None:
    plain = result["plain"]
    print(f"load       {result['load_s']:.2f} s")
    print(f"prompt     {result['prompt']['tok_s']:.1f} tok/s ({result['prompt']['tokens']} tokens)")
    print(f"plain      {plain['tok_s']:.1f} tok/s ({plain['tokens']} tokens)")
    gained = result.get("with_drafters")
    if gained is not None:
        same = "same text" if gained["same_text"] else "OTHER TEXT"
        print(
            f"drafters   {gained['tok_s']:.1f} tok/s, {gained['speedup']:.2f} x plain, "
            f"mean acceptance length {gained['mean_acceptance_length']:.2f}, {same}"
        )
