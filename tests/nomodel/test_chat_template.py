"""Chat templates: what they may use, what they are given, and what their errors say."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyspec.errors import OptionError, TemplateError
from pyspec.llm.chat_template import ChatTemplate, named_templates, template_from_model

CHATML = r"""{% for message in messages %}
{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}
{%- endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\n' }}
{%- endif %}
"""

# The shape of Llama 3.x templates: BOS, headers, a date, tools that may be undefined.
LLAMA3 = r"""{{- bos_token }}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}{%- set date_string = strftime_now("%d %b %Y") %}{%- endif %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\nToday: " + date_string }}
{%- if tools is not none %}{{- "\nTools: " }}{%- for t in tools %}{{- t | tojson(indent=4) }}{%- endfor %}{%- endif %}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}
"""

# The shape of Gemma templates: roles must alternate, the system text joins the first user message.
GEMMA = r"""{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set prefix = messages[0]['content'] + '\n\n' -%}{%- set loop_messages = messages[1:] -%}
{%- else -%}{%- set prefix = "" -%}{%- set loop_messages = messages -%}{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant") }}
    {%- endif -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\n' + (prefix if loop.first else "") }}
    {%- if message['content'] is string -%}{{ message['content'] | trim }}
    {%- else -%}{%- for item in message['content'] -%}
        {%- if item['type'] == 'text' -%}{{ '[' + item['text'] + ']' }}{%- endif -%}
    {%- endfor -%}{%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}
"""

# The shape of Qwen templates: tools as JSON lines, tool calls of the assistant.
QWEN = r"""{%- if tools %}
    {{- '<|im_start|>system\n<tools>' }}
    {%- for tool in tools %}{{- "\n" }}{{- tool | tojson }}{%- endfor %}
    {{- '\n</tools><|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "assistant" and message.tool_calls %}
        {{- '<|im_start|>assistant' }}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\n<tool_call>\n{"name": "' + tool_call.name + '", "arguments": ' + tool_call.arguments | tojson + '}' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}
"""

HELLO = [{"role": "user", "content": "Hello"}]
THREE_TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "One?"},
    {"role": "assistant", "content": "1"},
    {"role": "user", "content": "Two?"},
    {"role": "assistant", "content": "2"},
    {"role": "user", "content": "Three?"},
]


def model(metadata: dict[str, str], *, bos: int = 1, eos: int = 2) -> Any:
    """What template_from_model reads of a Model."""
    pieces = {0: b"<unk>", 1: b"<s>", 2: b"</s>"}
    return SimpleNamespace(
        path=Path("/models/some.gguf"),
        metadata=metadata,
        meta_str=lambda key: metadata[key].encode() if key in metadata else None,
        vocab=SimpleNamespace(bos=bos, eos=eos, unk=0, sep=-1, pad=-1, mask=-1),
        token_piece=lambda token, special=False: pieces[token] if special else b"",
    )


# ------------------------------------------------------------------------------------------------------------- rendering


def test_chatml_is_rendered_as_its_author_expects() -> None:
    """trim_blocks and lstrip_blocks: without them this template would emit line breaks after every tag."""
    text = ChatTemplate(CHATML).render(THREE_TURNS[:2])
    assert (
        text
        == "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nOne?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert (
        ChatTemplate(CHATML).render(HELLO, add_generation_prompt=False)
        == "<|im_start|>user\nHello<|im_end|>\n"
    )


def test_blocks_are_stripped_on_the_left() -> None:
    assert (
        ChatTemplate("{% if true %}\n    {% if true %}\n  x\n    {% endif %}\n{% endif %}\n").render([])
        == "  x\n"
    )


def test_llama3_uses_the_date_function_and_the_bos_token() -> None:
    """C050, containers/ramalama#1890: a template that calls a date helper finds it."""
    template = ChatTemplate(LLAMA3, bos="<|begin_of_text|>", now=lambda: datetime(2024, 7, 26))
    text = template.render(HELLO)
    assert text.startswith(
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nToday: 26 Jul 2024<|eot_id|>"
    )
    assert text.endswith("<|start_header_id|>assistant<|end_header_id|>\n\n")
    assert "Today: then" in template.render(HELLO, date_string="then")


def test_tools_that_are_not_given_are_no_error() -> None:
    """C050, nomic-ai/gpt4all#3309: a template that tests an undefined 'tools'."""
    source = "{% if tools is defined and tools %}tools{% elif tools %}?{% else %}none{% endif %}"
    assert ChatTemplate(source).render(HELLO) == "none"
    assert ChatTemplate(source).render(HELLO, tools=[{"name": "f"}]) == "tools"


def test_tools_and_tool_calls_reach_the_template() -> None:
    tool = {
        "type": "function",
        "function": {"name": "weather", "description": "wind & rain in <town>, Zürich"},
    }
    call = {
        "role": "assistant",
        "tool_calls": [{"function": {"name": "weather", "arguments": {"town": "Zürich"}}}],
    }
    text = ChatTemplate(QWEN).render([*HELLO, call], tools=[tool])
    line = text.split("<tools>\n")[1].split("\n</tools>")[0]
    assert json.loads(line) == tool
    assert "wind & rain in <town>, Zürich" in line, "tojson escapes neither for HTML nor to ASCII"
    assert '{"name": "weather", "arguments": {"town": "Zürich"}}' in text


def test_tojson_keeps_the_order_and_takes_an_indent() -> None:
    render = ChatTemplate(
        "{{ x | tojson }}|{{ x | tojson(indent=2) }}|{{ x | tojson(sort_keys=true) }}"
    ).render
    assert (
        render([], x={"b": 1, "a": "<é>"})
        == '{"b": 1, "a": "<é>"}|{\n  "b": 1,\n  "a": "<é>"\n}|{"a": "<é>", "b": 1}'
    )


def test_free_variables_reach_the_template() -> None:
    assert ChatTemplate(QWEN).render(HELLO, enable_thinking=False).endswith("<think>\n\n</think>\n\n")
    assert ChatTemplate(QWEN).render(HELLO, enable_thinking=True).endswith("assistant\n")


def test_loop_controls() -> None:
    source = "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.content }}{% break %}{% endfor %}"
    assert ChatTemplate(source).render(THREE_TURNS) == "One?"


def test_the_generation_block_leaves_its_content() -> None:
    source = "{% for m in messages %}{% generation %}{{ m.content }}{% set x = 1 %}{% endgeneration %}{% endfor %}{{ x }}"
    assert ChatTemplate(source).render(HELLO) == "Hello"
    inner = "{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x }}"
    assert ChatTemplate(inner).render(HELLO) == "1", "what is set inside stays inside"


def test_content_in_parts() -> None:
    """Templates for plain text get the joined text; templates that take lists get the list."""
    parts = [{"role": "user", "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]}]
    assert ChatTemplate(CHATML).render(parts) == ChatTemplate(CHATML).render(HELLO)
    assert "[Hel][lo]" in ChatTemplate(GEMMA).render(parts)
    prints_it = "{% for m in messages %}{{ m.content }}{% endfor %}"
    assert ChatTemplate(prints_it).render(parts) == "Hello", "a list is never printed as Python would"
    with pytest.raises(OptionError, match="image_url"):
        ChatTemplate(CHATML).render([{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}])
    for content in (3, b"x", {"text": "x"}):
        with pytest.raises(OptionError, match="message 0"):
            ChatTemplate(CHATML).render([{"role": "user", "content": content}])
    with pytest.raises(OptionError, match="'role'"):
        ChatTemplate(CHATML).render([{"content": "x"}])


def test_messages_are_not_changed() -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "x"}]}]
    ChatTemplate(CHATML).render(messages)
    assert messages == [{"role": "user", "content": [{"type": "text", "text": "x"}]}]


# ------------------------------------------------------------------------------------------------------------------ BOS


def test_who_adds_bos() -> None:
    """C049, abetlen/llama-cpp-python#1501: the text says itself whether BOS is there; never twice, never in later turns."""
    with_bos = ChatTemplate(GEMMA, bos="<bos>")
    text = with_bos.render(THREE_TURNS)
    assert with_bos.starts_with_bos(text)
    assert text.count("<bos>") == 1
    without = ChatTemplate(CHATML, bos="<bos>")
    assert not without.starts_with_bos(without.render(THREE_TURNS))
    nothing = ChatTemplate(CHATML, bos="")
    assert not nothing.starts_with_bos("anything"), "a model without BOS"


def test_the_bos_of_a_template_stays_in_the_text() -> None:
    """C052, ggml-org/llama.cpp#15086: a token that the template means is never stripped."""
    assert ChatTemplate("{{ bos_token }}{{ messages[0].content }}", bos="<s>").render(HELLO) == "<s>Hello"
    assert ChatTemplate("{{ messages[0].content }}{{ eos_token }}", eos="</s>").render(HELLO) == "Hello</s>"


# --------------------------------------------------------------------------------------------------------------- errors


def test_an_unknown_tag_hurts_only_whoever_renders() -> None:
    """C048, abetlen/llama-cpp-python#2225: making the object compiles nothing; rendering names line and tag."""
    template = ChatTemplate("line one\n{% frobnicate %}\n")
    with pytest.raises(TemplateError, match="frobnicate") as caught:
        template.render(HELLO)
    assert caught.value.line == 2


def test_a_syntax_error_names_its_line() -> None:
    """C048, abetlen/llama-cpp-python#2225"""
    template = ChatTemplate("{% for m in messages %}\n{{ m.content }\n{% endfor %}")
    with pytest.raises(TemplateError) as caught:
        template.render(HELLO)
    assert caught.value.line == 2


def test_a_named_template_that_is_broken_does_not_matter_until_used() -> None:
    """C048, abetlen/llama-cpp-python#2225: other templates in the same file are not compiled."""
    file = model({"tokenizer.chat_template": CHATML, "tokenizer.chat_template.tool_use": "{% nonsense %}"})
    template = template_from_model(file)
    assert template.render(HELLO).startswith("<|im_start|>")
    with pytest.raises(TemplateError, match="nonsense"):
        template.render(HELLO, tools=[{"name": "f"}])


def test_a_template_that_refuses_says_why() -> None:
    twice = [*HELLO, *HELLO]
    with pytest.raises(TemplateError, match="roles must alternate") as caught:
        ChatTemplate(GEMMA).render(twice)
    assert caught.value.line == 7


def test_a_missing_helper_is_named() -> None:
    """C050, nomic-ai/gpt4all#3282: clear error naming what is missing."""
    with pytest.raises(TemplateError, match="frob_date") as caught:
        ChatTemplate("\n\n{{ frob_date('x') }}").render(HELLO)
    assert caught.value.line == 3
    with pytest.raises(TemplateError, match="flavour"):
        ChatTemplate("{{ messages[0].flavour.sweet }}").render(HELLO)


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{% for i in range(10000000) %}{% endfor %}",
        "{{ 1 / 0 }}",
        "{{ 'x' + 1 }}",
    ],
)
def test_whatever_a_template_does_ends_as_template_error(source: str) -> None:
    with pytest.raises(TemplateError):
        ChatTemplate(source).render(HELLO)


