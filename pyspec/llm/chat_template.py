"""Chat templates: the jinja2 program in a model file that turns messages into the text the model was trained on.

The environment is the one template authors write for (that of the Hugging Face transformers library): blocks trimmed,
`break` and `continue`, `raise_exception`, `strftime_now`, a `tojson` that escapes nothing for HTML, and a `generation`
block that does nothing. It is sandboxed: a template comes with a downloaded file. A template is compiled when it is first
rendered, so a file with a broken one still loads and generates.

The rendered text usually begins with the BOS token as text. Whoever tokenises it asks `starts_with_bos` and lets the
tokenizer add BOS only when it does not; the text itself is never stripped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyspec.errors import OptionError, TemplateError

if TYPE_CHECKING:
    from jinja2 import Environment, Template

    from pyspec.core.model import Model

#: Templates that can be asked for by name when a file has none: `template="chatml"`.
BUILTIN_TEMPLATES: Mapping[str, str] = {
    "chatml": (
        "{%- for message in messages %}"
        "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
        "{%- endfor %}"
        "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"
    ),
}

_KEY = "tokenizer.chat_template"
_TEMPLATE_FILE = "<template>"  # the name jinja2 gives to the frames of a template made from a string
_PROBE = "pyspec-probe-text"


class ChatTemplate:
    """One chat template, compiled at the first `render`.

    source: jinja2 text. bos, eos: text of those tokens ("" when the model has none); `tokens` adds others by the name
    templates use ("unk_token", "pad_token"). tool_source: a second template, used when tools are given. `now` is the
    clock behind `strftime_now`.
    Not shared state: rendering changes nothing but the compiled form, so one object may serve many sessions of a thread.
    """

    def __init__(
        self,
        source: str,
        *,
        bos: str = "",
        eos: str = "",
        tokens: Mapping[str, str] | None = None,
        tool_source: str | None = None,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.source = source
        self.bos = bos
        self.eos = eos
        self.tool_source = tool_source
        self._tokens = {**(tokens or {}), "bos_token": bos, "eos_token": eos}
        self._now = now
        self._compiled: dict[str, Template] = {}
        self._takes_parts: dict[str, bool] = {}

    def render(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        tools: Sequence[Any] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The prompt text. `variables` reach the template as they are (enable_thinking=False and the like).

        messages: mappings with "role" and "content"; content is text, None, or a list of {"type": "text", "text": …}
        parts, which is joined to text unless the template handles lists itself. Other keys (tool_calls, name) pass
        through. Raises TemplateError (line and reason) or OptionError (messages that cannot be rendered).
        """
        source = self.tool_source if tools and self.tool_source is not None else self.source
        checked = [self._message(number, message, source) for number, message in enumerate(messages)]
        names = {"tools": tools, "documents": None, "add_generation_prompt": add_generation_prompt}
        return self._run(source, {"messages": checked, **self._tokens, **names, **variables})

    def starts_with_bos(self, text: str) -> bool:
        """True when rendered text already has the BOS token; the tokenizer must then not add another."""
        return bool(self.bos) and text.startswith(self.bos)

    def _message(self, number: int, message: Mapping[str, Any], source: str) -> dict[str, Any]:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise OptionError(f"message {number} has to be a mapping with a 'role' and a 'content'")
        copy = dict(message)
        content = copy.get("content")
        if content is None or isinstance(content, str):
            copy.setdefault("content", None if "tool_calls" in copy else "")
            return copy
        if isinstance(content, (Mapping, bytes)) or not isinstance(content, Sequence):
            kind = type(content).__name__
            raise OptionError(f"message {number}: content has to be text or a list of parts, not {kind}")
        texts = [_part_text(number, part) for part in content]
        if not self._handles_parts(source):
            copy["content"] = "".join(texts)
        return copy

    def _handles_parts(self, source: str) -> bool:
        """Whether the template takes a list as content, found by trying one."""
        if source not in self._takes_parts:
            messages = [{"role": "user", "content": [{"type": "text", "text": _PROBE}]}]
            names = {"tools": None, "documents": None, "add_generation_prompt": False}
            try:
                text = self._run(source, {"messages": messages, **self._tokens, **names})
            except TemplateError:
                text = ""
            # A template for plain text either fails on the list or prints it as Python would, quotes and keys included.
            self._takes_parts[source] = (
                _PROBE in text and f"'{_PROBE}'" not in text and f'"{_PROBE}"' not in text
            )
        return self._takes_parts[source]

    def _run(self, source: str, variables: Mapping[str, Any]) -> str:
        if source not in self._compiled:
            self._compiled[source] = _compile(source, self._now)
        try:
            return self._compiled[source].render(**variables)
        except TemplateError:
            raise
        except Exception as error:  # a template is a program: anything can come out of it
            raise TemplateError(_line_of(error.__traceback__), _describe(error)) from error


