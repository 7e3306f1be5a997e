"""LLM: the whole thing in one object.

    with pyspec.LLM("target.gguf", draft="draft.gguf") as llm:
        result = llm.generate("The capital of France is", max_tokens=16, temperature=0)
        for chunk in llm.stream("Once upon a time"):
            print(chunk.text, end="")

Threads: one call at a time, others get BusyError; `cancel` may come from any thread. An LLM does not survive
fork().
"""

from __future__ import annotations

import difflib
import logging
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyspec.drafters.base import Drafter
from pyspec.drafters.registry import DrafterSpec, parse_drafters
from pyspec.errors import OptionError
from pyspec.llm.about import describe, memory_use
from pyspec.llm.backend import Backend, core_backend
from pyspec.llm.calls import Calls
from pyspec.llm.chat_overflow import answer_reserve, check_overflow, fit_conversation, front_tokens
from pyspec.llm.chat_prompt import chat_ids, prompt_ids
from pyspec.llm.context_end import check_rolling
from pyspec.llm.control import make_control
from pyspec.llm.drafter_set import DrafterSet
from pyspec.llm.generation import Generation
from pyspec.llm.grammar import GrammarCompiler
from pyspec.llm.request import CALL_OPTIONS, UNSET, Request, parse_request, sampling_option_names
from pyspec.llm.results import ChatResult, Chunk, GenerationResult, MemoryUse
from pyspec.llm.session import Session
from pyspec.llm.setup import (
    check_corpora,
    context_length,
    controller_mode,
    longest_draft,
    progress_steps,
    uses_draft_model,
    wanted_drafters,
    with_lengths,
)
from pyspec.llm.stream import Stream
from pyspec.speculation.rollback import can_speculate, require_speculation
from pyspec.speculation.stats import Stats

if TYPE_CHECKING:
    from pyspec.drafters.registry import DraftersArgument
    from pyspec.llm.chat_template import ChatTemplate

log = logging.getLogger("pyspec")

#: Fewest output rows a target context has, so that drafters can be chosen per call: a draft of 63 tokens and
#: one more.
MIN_OUTPUTS = 64


