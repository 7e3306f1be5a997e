"""The faults, by the part of the code they break. Each is a mistake that somebody could make.

Selections are narrow: a test that is meant to notice this mistake, not whichever happens to fail first.
"""

from __future__ import annotations

from tools.faults.fault import Fault

POSITIONS = "tests/round/test_positions.py::"
ROLL = "tests/round/test_roll.py::"
STOPS = "tests/round/test_stops.py::"
CONTROLLER = "tests/round/test_controller.py::"
MODELS = "tests/round/test_controller_models.py::"
GRAMMAR = "tests/grammar/test_state.py::"
REFERENCE = "tests/nomodel/test_sampling_reference.py::"
RULES = "tests/nomodel/test_acceptance_rules.py::"
NGRAM = "tests/ngram/test_drafts.py::"
TABLES = "tests/ngram/test_tables.py::"
SUFFIX = "tests/history/test_suffix_index.py::"
ACCEPTANCE = "tests/native/test_native.py::test_native[test_acceptance]"
SUFFIX_AUTOMATON = "tests/native/test_native.py::test_native[test_suffix_automaton]"

ROUND = (
    Fault(
        "round: rejected cells are not dropped",
        "pyspec/speculation/round.py",
        "            keep(self.target, len(self.history))\n",
        "            pass\n",
        (POSITIONS + "test_memory_is_the_committed_history_after_every_round[3/8]",),
    ),
    Fault(
        "round: one rejected cell is kept",
        "pyspec/speculation/round.py",
        "keep(self.target, len(self.history))",
        "keep(self.target, len(self.history) + 1)",
        (POSITIONS + "test_memory_is_the_committed_history_after_every_round[3/8]",),
    ),
    Fault(
        "round: the history takes the emitted tokens for the kept ones",
        "pyspec/speculation/round.py",
        "self.history.extend(verdict.kept)",
        "self.history.extend(verdict.emitted)",
        (POSITIONS + "test_memory_is_the_committed_history_after_every_round[3/8]",),
    ),
    Fault(
        "round: no room is left for the bonus token",
        "pyspec/speculation/round.py",
        "return min(remaining, self.max_rows) - 1",
        "return min(remaining, self.max_rows)",
        (POSITIONS + "test_budget",),
    ),
    Fault(
        "chain: whoever is asked owns the draft",
        "pyspec/speculation/chain.py",
        "rows if member.taps else None, member.index == owner",
        "rows if member.taps else None, owner >= 0",
        (POSITIONS + "test_the_first_that_answers_owns_the_round",),
    ),
    Fault(
        "chain: drafts are not cut to the limit",
        "pyspec/speculation/chain.py",
        "            draft.cut(limit)\n",
        "            pass\n",
        (POSITIONS + "test_drafts_are_cut_to_the_limit",),
    ),
    Fault(
        "chain: a cut draft keeps all its confidences",
        "pyspec/drafters/base.py",
        "self.confidence = self.confidence[:n]",
        "self.confidence = self.confidence[:]",
        (POSITIONS + "test_drafts_are_cut_to_the_limit",),
    ),
    Fault(
        "draft-simple: rejected cells stay in the draft's context",
        "pyspec/drafters/draft_simple.py",
        "        self._agreed = agreed + n\n        self._trim(self._agreed)\n",
        "        self._agreed = agreed + n\n",
        ("tests/round/test_draft_simple.py::test_positions_before_and_after_each_round",),
    ),
    Fault(
        "logprobs: one row off",
        "pyspec/llm/generation.py",
        "entry = self._logprob(row, token)",
        "entry = self._logprob(max(row - 1, 0), token)",
        ("tests/round/test_equality.py::test_scripted_drafters_equal_plain[3/8-greedy]",),
    ),
    Fault(
        "penalties: the prompt is not seen",
        "pyspec/llm/generation.py",
        "            sampler.advance(token, prompt=True)\n",
        "            pass\n",
        ("tests/round/test_options.py::test_penalties_look_back_into_the_prompt",),
    ),
)

