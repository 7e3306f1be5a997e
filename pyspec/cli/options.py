"""Options that several verbs take, with their help texts. Ranges are checked by the library, once for all front ends."""

from __future__ import annotations

from typing import Annotated

import typer

# Sections of --help, beside "Options".
SPECULATION, FORMAT, MEMORY, OUTPUT = "Speculation", "Structured output", "Model and memory", "Output"
SAMPLING = "Sampling"

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="Path of a GGUF file, or a name from `pyspec-cli fetch`.")
]
Draft = Annotated[
    str | None,
    typer.Option(
        "--draft",
        metavar="MODEL",
        rich_help_panel=SPECULATION,
        help="Draft model (path or name) for the drafter draft-simple.",
    ),
]
Drafters = Annotated[
    str | None,
    typer.Option(
        "--drafters",
        metavar="LIST",
        rich_help_panel=SPECULATION,
        help="Drafters in order of priority, with options: ngram-simple:n=12,m=48,draft-simple:n_draft=4; "
        "or none.  [default: suffix, and draft-simple with --draft]",
    ),
]
NDraft = Annotated[
    int | None,
    typer.Option(
        "--n-draft",
        metavar="TOKENS",
        rich_help_panel=SPECULATION,
        help="Longest draft; lengths are then fixed instead of chosen by measured costs.",
    ),
]
Controller = Annotated[
    str | None,
    typer.Option(
        "--controller",
        metavar="auto|fixed",
        rich_help_panel=SPECULATION,
        help="auto chooses drafter and length by measured costs; fixed verifies every draft.  "
        "[default: auto, fixed with --n-draft]",
    ),
]
MaxTokens = Annotated[
    int,
    typer.Option(
        "--max-tokens", metavar="TOKENS", help="Longest answer; -1 means until the context is full."
    ),
]
TopK = Annotated[
    int,
    typer.Option(
        "--top-k", rich_help_panel=SAMPLING, help="Sample among the K most probable tokens; 0 turns it off."
    ),
]
TopP = Annotated[
    float,
    typer.Option(
        "--top-p",
        rich_help_panel=SAMPLING,
        help="Sample among the most probable tokens up to this total; 1 is off.",
    ),
]
MinP = Annotated[
    float,
    typer.Option(
        "--min-p",
        rich_help_panel=SAMPLING,
        help="Drop tokens less probable than this share of the best one; 0 is off.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        rich_help_panel=SAMPLING,
        help="Makes sampled text repeatable.  [default: a new one each time]",
    ),
]
NCtx = Annotated[
    int,
    typer.Option(
        "--n-ctx",
        metavar="TOKENS",
        rich_help_panel=MEMORY,
        help="Context length, capped to what the model was trained for.",
    ),
]
OnFull = Annotated[
    str,
    typer.Option(
        "--on-full",
        metavar="stop|roll",
        rich_help_panel=MEMORY,
        help="End of the context: stop, or forget the middle and go on.",
    ),
]
TypeK = Annotated[
    str,
    typer.Option(
        "--type-k",
        metavar="TYPE",
        rich_help_panel=MEMORY,
        help="Type of the keys in memory: f32, f16, bf16 or q8_0.",
    ),
]
TypeV = Annotated[
    str,
    typer.Option(
        "--type-v",
        metavar="TYPE",
        rich_help_panel=MEMORY,
        help="Type of the values in memory: f32, f16, bf16 or q8_0.",
    ),
]
Pack = Annotated[
    bool,
    typer.Option(
        "--pack/--no-pack",
        rich_help_panel=MEMORY,
        help="Copy the weights into the form of the fast kernels, or compute on the file.",
    ),
]
Threads = Annotated[
    int,
    typer.Option("--threads", metavar="N", rich_help_panel=MEMORY, help="Threads for computing; 0 chooses."),
]
TemplateOption = Annotated[
    str | None,
    typer.Option(
        "--template",
        metavar="NAME|FILE",
        rich_help_panel=MEMORY,
        help="Chat template instead of the file's: chatml, or a jinja2 file.",
    ),
]
System = Annotated[str | None, typer.Option("--system", metavar="TEXT", help="System message.")]
Offline = Annotated[bool, typer.Option("--offline", rich_help_panel=MEMORY, help="Never download a model.")]
AcceptLicence = Annotated[
    bool,
    typer.Option(
        "--accept-licence",
        rich_help_panel=MEMORY,
        help="Accept the terms of a model that asks for it, without a question.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print one JSON object on stdout instead.")
]

Acceptance = Annotated[
    str | None,
    typer.Option(
        "--acceptance",
        metavar="match|rejection",
        rich_help_panel=SPECULATION,
        help="How drafts are judged: match never changes the text; rejection only keeps its distribution.  "
        "[default: match]",
    ),
]
Predicted = Annotated[
    str | None,
    typer.Option(
        "--predicted",
        metavar="FILE",
        rich_help_panel=SPECULATION,
        help="A text that the answer will resemble, such as the file to be edited; drafts are copied from it.",
    ),
]
#: What `--corpus` expects.
CORPUS_FILE = "corpus made by `pyspec-cli corpus`"
Corpora = Annotated[
    list[str] | None,
    typer.Option(
        "--corpus",
        metavar="FILE",
        rich_help_panel=SPECULATION,
        help="Texts that answers may resemble in parts, made by `pyspec-cli corpus`. Can be given several times.",
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FILE|json",
        rich_help_panel=FORMAT,
        help="Answer in JSON after the JSON schema in FILE; json: any JSON object.",
    ),
]
GrammarFile = Annotated[
    str | None,
    typer.Option(
        "--grammar",
        metavar="FILE",
        rich_help_panel=FORMAT,
        help="Answer after a grammar: Lark (start: …) or GBNF (root ::= …).",
    ),
]
Whitespace = Annotated[
    bool,
    typer.Option(
        "--grammar-whitespace",
        rich_help_panel=FORMAT,
        help="JSON may have white space between its parts; without it JSON is compact.",
    ),
]
Stats = Annotated[
    str | None,
    typer.Option(
        "--stats",
        metavar="[table|json]",
        rich_help_panel=OUTPUT,
        help="Speed, drafters and controller of each answer on stderr: as a table, or as one JSON object in a line.",
    ),
]
