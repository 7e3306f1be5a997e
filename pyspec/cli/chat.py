"""`pyspec-cli chat`: a conversation in the terminal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pyspec.cli import options as opt
from pyspec.cli.common import Runtime
from pyspec.cli.sampling import sampling_options, takes_sampling


@takes_sampling
def chat(
    context: typer.Context,
    model: opt.Model,
    draft: opt.Draft = None,
    drafters: opt.Drafters = None,
    n_draft: opt.NDraft = None,
    controller: opt.Controller = None,
    acceptance: opt.Acceptance = None,
    corpus: opt.Corpora = None,
    schema: opt.Schema = None,
    grammar: opt.GrammarFile = None,
    grammar_whitespace: opt.Whitespace = False,
    system: opt.System = None,
    max_tokens: opt.MaxTokens = 1024,
    temperature: Annotated[
        float,
        typer.Option(
            "--temperature",
            rich_help_panel=opt.SAMPLING,
            help="Randomness; 0 always takes the most probable token.",
        ),
    ] = 0.8,
    top_k: opt.TopK = 40,
    top_p: opt.TopP = 0.95,
    min_p: opt.MinP = 0.05,
    seed: opt.Seed = None,
    template: opt.TemplateOption = None,
    n_ctx: opt.NCtx = 4096,
    on_full: opt.OnFull = "stop",
    type_k: opt.TypeK = "f16",
    type_v: opt.TypeV = "f16",
    pack: opt.Pack = True,
    threads: opt.Threads = 0,
    stats: opt.Stats = None,
    no_history: Annotated[
        bool, typer.Option("--no-history", help="Keep no file of what was typed (it serves the up arrow).")
    ] = False,
    offline: opt.Offline = False,
    accept_licence: opt.AcceptLicence = False,
    **sampling: Any,
) -> None:
    """Talk with a model. Ctrl-C stops an answer, Ctrl-D leaves, /help lists the commands.

    Without a terminal, each line of stdin is one message.
    """
    from pyspec.cli.chat_input import make_reader
    from pyspec.cli.chat_loop import ChatLoop
    from pyspec.cli.common import existing_files, short_name
    from pyspec.cli.formats import chosen_format
    from pyspec.cli.session import has_template, open_llm
    from pyspec.cli.statistics import check_stats_form
    from pyspec.llm.chat_template import template_from_model

    runtime: Runtime = context.obj
    check_stats_form(stats)
    options = sampling_options(temperature, top_k, top_p, min_p, seed, max_tokens, sampling)
    options["on_full"] = on_full
    if acceptance is not None:
        options["acceptance"] = acceptance
    corpora = existing_files(corpus or [], opt.CORPUS_FILE)
    chosen = chosen_format(schema, grammar, grammar_whitespace)
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
        if not has_template(llm, template):
            template_from_model(llm.model)  # raises the error that says what is missing and what to do
        loop = ChatLoop(
            llm,
            make_reader(keep_history=not no_history),
            options,
            system=system,
            has_draft=draft is not None,
            answer_format=chosen,
            stats=stats,
        )
        loop.run(short_name(model))