CONTROL = (
    Fault(
        "controller: the target's certainty is not noted",
        "pyspec/speculation/controller.py",
        "if certainty is not None:\n            text = self._certainty",
        "if False:\n            text = self._certainty",
        (MODELS + "test_the_targets_certainty_says_whether_reading_pays",),
    ),
    Fault(
        "controller: what is expected of a draft model counts as three drafts",
        "pyspec/speculation/drafter_record.py",
        "self.calibration.expect(min(0.98, certainty * skill), SKILL_WEIGHT)",
        "self.calibration.expect(min(0.98, certainty * skill))",
        (MODELS + "test_the_first_failures_after_reading_prove_little",),
    ),
    Fault(
        "controller: a prompt is read before text drafters had their time",
        "pyspec/speculation/controller.py",
        "if any(other.is_text for other in chain.live):",
        "if False:",
        (MODELS + "test_reading_waits_for_text_drafters_only",),
    ),
    Fault(
        "controller: what a draft model was worth on other texts is forgotten",
        "pyspec/speculation/drafter_record.py",
        "usual[:] = [USUAL_MEMORY * usual[0] + skill[0], USUAL_MEMORY * usual[1] + skill[1]]",
        "pass",
        (MODELS + "test_a_wrong_pair_reads_no_more_prompts",),
    ),
    Fault(
        "controller: the first draft of a text may be of any length",
        "pyspec/speculation/controller.py",
        " or spent > (1.0 + self._trust) * plain:",
        ":",
        (CONTROLLER + "test_first_drafts_on_another_text_risk_little",),
    ),
    Fault(
        "controller: the loss bank is not settled",
        "pyspec/speculation/controller.py",
        "self.bank.settle(len(emitted), believed, plain)",
        "pass",
        (CONTROLLER + "test_every_round_is_in_the_books",),
    ),
    Fault(
        "controller: places behind a wrong guess are judged",
        "pyspec/speculation/drafter_record.py",
        "            if not right or at == len(pending):\n",
        "            if at == len(pending):\n",
        ("tests/round/test_drafter_record.py::test_places_behind_a_wrong_guess_are_not_judged",),
    ),
    Fault(
        "controller: chances are not multiplied along a draft",
        "pyspec/speculation/controller.py",
        "for k in range(1, min(len(draft.tokens), limit) + 1):\n                survival *= chances[k - 1]",
        "for k in range(1, min(len(draft.tokens), limit) + 1):\n                survival = chances[k - 1]",
        (
            CONTROLLER + "test_gains_where_there_is_something_to_gain",
            CONTROLLER + "test_confident_drafters_are_believed_and_corrected",
        ),
    ),
)