# ---------------------------------------------------------------------------------------------------- from a model's file


def test_from_a_model_with_its_special_tokens() -> None:
    template = template_from_model(
        model({"tokenizer.chat_template": "{{ bos_token }}{{ unk_token }}{{ eos_token }}"})
    )
    assert template.render(HELLO) == "<s><unk></s>"
    none = template_from_model(model({"tokenizer.chat_template": "({{ bos_token }})"}, bos=-1))
    assert none.render(HELLO) == "()"


def test_a_file_without_template_says_what_to_do() -> None:
    """C050, containers/ramalama#1890: the error names the missing key and the fallback choice."""
    with pytest.raises(
        TemplateError, match=r"some\.gguf has no chat template.*tokenizer\.chat_template.*'chatml'"
    ):
        template_from_model(model({}))


def test_override() -> None:
    """C048, C050: template= replaces what the file has, as text, path, or name."""
    broken = model({"tokenizer.chat_template": "{% nonsense %}", "tokenizer.chat_template.rag": "rag!"})
    assert template_from_model(broken, "{{ messages[0].content }}!").render(HELLO) == "Hello!"
    assert template_from_model(broken, "rag").render(HELLO) == "rag!"
    chatml = template_from_model(broken, "chatml")
    assert chatml.render(THREE_TURNS) == ChatTemplate(CHATML).render(THREE_TURNS)
    assert template_from_model(broken, chatml) is chatml
    with pytest.raises(TemplateError, match="chatml, rag"):
        template_from_model(broken, "chatlm")


def test_override_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "own.jinja"
    file.write_text("{{ bos_token }}ü{{ messages[0].content }}", encoding="utf-8")
    assert template_from_model(model({}), file).render(HELLO) == "<s>üHello"
    with pytest.raises(TemplateError, match=r"nowhere\.jinja.*No such file"):
        template_from_model(model({}), tmp_path / "nowhere.jinja")


def test_named_templates() -> None:
    file = model(
        {"tokenizer.chat_template.default": "d", "tokenizer.chat_template.tool_use": "t{{ tools | length }}"}
    )
    assert named_templates(file) == {"default": "d", "tool_use": "t{{ tools | length }}"}
    assert template_from_model(file).render(HELLO) == "d"
    assert template_from_model(file).render(HELLO, tools=[1, 2]) == "t2"
