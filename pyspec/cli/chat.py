"""`pyspec-cli chat`: a conversation in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from pyspec.cli import options as opt
from pyspec.cli.common import Runtime


def chat(
    context: typer.Context,
    model: opt.Model,
    draft: opt.Draft = None,
    drafters: opt.Drafters = None,
    n_draft: opt.NDraft = None,
    controller: opt.Controller = None,
    system: opt.System = None,
    max_tokens: opt.MaxTokens = 1024,
    temperature: Annotated[
        float, typer.Option("--temperature", help="Randomness; 0 always takes the most probable token.")
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
    no_history: Annotated[
        bool, typer.Option("--no-history", help="Keep no file of what was typed (it serves the up arrow).")
    ] = False,
    offline: opt.Offline = False,
    accept_licence: opt.AcceptLicence = False,
) -> None:
    """Talk with a model. Ctrl-C stops an answer, Ctrl-D leaves, /help lists the commands.

    Without a terminal, each line of stdin is one message.
    """
    from pyspec.cli.chat_input import make_reader
    from pyspec.cli.chat_loop import ChatLoop
    from pyspec.cli.common import short_name
    from pyspec.cli.session import has_template, open_llm, sampling_options
    from pyspec.llm.chat_template import template_from_model

    runtime: Runtime = context.obj
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
        n_ctx=n_ctx,
        type_k=type_k,
        type_v=type_v,
        pack_weights=pack,
        n_threads=threads,
    ) as llm:
        if not has_template(llm, template):
            template_from_model(llm.model)  # raises the error that says what is missing and what to do
        options = sampling_options(temperature, top_k, top_p, min_p, seed, max_tokens)
        options["on_full"] = on_full
        loop = ChatLoop(
            llm, make_reader(keep_history=not no_history), options, system=system, has_draft=draft is not None
        )
        loop.run(short_name(model))