STOPPING = (
    Fault(
        "stops: tokens behind a stop string stay",
        "pyspec/llm/answer.py",
        "del self.tokens[n:], self._ends[n:], data[self._cut :]",
        "del data[self._cut :]",
        (STOPS + "test_stop_string_at_every_place[3/8-5-2]", STOPS + "TestStopStrings"),
    ),
    Fault(
        "stops: a string that began in an earlier block is not found",
        "pyspec/llm/stop.py",
        "start = max(0, n_old - self._longest + 1)",
        "start = n_old",
        (STOPS + "test_stop_string_at_every_place[3/8-5-2]", STOPS + "TestStopStrings"),
    ),
    Fault(
        "stops: a stream shows what a stop string takes back",
        "pyspec/llm/answer.py",
        "n = len(self.data) if final or not self._stops else self._stops.safe_length(self.data)",
        "n = len(self.data)",
        (STOPS + "test_streams_never_take_text_back[3/8]",),
    ),
    Fault(
        "roll: drafters are not told",
        "pyspec/llm/session.py",
        "        chain.shift(n_keep, p1, -n_discard)\n",
        "",
        (ROLL + "test_the_draft_rolls_without_decoding_again",),
    ),
    Fault(
        "roll: cells that remember forgotten tokens are reused",
        "pyspec/llm/session.py",
        "        self._n_reusable = min(self._n_reusable, n_keep)\n",
        "",
        (ROLL + "TestAfterARoll::test_other_prompts_do_not_reuse_them",),
    ),
    Fault(
        "roll: one token too early",
        "pyspec/llm/context_end.py",
        "if len(session.history) >= self._n_ctx:",
        "if len(session.history) >= self._n_ctx - 1:",
        (ROLL + "test_memory_after_every_roll",),
    ),
    Fault(
        "roll: K is not turned",
        "csrc/runtime/shift.cpp",
        "            angle *= delta;\n",
        "            angle *= 0;\n",
        ("tests/models/test_shift.py::test_k_is_that_of_the_new_positions[llama-f32]",),
    ),
    Fault(
        "roll: the last row does not move up",
        "csrc/memory/kv_cache.cpp",
        "move_cells(last, first, n_behind);",
        "move_cells(last, first, n_behind - 1);",
        ("tests/models/test_shift.py::test_k_is_that_of_the_new_positions[llama-f32]",),
    ),
)

GRAMMARS = (
    Fault(
        "grammar: the end token is fed to the matcher",
        "pyspec/llm/grammar/state.py",
        "n_text = next((i for i, token in enumerate(tokens) if token in end_ids), len(tokens))",
        "n_text = len(tokens)",
        (GRAMMAR + "test_an_end_token_at_every_index[closed-llama]",),
    ),
    Fault(
        "grammar: guesses are fed to the committed state",
        "pyspec/llm/grammar/state.py",
        "        probe = self._matcher.deep_copy()\n",
        "        probe = self._matcher\n",
        (GRAMMAR + "test_planning_changes_nothing",),
    ),
    Fault(
        "grammar: drafts are not cut",
        "pyspec/llm/grammar/state.py",
        "            del cut[self._matcher.validate_tokens(cut) :]\n",
        "            pass\n",
        (GRAMMAR + "test_the_matcher_is_used_by_its_rules",),
    ),
    Fault(
        "grammar: masks are one row off",
        "pyspec/llm/grammar/state.py",
        "            if not self._fill(probe, masks[i + 1]):",
        "            if not self._fill(probe, masks[i]):",
        (GRAMMAR + "test_masks_are_those_of_a_finite_language[llama]",),
    ),
)

