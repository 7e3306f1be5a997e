"""One generation: prompt in, rounds, answer out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pyspec.core.accept import synthetic_rates
from pyspec.errors import CancelledError, ContextFullError, OptionError
from pyspec.llm.answer import Answer
from pyspec.llm.context_end import ContextEnd
from pyspec.llm.results import GenerationResult, TokenLogprob, Usage
from pyspec.speculation.acceptance import Acceptance, Match, Rejection, Synthetic
from pyspec.speculation.audit import audit
from pyspec.speculation.measure_cost import measure_cost
from pyspec.speculation.round import Round
from pyspec.speculation.stats import ControllerStats, RoundLog, Stats

if TYPE_CHECKING:
    from pyspec.core.context import CancelToken
    from pyspec.core.sampler import Sampler
    from pyspec.llm.backend import Backend
    from pyspec.llm.grammar import GrammarState
    from pyspec.llm.request import Request
    from pyspec.llm.session import Session
    from pyspec.speculation.chain import Chain
    from pyspec.speculation.controller import Controller

#: An answer that may become shorter than this is not worth a measurement of costs.
WORTH_MEASURING = 64


class Generation:
    """Runs one request on a session. `run` yields after each block of tokens; then `result` tells everything.

    max_rows: most rows one verification may have. controller: see Round.
    """

    def __init__(
        self,
        session: Session,
        chain: Chain,
        request: Request,
        prompt: list[int],
        *,
        backend: Backend,
        piece: Any,
        max_rows: int,
        cancel: CancelToken,
        controller: Controller | None = None,
        grammar: GrammarState | None = None,
    ) -> None:
        self.finish_reason = ""
        #: What the caller has to raise, with the result attached, when the context was full and on_full is "error".
        self.error: ContextFullError | None = None
        self._session = session
        self._chain = chain
        self._request = request
        self._prompt = prompt
        self._backend = backend
        self._cancel = cancel
        self._max_rows = max_rows
        self._controller = self.controller = controller if chain.members else None
        self._grammar = grammar
        self._shadow: Sampler | None = None
        self._acceptance: Acceptance | None = None
        self._round: Round | None = None
        self._end: ContextEnd | None = None
        self._rounds = RoundLog()
        self._stats = Stats(rollback_mode=session.rollback)
        self._first_token_at = 0.0
        self._last_token_at = 0.0
        self._rates = self._synthetic_rates()
        end_ids = session.model.vocab.eog | request.stop_token_ids
        self.answer = Answer(piece, request.stops, end_ids, request.n_logprobs is not None)

    def run(self) -> Iterator[None]:
        """Generate; yields after every block that ended neither by a stop nor by a limit. Sets finish_reason.

        Errors leave the session usable: the next call repairs what an interrupted one left.
        """
        try:
            yield from self._run()
        except CancelledError:
            if not self._cancel.cancelled:
                raise
            self.finish_reason = "cancelled"
        finally:
            self._chain.release()

    def _run(self) -> Iterator[None]:
        session, chain, answer, prompt = self._session, self._chain, self.answer, self._prompt
        started = perf_counter()
        if self._controller is not None:
            self._controller.begin()
        sampler, n_fed = self._make_sampler()
        chain.prepare(
            sampler,
            controlled=self._controller is not None,
            needs_laws=self._request.acceptance == "rejection",
            grammar=self._grammar,
        )
        if self._request.predicted is not None:
            if not chain.copies:
                raise OptionError(
                    "predicted is text to copy drafts from, and none of the drafters "
                    f"{', '.join(chain.active) or '(none)'} does; suffix would"
                )
            tokenizer = session.model.tokenizer
            chain.add_document(
                tokenizer.encode(self._request.predicted, add_special=False, parse_special=False)
            )
        reused = session.prefill(prompt, chain, self._cancel)
        self._stats.prompt_tokens_reused = reused
        self._stats.prompt_tokens_evaluated = len(prompt) - reused
        self._first_token_at = self._last_token_at = perf_counter()
        self._stats.prompt_ms = 1e3 * (self._first_token_at - started)

        end = self._end = ContextEnd(session, chain, self._request, prompt)
        if end.limit <= 0:
            self.finish_reason, self.error = "length", end.error()
            return
        acceptance = self._acceptance = self._make_acceptance(
            sampler
        )  # now: prefill may have made a new context
        self._round = step = Round(
            target=session.target,
            acceptance=acceptance,
            chain=chain,
            history=session.history,
            max_rows=self._max_rows,
            cancel=self._cancel,
            controller=self._controller,
            grammar=self._grammar,
            certainty=self._certainty(),
        )
        emitted = step.first()
        self._first_token_at = self._last_token_at = perf_counter()
        n_emitted = 1
        while self._take(emitted):
            if session.audit:
                audit(
                    history=session.history,
                    target=session.target,
                    chain=chain,
                    sampler=sampler,
                    n_history=n_fed + n_emitted,
                    index=n_emitted,
                )
            if n_emitted >= end.limit:
                self.finish_reason, self.error = "length", end.error()
                return
            yield
            if n_emitted == 1:
                self._learn_costs(end.limit)
            verdict = step.step(emitted[-1], end.room(n_emitted))
            self._last_token_at = perf_counter()
            emitted = verdict.emitted
            n_emitted += len(emitted)
            self._rounds.add(chain.owner, len(verdict.draft), verdict.n_accepted, len(emitted))
        self.finish_reason = "stop"
        session.truncate(end.in_memory(len(prompt) + len(answer.tokens)), chain)
        if session.audit:
            audit(history=session.history, target=session.target, chain=chain)

    def _certainty(self) -> Callable[[], float] | None:
        """How sure the target is of its next token: only where there is a draft model to be judged by it."""
        if self._controller is None or all(member.is_text for member in self._chain.live):
            return None
        target, choose = self._session.target, self._backend.draft_choice
        n_vocab = target.n_vocab
        return lambda: choose(target, 0, n_vocab)[1]

    def _learn_costs(self, limit: int) -> None:
        """Tell the controller how long the answer may become, and what widths cost if nobody knows yet."""
        controller = self._controller
        if controller is None:
            return
        controller.limit = limit
        if controller.wants_measurement and limit >= WORTH_MEASURING:
            controller.wants_measurement = False
            for n, ms in measure_cost(self._session.target, cancel=self._cancel).items():
                controller.costs.observe(n, ms)

    def result(self) -> GenerationResult:
        """The answer as far as it got."""
        answer, stats = self.answer, self._stats
        n = len(answer.tokens)
        self._rounds.count(stats, self._chain, 1, n)
        if self._round is not None:
            stats.draft_ms = 1e3 * self._round.draft_seconds
            stats.verify_ms = 1e3 * self._round.verify_seconds
            stats.accept_ms = 1e3 * self._round.accept_seconds
        controller = self._controller
        if controller is not None:
            choices = controller.choices
            stats.controller = ControllerStats(
                controller.costs.times(),
                choices.lengths,
                choices.rests,
                choices.saved,
                controller.bank.balance * controller.costs.time(1) if controller.costs.known else 0.0,
            )
        stats.context_rolls = 0 if self._end is None else self._end.rolls
        seconds = self._last_token_at - self._first_token_at
        stats.generation_ms = 1e3 * seconds
        stats.timed_tokens = max(0, n - 1)
        stats.tokens_per_second = stats.timed_tokens / seconds if seconds > 0 else 0.0
        return GenerationResult(
            text=answer.text,
            tokens=answer.tokens,
            logprobs=answer.logprobs,
            finish_reason=self.finish_reason,
            usage=Usage(len(self._prompt), n),
            stats=stats,
            seed=self._request.seed,
            stopped_by=answer.stopped_by,
        )

    def _make_sampler(self) -> tuple[Sampler, int]:
        """A sampler that has seen the part of the prompt that its penalties and DRY look at, and the length of
        that part.
        """
        params, session = self._request.sampling, self._session
        sampler: Sampler = self._backend.Sampler(params, session.target.n_vocab, model=session.model)
        lookback: int = params.lookback
        seen = self._prompt if lookback < 0 else self._prompt[-lookback:] if lookback else []
        for token in seen:
            sampler.advance(token, prompt=True)
        if self._request.logprobs_sampled:
            self._shadow = sampler.clone()
        return sampler, len(seen)

    def _make_acceptance(self, sampler: Sampler) -> Acceptance:
        request, target, model = self._request, self._session.target, self._session.model
        options: dict[str, Any] = {"end_ids": request.stop_token_ids, "prompt": self._prompt}
        if request.processors:
            options["processors"] = request.processors
        self._stats.acceptance_rule = request.acceptance
        if self._rates is not None:
            return Synthetic(target, sampler, model, rates=self._rates, **options)
        kind = Rejection if request.acceptance == "rejection" else Match
        return kind(target, sampler, model, **options)

    def _synthetic_rates(self) -> list[float] | None:
        """Of the longest draft there can be; OptionError when what was asked for does not fit it."""
        request = self._request
        if request.acceptance != "synthetic":
            return None
        n_draft = max(1, min(self._chain.max_draft, self._max_rows - 1))
        return synthetic_rates(n_draft, length=request.synthetic_length, rates=request.synthetic_rates)

    def _take(self, emitted: list[int]) -> bool:
        """Add a block to the answer, token by token. False: the answer ended inside it."""
        answer = self.answer
        if answer.logprobs is None:
            return all(map(answer.push, emitted))
        for row, token in enumerate(emitted):
            entry = self._logprob(row, token)
            if not answer.push(token):
                answer.match_logprobs()
                return False
            answer.logprobs.append(entry)
        return True

    def _logprob(self, row: int, token: int) -> TokenLogprob:
        """Of a token that was chosen from an output row of the last decode."""
        target = self._session.target
        if self._shadow is None:
            value, top = self._backend.logprobs(target, row, token, self._request.n_logprobs or 0)
            return TokenLogprob(token, value, top)
        # The sampler is past this row already; the shadow follows one token behind and sees the filters as they were, on
        # the row as it was: masked and processed.
        assert self._round is not None and self._acceptance is not None
        shadow, params, masks = self._shadow, self._request.sampling, self._round.masks
        cap = params.top_k if params.top_k > 0 and not params.mirostat else target.n_vocab
        mask = None if masks is None else masks[row : row + 1]
        if self._request.processors:
            logits = self._acceptance.rows[row]
            candidates = shadow.candidates_array(logits, cap, mask)
            shadow.advance_from_array(logits, token, mask)
        else:
            candidates = shadow.candidates(target, row, cap, mask)
            shadow.advance_from(target, row, token, mask)
        probability = next((p for candidate, p in candidates if candidate == token), 0.0)
        return TokenLogprob(token, log(probability) if probability > 0 else float("-inf"))