def template_from_model(
    model: Model, override: ChatTemplate | str | os.PathLike[str] | None = None
) -> ChatTemplate:
    """The template of a model file, or the one asked for instead.

    override: a ChatTemplate, a path object (a file with jinja2 text), the jinja2 text itself, the name of one of the
    file's named templates, or the name of a built-in one ("chatml"). Raises TemplateError that names what is missing.
    """
    if isinstance(override, ChatTemplate):
        return override
    named = named_templates(model)
    own = _meta_text(model, _KEY)
    tool_source = None
    if override is None:
        if own is None and "default" in named:
            own = named["default"]
        if own is None:
            raise TemplateError(None, _missing(model, named))
        source, tool_source = own, named.get("tool_use")
    elif isinstance(override, str):
        if "{" in override or "\n" in override:
            source = override
        else:
            choices = {**BUILTIN_TEMPLATES, **named}
            if override not in choices:
                known = ", ".join(sorted(choices))
                raise TemplateError(None, f"there is no template named {override!r} (known: {known})")
            source = choices[override]
    else:
        try:
            source = Path(override).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise TemplateError(
                None, f"the template file {os.fspath(override)} cannot be read: {reason}"
            ) from error
    return ChatTemplate(source, tool_source=tool_source, **_special_tokens(model))


def named_templates(model: Model) -> dict[str, str]:
    """The file's additional templates by name (keys tokenizer.chat_template.<name>)."""
    prefix = _KEY + "."
    found: dict[str, str] = {}
    for key in model.metadata:
        if key.startswith(prefix):
            text = _meta_text(model, key)
            if text is not None:
                found[key[len(prefix) :]] = text
    return found


def _meta_text(model: Model, key: str) -> str | None:
    raw = model.meta_str(key)
    return None if raw is None else raw.decode("utf-8", errors="replace")


def _missing(model: Model, named: Mapping[str, str]) -> str:
    others = f" (it has named ones: {', '.join(sorted(named))})" if named else ""
    return (
        f"{os.fspath(model.path)} has no chat template, the key {_KEY} is missing{others}; "
        "give one with template= (jinja2 text, a path, or a name such as 'chatml'), or generate from plain text"
    )


def _special_tokens(model: Model) -> dict[str, Any]:
    vocab = model.vocab

    def text(token: int) -> str:
        return model.token_piece(token, special=True).decode("utf-8", errors="replace") if token >= 0 else ""

    others = {f"{name}_token": text(getattr(vocab, name)) for name in ("unk", "sep", "pad", "mask")}
    return {"bos": text(vocab.bos), "eos": text(vocab.eos), "tokens": {k: v for k, v in others.items() if v}}


def _part_text(number: int, part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and part.get("type", "text") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    raise OptionError(
        f"message {number}: content part of type {kind!r} is not supported, only text parts are"
    )


def _compile(source: str, now: Callable[[], datetime]) -> Template:
    from jinja2 import TemplateSyntaxError

    try:
        return _environment(now).from_string(source)
    except TemplateSyntaxError as error:
        raise TemplateError(error.lineno, error.message or "syntax error") from error
    except Exception as error:  # RecursionError and the like, from absurd nesting
        raise TemplateError(None, f"the template cannot be compiled: {_describe(error)}") from error


def _environment(now: Callable[[], datetime]) -> Environment:
    from jinja2 import nodes
    from jinja2.ext import Extension
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}…{% endgeneration %}` marks the assistant's text for training; here its content remains."""

        tags = {"generation"}  # noqa: RUF012 (jinja2 reads it from the class)

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda pattern: now().strftime(pattern)
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    import json

    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


class _RaisedByTemplate(Exception):
    """What `raise_exception` raises; its text is the template author's."""


def _raise_exception(message: str) -> None:
    raise _RaisedByTemplate(message)


def _describe(error: Exception) -> str:
    from jinja2.exceptions import SecurityError, UndefinedError

    if isinstance(error, _RaisedByTemplate):
        return f"it refused these messages: {error}"
    if isinstance(error, UndefinedError):
        return f"it needs something that is not there: {error.message}"
    if isinstance(error, SecurityError):
        return f"it tried what a template may not do: {error.message}"
    return f"{type(error).__name__}: {error}"


def _line_of(trace: TracebackType | None) -> int | None:
    """Line of the innermost template frame; jinja2 rewrites tracebacks to template lines."""
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _TEMPLATE_FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