ACCEPTING = (
    Fault(
        "accept: the draft is compared one place off",
        "csrc/sampling/accept.cpp",
        "choice.token == v.draft[i]};",
        "choice.token == v.draft[i > 0 ? i - 1 : 0]};",
        (REFERENCE + "test_accept_match",),
    ),
    Fault(
        "accept: the bonus row is not used",
        "csrc/sampling/accept_loop.h",
        "std::min<int64_t>(int64_t{v.n_draft} + 1, v.n_max)",
        "std::min<int64_t>(std::max(v.n_draft, 1), v.n_max)",
        (REFERENCE + "test_accept_match",),
    ),
    Fault(
        "accept: an end token does not stop the block",
        "csrc/sampling/accept_loop.h",
        "if (!decided.accepted || (v.is_end && v.is_end(decided.choice.token))) break;",
        "if (!decided.accepted) break;",
        (RULES + "test_masks_and_end_ids",),
    ),
    Fault(
        "accept: an error leaves the sampler advanced",
        "csrc/sampling/accept_loop.h",
        "sampler.rollback(n_advanced);",
        "sampler.rollback(0);",
        (ACCEPTANCE,),
    ),
    Fault(
        "accept: the sampler advances at the end of a block only",
        "csrc/sampling/accept_loop.h",
        "            sampler.advance(decided.choice);\n            ++n_advanced;\n",
        "            if (!decided.accepted) { sampler.advance(decided.choice); ++n_advanced; }\n",
        (REFERENCE + "test_accept_match",),
    ),
    Fault(
        "accept: masks are one row off",
        "csrc/sampling/accept_loop.h",
        "row.mask = v.masks + i * n_mask_words(n_vocab);",
        "row.mask = v.masks + (i > 0 ? i - 1 : 0) * n_mask_words(n_vocab);",
        (REFERENCE + "test_accept_match", RULES + "test_masks_and_end_ids"),
    ),
    Fault(
        "rejection: coins come from the stream of the residual",
        "csrc/sampling/rejection.cpp",
        "accepted = sampler.noise(Purpose::accept)",
        "accepted = sampler.noise(Purpose::residual)",
        (REFERENCE + "test_rejection_coins",),
    ),
    Fault(
        "rejection: every place has the same coin",
        "csrc/sampling/rejection.cpp",
        "accepted = sampler.noise(Purpose::accept).uniform(0)",
        "accepted = Noise{sampler.params().seed, 0, Purpose::accept}.uniform(0)",
        (REFERENCE + "test_rejection_coins",),
    ),
    Fault(
        "rejection: the draft's part is not taken off",
        "csrc/sampling/rejection.cpp",
        "t.p = std::max(0.0, t.p - probability(q, t.token));",
        "t.p = std::max(0.0, t.p);",
        (REFERENCE + "test_rejection", RULES + "test_rejection_rule"),
    ),
    Fault(
        "rejection: the residual is not normalised",
        "csrc/sampling/rejection.cpp",
        "    for (WeightedToken & t : left) t.p /= sum;\n",
        "",
        (RULES + "test_rejection_rule",),
    ),
    Fault(
        "drafting: the drafter's own draws use the target's stream",
        "csrc/sampling/drafting.cpp",
        "const Noise own{draft_seed_ ^ 0x85EBCA6BC2B2AE35u, static_cast<uint64_t>(index_), Purpose::draft};",
        "const Noise own{params_.seed, static_cast<uint64_t>(index_), Purpose::target};",
        ("tests/native/test_native.py::test_native[test_drafting]",),
    ),
)

SAMPLING = (
    Fault(
        "sampler: the mask is applied after the filters",
        "csrc/sampling/sampler.cpp",
        """\
    gather_candidates(row, p.top_n_sigma > 0.0f ? 0 : p.top_k, list);
    filter_top_n_sigma(list, p.top_n_sigma);
    filter_top_k(list, p.top_k);
    filter_typical(list, p.typical_p, min_keep);
    filter_top_p(list, p.top_p, min_keep);
    filter_min_p(list, p.min_p, min_keep);
""",
        """\
    gather_candidates({row.logits, row.n, row.maxima, nullptr}, p.top_n_sigma > 0.0f ? 0 : p.top_k, list);
    filter_top_n_sigma(list, p.top_n_sigma);
    filter_top_k(list, p.top_k);
    filter_typical(list, p.typical_p, min_keep);
    filter_top_p(list, p.top_p, min_keep);
    filter_min_p(list, p.min_p, min_keep);
    const auto forbidden = [&](const Candidate & c) {
        return row.mask != nullptr && !(row.mask[c.token / 32] >> (c.token % 32) & 1);
    };
    if (std::any_of(list.items.begin(), list.items.end(), [&](const Candidate & c) { return !forbidden(c); })) {
        std::erase_if(list.items, forbidden);
        list.n_sorted = 0;
    } else {
        gather_candidates(row, 1, list);
    }
""",
        (REFERENCE + "test_candidates_and_choice",),
    ),
    Fault(
        "penalties: the window forgets one token too late",
        "csrc/sampling/sampler.cpp",
        "    if (window_is_full(size - 1)) {\n",
        "    if (window_is_full(size - 2)) {\n",
        (REFERENCE + "test_one_setting_at_a_time",),
    ),
    Fault(
        "penalties: an undone token does not bring back the one that left the window",
        "csrc/sampling/sampler.cpp",
        "        if (window_is_full(size)) counts_.add(history_[size - static_cast<size_t>(params_.penalty_last_n)].token);\n",
        "",
        (REFERENCE + "test_one_setting_at_a_time",),
    ),
    Fault(
        "mirostat: undoing leaves mu",
        "csrc/sampling/sampler.cpp",
        "            mu_ = earlier_mus_.back();\n",
        "",
        (REFERENCE + "test_accept_match",),
    ),
    Fault(
        "xtc: the coin comes from the target's stream",
        "csrc/sampling/sampler.cpp",
        "noise(Purpose::xtc).uniform(0)",
        "noise(Purpose::target).uniform(0)",
        (REFERENCE + "test_one_setting_at_a_time",),
    ),
    Fault(
        "xtc: the coin is a fresh one each time",
        "csrc/sampling/sampler.cpp",
        "noise(Purpose::xtc).uniform(0)",
        "[] { static uint64_t n = 0; return Noise{1, ++n, Purpose::xtc}.uniform(0); }()",
        (REFERENCE + "test_one_setting_at_a_time",),
    ),
    Fault(
        "dry: repetitions reach over breakers",
        "csrc/sampling/dry.cpp",
        "std::min(static_cast<size_t>(work[k]), limit)",
        "static_cast<size_t>(work[k])",
        (REFERENCE + "test_one_setting_at_a_time",),
    ),
)

