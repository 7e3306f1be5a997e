"""LLM on SmolLM2, and on the pair of Qwen models when they are there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspec.llm.llm import LLM
from tests.round.scripted import script

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]


def test_streamed_characters(real_model: Callable[[str], Path]) -> None:
    """C092: an answer of emoji and accents arrives in whole characters, whatever the blocks: byte tokens of
    one character fall into different chunks and rounds."""
    wanted = "Žluťoučký kůň 한국어 👩\u200d🚀 naïve 漢字"
    with LLM(real_model("smollm2"), n_ctx=256, n_threads=1, audit=True) as llm:
        ids = llm.tokenize(wanted, add_special=False)
        answer = llm.detokenize(ids, continuation=True)
        assert answer == wanted and len(ids) > 30
        recite = [{"role": "user", "content": f"Repeat exactly: {wanted}"}]
        # Forbidding every other id keeps the model on the characters' own bytes, in whatever order it likes.
        only = dict.fromkeys(set(range(llm.model.info.n_vocab)) - set(ids), float("-inf"))
        call: dict[str, Any] = {"max_tokens": 30, "temperature": 0, "logit_bias": only, "repeat_penalty": 1.2}
        plain = llm.chat(recite, drafters="none", **call)
        for kind in ("none", "oracle", "1/3", "2/3"):
            drafters: Any = "none" if kind == "none" else [script(kind, plain.tokens, plain.usage.prompt)]
            stream = llm.chat(recite, stream=True, drafters=drafters, **call)
            text = "".join(chunk.text for chunk in stream)
            assert text == stream.result.text == plain.text == llm.detokenize(plain.tokens, continuation=True)
            assert any(ord(character) > 0x7F for character in text)


@pytest.mark.long
def test_qwen_pair(real_model: Callable[[str], Path]) -> None:
    """The pair of the README's example: the draft is right often enough to be worth it, and is the default."""
    target, draft = real_model("qwen2.5-coder-1.5b"), real_model("qwen2.5-coder-0.5b")
    messages = [
        {"role": "user", "content": "Write a Python function that returns the n-th Fibonacci number."}
    ]
    with LLM(target, draft=draft, n_ctx=1024, n_draft=4) as llm:
        spec = llm.chat(messages, max_tokens=96, temperature=0)
        plain = llm.chat(messages, max_tokens=96, temperature=0, drafters="none")
        assert spec.tokens == plain.tokens
        assert spec.stats.mean_acceptance_length > 2.5


@pytest.mark.skipif(os.name == "nt", reason="SIGINT is sent to a process")
@pytest.mark.parametrize("when", ["prefill", "answer"])
def test_ctrl_c(real_model: Callable[[str], Path], when: str) -> None:
    """C106: SIGINT in the main thread, in mid-prefill and in mid-answer: KeyboardInterrupt soon, the LLM
    still works.
    """
    script_text = textwrap.dedent(
        f"""
        import sys, time
        from pyspec.llm.llm import LLM
        llm = LLM({str(real_model("smollm2"))!r}, drafters="ngram-simple:n=2,m=8", n_ctx=4096, n_threads=1)
        cold = llm.generate("The capital of France is", max_tokens=4, temperature=0).tokens
        long = llm.tokenize("one two three four five six seven. ") * 500
        prompt = long[:3500] if {when!r} == "prefill" else long[:20]
        print("ready", flush=True)
        try:
            llm.generate(prompt, temperature=0)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        assert llm.generate("The capital of France is", max_tokens=4, temperature=0).tokens == cold
        llm.close()
        print("works", flush=True)
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script_text],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        import time

        time.sleep(0.5)
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        seconds = time.monotonic() - started
        rest, errors = process.communicate(timeout=120)
        assert rest == "works\n" and errors == ""
        assert seconds < 1.0, f"the interrupt was served after {seconds:.2f} s"
    finally:
        process.kill()
        process.wait()
