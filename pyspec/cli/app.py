"""The command line as a whole: verbs, global options, and how everything that goes wrong ends."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Annotated, Any

import typer

from pyspec.cli import bench, chat, check_pair, corpus, fetch, generate, inspect
from pyspec.cli.common import PROGRAM, USAGE, Runtime, end_with, report
from pyspec.cli.verb import Verb

# click's ClickException, wherever this typer keeps it
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[2]

# The runtime of the running `main`, for the errors of its verb.
_runtime: ContextVar[Runtime] = ContextVar("pyspec_cli_runtime")

# Plain help: half the start time of the boxed one, and the same in logs and terminals.
app = typer.Typer(
    name=PROGRAM,
    help="Run local GGUF language models fast, with speculative decoding that never changes the text.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 model or file unusable, 130 interrupted.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _guarded(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with its errors turned into a line and an exit code, before typer makes its own of some of them."""

    @functools.wraps(verb)
    def call(*arguments: Any, **options: Any) -> None:
        try:
            verb(*arguments, **options)
        except (typer.Exit, typer.Abort, _USAGE_ERROR):
            raise
        except (Exception, KeyboardInterrupt) as error:
            raise typer.Exit(end_with(error, _runtime.get())) from error

    return call


for _name, _verb in (
    ("chat", chat.chat),
    ("generate", generate.generate),
    ("inspect", inspect.inspect),
    ("check-pair", check_pair.check_pair),
    ("corpus", corpus.corpus),
    ("fetch", fetch.fetch),
    ("bench", bench.bench),
):
    app.command(_name, cls=Verb)(_guarded(_verb))


def _version(value: bool) -> None:
    if value:
        from pyspec._version import __version__

        print(f"{PROGRAM} {__version__}")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def _global_options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None, runtime: Runtime | None = None) -> int:
    """Run the program and return its exit code. `arguments` without the program's name (default: sys.argv).

    `runtime` replaces what the verbs are built on, such as the class of the model (tests, other front ends).
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    own = runtime if runtime is not None else Runtime()
    options = words[: words.index("--")] if "--" in words else words
    if "--debug" in options:
        own.debug = True
        words.remove("--debug")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a model may emit what the terminal's encoding lacks
    token = _runtime.set(own)
    try:
        result: Any = app(args=words, prog_name=PROGRAM, standalone_mode=False, obj=own)
        sys.stdout.flush()
    except _USAGE_ERROR as error:
        report(_usage_message(error))
        return USAGE
    except (Exception, KeyboardInterrupt) as error:
        return end_with(error, own)
    finally:
        _runtime.reset(token)
    return result if isinstance(result, int) else 0


def _usage_message(error: BaseException) -> str:
    message = " ".join(str(getattr(error, "format_message", lambda: error)()).split()).rstrip(".")
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else PROGRAM
    return f"{message} (see `{where} --help`)"