HISTORY = (
    Fault(
        "ngram-simple: copies beyond the history",
        "csrc/history/ngram_simple.cpp",
        "std::min(m_, length - (start + n));",
        "m_;",
        (NGRAM + "test_simple",),
    ),
    Fault(
        "ngram-map-k4v: cutting forgets to count down",
        "csrc/history/ngram_map.cpp",
        "        --owner.hits;\n",
        "",
        (NGRAM + "test_map_k4v",),
    ),
    Fault(
        "ngram-mod: a full table is not emptied",
        "csrc/history/ngram_mod.cpp",
        "    if (used_ > table_.size() / 4) reset();\n",
        "",
        (TABLES + "test_a_full_table_is_emptied_at_begin",),
    ),
    Fault(
        "ngram-cache: withdrawn tokens are learnt",
        "csrc/history/ngram_cache.cpp",
        "    if (learn_ && !withdrawn) {\n",
        "    if (learn_) {\n",
        (NGRAM + "test_cache",),
    ),
    Fault(
        "ngram-cache: counts reach over what is no text",
        "csrc/history/ngram_cache.cpp",
        "size <= std::min(max_size, i) && tokens_[i - size] >= 0;",
        "size <= std::min(max_size, i);",
        ("tests/ngram/test_cache_files.py::test_what_is_no_text_is_not_learnt",),
    ),
    Fault(
        "suffix: a clone forgets how often its strings ended a document",
        "csrc/history/suffix_automaton.cpp",
        "    made.length     = states_[from].length + 1;\n",
        "    made.length     = states_[from].length + 1;\n    made.ends       = 0;\n",
        (SUFFIX_AUTOMATON,),
    ),
    Fault(
        "suffix: undoing leaves transitions to the clone",
        "csrc/history/suffix_automaton.cpp",
        "            redirect(at, log.token, log.cloned_from);\n",
        "",
        (SUFFIX + "test_undo_leaves_no_trace",),
    ),
    Fault(
        "suffix: undoing leaves the most frequent continuation",
        "csrc/history/suffix_automaton.cpp",
        "    for (size_t i = log.best.size(); i-- > 0;) states_[log.best[i].state].best = log.best[i].before;\n",
        "",
        (SUFFIX + "test_undo_leaves_no_trace",),
    ),
)

FAULTS: tuple[Fault, ...] = (
    *ROUND, *CONTROL, *STOPPING, *GRAMMARS, *ACCEPTING, *SAMPLING, *HISTORY,
)  # fmt: skip
