"""`pyspec-cli generate`: one prompt, one answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pyspec.cli import options as opt
from pyspec.cli.common import Runtime, existing_files, note
from pyspec.cli.output import printable
from pyspec.cli.sampling import sampling_options, takes_sampling


@takes_sampling
def generate(
    context: typer.Context,
    model: opt.Model,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="The prompt; - reads it from stdin.")],
    max_tokens: opt.MaxTokens = 1024,
    temperature: Annotated[
        float,
        typer.Option(
            "--temperature",
            rich_help_panel=opt.SAMPLING,
            help="Randomness; 0 always takes the most probable token.",
        ),
    ] = 0.0,
    top_k: opt.TopK = 40,
    top_p: opt.TopP = 0.95,
    min_p: opt.MinP = 0.05,
    seed: opt.Seed = None,
    draft: opt.Draft = None,
    drafters: opt.Drafters = None,
    n_draft: opt.NDraft = None,
    controller: opt.Controller = None,
    acceptance: opt.Acceptance = None,
    predicted: opt.Predicted = None,
    corpus: opt.Corpora = None,
    schema: opt.Schema = None,
    grammar: opt.GrammarFile = None,
    grammar_whitespace: opt.Whitespace = False,
    system: opt.System = None,
    stop: Annotated[
        list[str] | None,
        typer.Option("--stop", metavar="TEXT", help="End before this text; may be repeated."),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Continue the prompt as plain text, without a template.")
    ] = False,
    template: opt.TemplateOption = None,
    stats: opt.Stats = None,
    json: opt.Json = False,
    no_stream: Annotated[
        bool,
        typer.Option(
            "--no-stream",
            rich_help_panel=opt.OUTPUT,
            help="Print the answer when it is complete.  [default: in pipes]",
        ),
    ] = False,
    n_ctx: opt.NCtx = 4096,
    on_full: opt.OnFull = "stop",
    type_k: opt.TypeK = "f16",
    type_v: opt.TypeV = "f16",
    pack: opt.Pack = True,
    threads: opt.Threads = 0,
    offline: opt.Offline = False,
    accept_licence: opt.AcceptLicence = False,
    **sampling: Any,
) -> None:
    """Answer one prompt. Only the answer goes to stdout; progress, statistics and errors go to stderr.

    PROMPT is one user message, put through the file's chat template when it has one.
    """
    from pyspec.cli.formats import chosen_format, read_text
    from pyspec.cli.session import consume, has_template, open_llm
    from pyspec.cli.statistics import check_stats_form
    from pyspec.errors import OptionError

    runtime: Runtime = context.obj
    check_stats_form(stats)
    if raw and (system is not None or template is not None):
        raise OptionError("--raw goes without a template, so --system and --template have no place")
    call = sampling_options(temperature, top_k, top_p, min_p, seed, max_tokens, sampling)
    call.update(chosen_format(schema, grammar, grammar_whitespace).options)
    call["on_full"] = on_full
    if acceptance is not None:
        call["acceptance"] = acceptance
    if predicted is not None:
        call["predicted"] = read_text(Path(predicted).expanduser(), "text file")
    corpora = existing_files(corpus or [], opt.CORPUS_FILE)
    if stop:
        call["stop"] = stop
    if prompt == "-":
        prompt = sys.stdin.read()
    with open_llm(
        runtime,
        model,
        draft,
        offline=offline,
        accept_licence=accept_licence,
        template=template,
        drafters=drafters,
        n_draft=n_draft,
        controller=controller,
        corpora=corpora or None,
        n_ctx=n_ctx,
        type_k=type_k,
        type_v=type_v,
        pack_weights=pack,
        n_threads=threads,
    ) as llm:
        templated = not raw and has_template(llm, template)
        if system is not None and not templated:
            raise OptionError(f"{model} has no chat template, so --system has no place (see --template)")
        chunks = (
            llm.chat(_messages(system, prompt), stream=True, **call)
            if templated
            else llm.stream(prompt, **call)
        )
        live = sys.stdout.isatty() and not (no_stream or json)
        try:
            result = consume(chunks, _show if live else lambda text: None)
        except KeyboardInterrupt:
            if live:
                print(flush=True)  # the message about it starts on a line of its own
            raise
        _finish(result, live=live, as_json=json)
    if result.finish_reason == "length" and not json:
        note("(the answer was cut: --max-tokens or the end of the context)")
    if stats is not None:
        from pyspec.cli.statistics import print_stats

        print_stats(stats, result)


def _messages(system: str | None, prompt: str) -> list[dict[str, Any]]:
    first = [] if system is None else [{"role": "system", "content": system}]
    return [*first, {"role": "user", "content": prompt}]


def _show(text: str) -> None:
    sys.stdout.write(printable(text))
    sys.stdout.flush()


def _finish(result: Any, *, live: bool, as_json: bool) -> None:
    if as_json:
        import json

        from pyspec.cli.statistics import result_json

        print(json.dumps(result_json(result), ensure_ascii=False))
    else:
        text = "" if live else printable(result.text) if sys.stdout.isatty() else result.text
        print(text, end="" if result.text.endswith("\n") else "\n", flush=True)