class LLM:
    """A model, its conversation memory and its drafters.

    path: GGUF file. draft: GGUF file of a smaller model with the same vocabulary. drafters: names with
    options ("ngram-simple:n=12,m=48,draft-simple"), drafter objects, or a list of both; "none" or [] for
    plain decoding. Default: suffix, and draft-simple when there is a draft file. controller: "auto" chooses
    drafter and length of each round by measured costs, so that speculation does not cost time; "fixed" verifies
    whatever the first drafter that answers proposes. n_draft: longest draft, of every drafter; with it the
    default is "fixed", else "auto". cost_table: {rows: milliseconds} to begin with instead of the stored or
    measured times. corpora: files of text that suffix may copy from (`pyspec.drafters.corpus_file`).
    n_ctx: tokens the memory holds, at most the model's training context (0: exactly that).
    n_batch, n_ubatch: tokens per decode and computed together; they change speed and memory, never text.
    n_threads: 0 = physical cores. type_k, type_v: cache types. device, use_mmap, pack_weights, kernels: see
    Model; for the draft file too. template: chat template text, name or path
    instead of the file's. progress: called with 0..1 while files are loaded; an exception in it stops
    loading. draft_required: False makes a draft that cannot be used a warning (plain decoding) instead of an
    error. Owns everything it opens; `close` (or the with statement) gives it back.

    Errors: OptionError, FileFormatError, UnsupportedError, PairMismatchError, OutOfMemoryError, DeviceError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        draft: str | os.PathLike[str] | None = None,
        drafters: DraftersArgument = None,
        *,
        n_ctx: int = 4096,
        n_threads: int = 0,
        n_batch: int = 2048,
        n_ubatch: int = 512,
        type_k: str = "f16",
        type_v: str = "f16",
        device: str = "cpu",
        n_draft: int | None = None,
        controller: str | None = None,
        cost_table: Mapping[int, float] | None = None,
        corpora: Sequence[str | os.PathLike[str]] = (),
        template: ChatTemplate | str | os.PathLike[str] | None = None,
        use_mmap: bool = True,
        pack_weights: bool = True,
        kernels: str = "auto",
        progress: Callable[[float], None] | None = None,
        draft_required: bool = True,
        memory_kind: str = "auto",
        audit: bool = False,
        _backend: Backend | None = None,
    ) -> None:
        mode = controller_mode(controller, n_draft)
        wanted = wanted_drafters(drafters, draft, n_draft, mode)
        self._with_lengths = partial(with_lengths, n_draft=n_draft, mode=mode)
        check_corpora(corpora, wanted)
        backend = self._backend = _backend or core_backend()
        self._calls = Calls(f"LLM({os.fspath(path)!r})", backend.CancelToken)
        self._template_source = template
        self._template: ChatTemplate | None = None
        self._pieces: dict[int, bytes] = {}
        self._last_stats = Stats()
        self._session_stats = Stats(generations=0)
        self._streams: weakref.WeakSet[Stream] = weakref.WeakSet()

        steps = progress_steps(progress, path, draft if uses_draft_model(wanted) else None)

        def open_model(file: str | os.PathLike[str]) -> Any:
            return backend.Model(
                file,
                device=device,
                use_mmap=use_mmap,
                pack_weights=pack_weights,
                kernels=kernels,
                progress=next(steps, None),
            )

        self._session: Session | None = None
        self._drafters: DrafterSet | None = None
        self.model = open_model(path)
        self._grammars = GrammarCompiler(self.model)
        try:
            n_ctx = context_length(n_ctx, self.model.info.n_ctx_train)
            for name, value in (("n_batch", n_batch), ("n_ubatch", n_ubatch)):
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise OptionError(f"{name} must be a whole number >= 1, not {value!r}")
            n_batch = min(n_batch, n_ctx)
            longest = max((longest_draft(item) for item in wanted), default=0)
            n_outputs = min(n_batch, max(MIN_OUTPUTS, 1 + longest))
            self._max_rows = n_outputs if n_draft is None else min(n_outputs, 1 + n_draft)
            self._options: dict[str, Any] = {
                "n_ctx": n_ctx,
                "n_batch": n_batch,
                "n_ubatch": min(n_ubatch, n_batch),
                "n_outputs": n_outputs,
                "n_threads": n_threads,
                "type_k": type_k,
                "type_v": type_v,
                "memory_kind": memory_kind,
            }
            make_target = partial(backend.Context, self.model, **self._options)
            self._session = Session(self.model, make_target, n_batch=n_batch, audit=audit)
            self._drafters = DrafterSet(
                backend,
                self.model,
                draft,
                open_model=open_model,
                n_ctx=n_ctx,
                n_threads=n_threads,
                corpora=corpora,
            )
            self._chain = self._first_chain(wanted, explicit=drafters is not None, required=draft_required)
            self._control = make_control(mode, cost_table, self.model, self._session.target)
        except BaseException:
            self._release()
            raise

    # --- generation

    def generate(self, prompt: str | bytes | Sequence[int], **options: Any) -> GenerationResult:
        """Continue a prompt and return the answer.

        prompt: text (special tokens in it are recognised unless parse_special=False), bytes, or token ids.
        Tokens it has in common with the previous call are not evaluated again.
        options: max_tokens (None or -1: until an end token or the end of the context; 0 only processes the
        prompt), the fields of SamplingParams (temperature, top_k, seed and so on), stop (string or strings),
        stop_token_ids, logprobs (True, or how many best candidates to list, of the model's own distribution;
        "sampled": after the filters), drafters (for this call instead of the LLM's; "none" or []: plain),
        on_full (the context is full: "stop" ends the answer, finish_reason "length"; "error" raises
        ContextFullError, the answer so far in its `result`; "roll" forgets the middle and goes on, keeping the
        first n_keep tokens of the prompt (None: its BOS token, -1: all of it) and removing n_discard of the
        others (None: half) each time, so that with max_tokens=None only an end token or a stop ends it),
        grammar, response_format, grammar_whitespace (see pyspec.Grammar), logits_processor (function or
        functions of tokens and a row of logits), predicted (text that the answer will resemble, to draft from),
        acceptance ("match"; "rejection": equal in distribution only; "synthetic" with synthetic_length or
        synthetic_rates: for benchmarks, the text means nothing).

        Errors: OptionError, ContextFullError, BusyError, ClosedError, ForkError, DeviceError. cancel() gives
        a result with finish_reason "cancelled" and the text so far.
        """
        request, ids = self._prepare(prompt, options)
        result: GenerationResult = self._run(request, ids, GenerationResult)
        return result

    def stream(self, prompt: str | bytes | Sequence[int], **options: Any) -> Stream:
        """Like generate, as a Stream of Chunks. Text is never taken back, and no character arrives in
        halves.
        """
        request, ids = self._prepare(prompt, options)
        return self._stream(request, ids, GenerationResult)

    def chat(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        tools: Sequence[Any] | None = None,
        stream: bool = False,
        add_generation_prompt: bool = True,
        template_kwargs: Mapping[str, Any] | None = None,
        overflow: str = "error",
        reserve: int | None = None,
        **options: Any,
    ) -> Any:
        """Answer a conversation: messages through the chat template, then generate. A ChatResult, or a Stream
        of it.

        messages: mappings with "role" and "content", the whole conversation each time (what was processed
        before is not evaluated again). options are those of generate; other names are variables of the
        template (enable_thinking and the like), as are template_kwargs.

        overflow: a conversation that no longer fits raises ContextFullError with the counts ("error"), or loses
        its oldest turns, system message kept, until `reserve` tokens are free for the answer ("drop_oldest";
        None: max_tokens, at most a quarter of the context; the result's dropped_messages says how many messages
        went). With on_full="roll" and no n_keep the system message is kept.
        """
        known = [*CALL_OPTIONS, *sampling_option_names(self._backend.SamplingParams)]
        variables = dict(template_kwargs or {})
        for name in [name for name in options if name not in known]:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
            if close:
                raise OptionError(f"unknown option '{name}' (did you mean '{close[0]}'?)")
            variables[name] = options.pop(name)
        self._calls.check()
        check_overflow(overflow, reserve)
        messages = list(messages)
        request = self._request(options)

        def ids_of(some: Sequence[Mapping[str, Any]], header: bool = add_generation_prompt) -> list[int]:
            rendered = self.template.render(some, tools=tools, add_generation_prompt=header, **variables)
            return chat_ids(self.model, rendered)

        room = self.n_ctx - answer_reserve(reserve, request.max_tokens, self.n_ctx)
        ids, dropped = fit_conversation(messages, ids_of, room, drop=overflow == "drop_oldest")
        if request.on_full == "roll" and request.n_keep is None:
            request.n_keep = front_tokens(messages, ids, partial(ids_of, header=False))
        kind = partial(ChatResult, dropped_messages=dropped)
        return self._stream(request, ids, kind) if stream else self._run(request, ids, kind)

    def cancel(self) -> None:
        """End the running call soon; it returns what it has. Any thread; without one nothing happens."""
        self._calls.cancel()

    # --- text and tokens

    def tokenize(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        """Token ids of a text. add_special: with BOS where the model wants one."""
        self._calls.check()
        ids: list[int] = self.model.tokenizer.encode(
            text, add_special=add_special, parse_special=parse_special
        )
        return ids

    def detokenize(self, tokens: Iterable[int], *, special: bool = False, continuation: bool = False) -> str:
        """Text of tokens; bytes that are no UTF-8 become U+FFFD. continuation: the text goes on after a
        prompt.
        """
        self._calls.check()
        data: bytes = self.model.tokenizer.decode(list(tokens), special=special, continuation=continuation)
        return data.decode("utf-8", "replace")

    @property
    def template(self) -> ChatTemplate:
        """The chat template: the one given, or the file's. TemplateError when there is none."""
        if self._template is None:
            from pyspec.llm.chat_template import template_from_model

            self._template = template_from_model(self.model, self._template_source)
        return self._template

    # --- about itself

    @property
    def n_ctx(self) -> int:
        """Tokens the memory holds."""
        return int(self._options["n_ctx"])

    @property
    def draft_model(self) -> Any | None:
        """The draft model, when one is loaded."""
        return None if self._drafters is None else self._drafters.draft_model

    @property
    def stats(self) -> Stats:
        """Statistics of the last finished call."""
        return self._last_stats

    @property
    def session_stats(self) -> Stats:
        """Statistics of all finished calls together."""
        return self._session_stats

    @property
    def target(self) -> Any:
        """The Context of the target model, to look at: its statistics, its memory. Whoever decodes on it or removes
        from it breaks the conversation.
        """
        return self._live_session().target

    def describe(self) -> dict[str, Any]:
        """What this LLM is, as plain data for people and logs."""
        target, chain = self._live_session().target, self._chain
        return {
            **describe(self.model, target, self._live_session().rollback, self.draft_model, chain),
            "controller": self._control.mode,
        }

    def memory(self) -> MemoryUse:
        """Bytes in use by target and draft."""
        target = self._live_session().target
        return memory_use(target, self._live_drafters().draft_contexts(), self.draft_model is self.model)

    # --- memory and end

    def reset(self) -> None:
        """Forget the conversation, and what drafters remember of it. Never needed for correct answers."""
        with self._calls.enter():
            self._live_session().clear()
            self._live_drafters().forget()

    def save_state(self) -> bytes:
        """The conversation memory as bytes, for load_state of an LLM on the same file, with equal cache types."""
        with self._calls.enter():
            return self._live_session().save()

    def load_state(self, state: bytes) -> None:
        """Continue from save_state. Drafters need not be the same; a draft model catches up by itself."""
        with self._calls.enter():
            self._live_session().load(state)

    def close(self) -> None:
        """End a running call and give back all memory. May be called twice."""
        if not self._calls.closed:
            self._calls.shut(self._end_streams)
            self._release()

    def __enter__(self) -> LLM:
        self._calls.check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " closed" if self._calls.closed else ""
        return f"<LLM {os.fspath(self.model.path)}{state}>"

    # --- inside

    def _prepare(self, prompt: Any, options: Mapping[str, Any]) -> tuple[Request, list[int]]:
        self._calls.check()
        request = self._request(options)
        return request, prompt_ids(self.model, prompt, request.parse_special)

    def _request(self, options: Mapping[str, Any]) -> Request:
        request = parse_request(options, self._backend.SamplingParams, self.model.info.n_vocab)
        if request.drafters is not UNSET and request.drafters is not None:
            request.drafters = self._with_lengths(parse_drafters(request.drafters))
            self._live_drafters().require_draft_file(request.drafters)
            if request.drafters:
                require_speculation(self._live_session().rollback, [item.name for item in request.drafters])
        else:
            request.drafters = None
        check_rolling(request, self._live_session())
        return request

    def _generation(self, request: Request, ids: list[int], cancel: Any) -> Generation:
        wanted = self._wanted if request.drafters is None else request.drafters
        if request.grammar is not None and wanted and all(item.name != "grammar" for item in wanted):
            wanted = [DrafterSpec("grammar"), *wanted]
        chain = self._live_drafters().chain(wanted)
        return Generation(
            self._live_session(),
            chain,
            request,
            ids,
            backend=self._backend,
            piece=self._piece,
            max_rows=self._max_rows,
            cancel=cancel,
            controller=self._control.controller_for(request),
            grammar=None if request.grammar is None else self._grammars.start(request.grammar),
        )

    def _run(self, request: Request, ids: list[int], kind: Callable[..., GenerationResult]) -> Any:
        with self._calls.enter() as cancel:
            generation = self._generation(request, ids, cancel)
            for _ in generation.run():
                pass
            return self._finish(generation, kind)

    def _stream(self, request: Request, ids: list[int], kind: Callable[..., GenerationResult]) -> Stream:
        stream = Stream(self._chunks(request, ids, kind), self.cancel, self._calls.check)
        self._streams.add(stream)
        return stream

    def _chunks(
        self, request: Request, ids: list[int], kind: Callable[..., GenerationResult]
    ) -> Iterator[Chunk]:
        with self._calls.enter() as cancel:
            generation = self._generation(request, ids, cancel)
            for _ in generation.run():
                text, tokens, logprobs = generation.answer.release(final=False)
                if text or tokens:
                    yield Chunk(text, tokens, logprobs)
            result = self._finish(generation, kind)
        # Outside: whoever stops at the last chunk leaves the LLM free.
        text, tokens, logprobs = generation.answer.release(final=True)
        yield Chunk(text, tokens, logprobs, result.finish_reason, result)

    def _finish(self, generation: Generation, kind: Callable[..., GenerationResult]) -> GenerationResult:
        result = generation.result()
        self._last_stats = result.stats
        self._session_stats.add(result.stats)
        self._control.finished(generation.controller)
        if kind is not GenerationResult:
            result = kind(**{name: getattr(result, name) for name in result.__dataclass_fields__})
        if generation.error is not None:
            generation.error.result = result
            raise generation.error
        return result

    def _piece(self, token: int) -> bytes:
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self.model.tokenizer.piece(token)
        return piece

    def _first_chain(self, wanted: list[DrafterSpec | Drafter], *, explicit: bool, required: bool) -> Any:
        drafters, session = self._live_drafters(), self._live_session()
        names = [item.name for item in wanted]
        if wanted and not can_speculate(session.rollback):
            if explicit:
                require_speculation(session.rollback, names)
            log.warning(
                "decoding plainly, without %s: the target's memory cannot undo rejected tokens (%s)",
                ", ".join(names),
                session.rollback,
            )
            wanted = []
        try:
            drafters.adopt(wanted)
            chain = drafters.chain(wanted)
        except Exception as error:
            if required:
                raise
            log.warning("decoding plainly, without %s: %s", ", ".join(names), error)
            wanted, chain = [], drafters.chain([])
        self._wanted = wanted
        return chain

    def _live_session(self) -> Session:
        self._calls.check()
        assert self._session is not None
        return self._session

    def _live_drafters(self) -> DrafterSet:
        self._calls.check()
        assert self._drafters is not None
        return self._drafters

    def _end_streams(self) -> None:
        for stream in list(self._streams):
            with suppress(ValueError):  # being iterated by another thread right now; it has been cancelled
                stream.close()

    def _release(self) -> None:
        self._calls.closed = True
        if self._drafters is not None:
            self._drafters.close()
        if self._session is not None:
            self._session.close()
        self.model.close()
        # A closed LLM that somebody still refers to holds nothing large.
        self._session = self._drafters = None
        self._pieces.clear()
        self._grammars.close()
