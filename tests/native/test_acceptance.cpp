// Sample-and-match on scripted rows: what is emitted, how far the sampler moves, and that errors leave no trace.
// Case C031 (penalties advance per token inside a block): sgl-project/sglang#33643, sgl-project/sglang#28242,
// NVIDIA/TensorRT-LLM#17701. Case C029 (end token inside a block): LostRuins/koboldcpp#1276,
// huggingface/transformers#47912.
#include "sampling_fixtures.h"

#include "sampling/accept.h"

#include <new>

using namespace pyspec;

namespace {

constexpr int32_t n_vocab = 12;
using Tokens              = std::vector<int32_t>;
const std::function<bool(int32_t)> no_end;

std::vector<float> random_rows(int32_t n, uint64_t seed) {
    std::vector<float> rows(static_cast<size_t>(n) * n_vocab);
    for (size_t i = 0; i < rows.size(); ++i) {
        rows[i] = static_cast<float>(gumbel(seed, i, 0, row_noise));
    }
    return rows;
}

// Rows whose arg-max is given: the tokens a greedy target would say.
std::vector<float> rows_saying(const Tokens & tokens) {
    std::vector<float> rows(tokens.size() * n_vocab, 0.0f);
    for (size_t i = 0; i < tokens.size(); ++i) rows[i * n_vocab + static_cast<size_t>(tokens[i])] = 5.0f;
    return rows;
}

struct Outcome {
    std::string tokens;
    int32_t n_accepted;
};

Outcome accept(Sampler & sampler, const std::vector<float> & rows, const Tokens & draft, int32_t n_max = 1000,
               const std::function<bool(int32_t)> & is_end = no_end) {
    Tokens out(draft.size() + 1, -1);
    const int64_t before  = sampler.n_history();
    const Verdict verdict = accept_match(
        sampler, {rows.data(), nullptr, nullptr, draft.data(), static_cast<int32_t>(draft.size()), n_max, is_end},
        out.data());
    for (size_t i = static_cast<size_t>(verdict.n_out); i < out.size(); ++i) CHECK_EQ(out[i], -1);
    CHECK_EQ(sampler.n_history() - before, static_cast<int64_t>(verdict.n_out));
    CHECK_EQ(sampler.index(), sampler.n_history());
    out.resize(static_cast<size_t>(verdict.n_out));
    for (int32_t i = 0; i < verdict.n_accepted; ++i)
        CHECK_EQ(out[static_cast<size_t>(i)], draft[static_cast<size_t>(i)]);
    return {text(out), verdict.n_accepted};
}

SamplerParams greedy() {
    SamplerParams p;
    p.temperature = 0;
    return p;
}

void test_outcomes() {
    const std::vector<float> rows = rows_saying({3, 1, 4, 1, 5});
    const auto run                = [&](const Tokens & draft, int32_t n_max = 1000, int32_t end = -1) {
        Sampler s(greedy(), n_vocab);
        return accept(s, rows, draft, n_max, [=](int32_t t) { return t == end; });
    };
    Outcome o = run({3, 1, 4, 1}); // all right: draft + bonus
    CHECK_EQ(o.tokens, "3 1 4 1 5 ");
    CHECK_EQ(o.n_accepted, 4);
    o = run({3, 1, 7, 1}); // k right, then the correction; a later match does not count
    CHECK_EQ(o.tokens, "3 1 4 ");
    CHECK_EQ(o.n_accepted, 2);
    o = run({9, 9, 9, 9}); // none right
    CHECK_EQ(o.tokens, "3 ");
    CHECK_EQ(o.n_accepted, 0);
    o = run({}); // plain decoding
    CHECK_EQ(o.tokens, "3 ");
    CHECK_EQ(o.n_accepted, 0);
    o = run({3, 1, 4, 1}, 3); // n_max inside the accepted part
    CHECK_EQ(o.tokens, "3 1 4 ");
    CHECK_EQ(o.n_accepted, 3);
    o = run({3, 1, 4, 1}, 1);
    CHECK_EQ(o.tokens, "3 ");
    CHECK_EQ(o.n_accepted, 1);
    o = run({3, 1, 4, 1}, 4); // room for the draft but not for the bonus
    CHECK_EQ(o.tokens, "3 1 4 1 ");
    CHECK_EQ(o.n_accepted, 4);
    o = run({-5, 99, 4, 1}); // ids outside the vocabulary are only wrong
    CHECK_EQ(o.tokens, "3 ");

    // An end token ends the block wherever it falls: correct draft token, last draft token, correction, bonus.
    o = run({3, 1, 4, 1}, 1000, 4);
    CHECK_EQ(o.tokens, "3 1 4 ");
    CHECK_EQ(o.n_accepted, 3);
    o = run({3, 1, 4}, 1000, 4);
    CHECK_EQ(o.tokens, "3 1 4 ");
    CHECK_EQ(o.n_accepted, 3);
    o = run({3, 1, 9, 1}, 1000, 4);
    CHECK_EQ(o.tokens, "3 1 4 ");
    CHECK_EQ(o.n_accepted, 2);
    o = run({3, 1, 4, 1}, 1000, 5);
    CHECK_EQ(o.tokens, "3 1 4 1 5 ");
    CHECK_EQ(o.n_accepted, 4);
    o = run({3, 1, 4, 1}, 1000, 3);
    CHECK_EQ(o.tokens, "3 ");
    CHECK_EQ(o.n_accepted, 1);
}

// A deterministic "model": the row after a history depends on its last two tokens and its length.
std::vector<float> row_after(const Tokens & history) {
    uint64_t key = history.size();
    for (size_t i = history.size() > 2 ? history.size() - 2 : 0; i < history.size(); ++i) {
        key = key * 31 + static_cast<uint64_t>(history[i]) + 1;
    }
    return random_rows(1, key);
}

// Plain decoding, one token at a time.
Tokens plain_decode(Sampler s, int32_t n) {
    Tokens history;
    while (static_cast<int32_t>(history.size()) < n) {
        const int32_t token = s.sample(row_after(history).data());
        s.advance(token, false);
        history.push_back(token);
    }
    return history;
}

// The same through blocks: drafts are `truth` with errors put in, lengths vary.
Tokens speculative(Sampler s, int32_t n, const Tokens & truth, uint64_t seed) {
    Tokens history;
    for (uint64_t round = 0; static_cast<int32_t>(history.size()) < n; ++round) {
        const PhiloxBlock word = philox_block(seed, round, 0, row_noise);
        Tokens draft;
        for (size_t i = 0; i < word[0] % 9 && history.size() + i < truth.size(); ++i) {
            const bool wrong = i == word[1] % 10;
            draft.push_back(wrong ? static_cast<int32_t>(word[2] % n_vocab) : truth[history.size() + i]);
        }
        std::vector<float> rows;
        Tokens upto = history;
        for (size_t i = 0; i <= draft.size(); ++i) {
            const std::vector<float> row = row_after(upto);
            rows.insert(rows.end(), row.begin(), row.end());
            if (i < draft.size()) upto.push_back(draft[i]);
        }
        Tokens out(draft.size() + 1);
        const Verdict v = accept_match(s,
                                       {rows.data(), nullptr, nullptr, draft.data(), static_cast<int32_t>(draft.size()),
                                        n - static_cast<int32_t>(history.size()), no_end},
                                       out.data());
        history.insert(history.end(), out.begin(), out.begin() + v.n_out);
    }
    return history;
}

void test_same_as_plain() {
    for (float temperature : {0.0f, 0.7f, 1.5f}) {
        for (int penalty = 0; penalty < 4; ++penalty) {
            SamplerParams p;
            p.temperature    = temperature;
            p.seed           = 40 + static_cast<uint64_t>(penalty);
            p.penalty_last_n = penalty == 3 ? 5 : -1;
            if (penalty == 1) p.repeat_penalty = 3.0f;
            if (penalty == 2) p.presence_penalty = 2.0f;
            if (penalty == 3) p.frequency_penalty = 2.0f;
            const Sampler s(p, n_vocab);
            const Tokens truth = plain_decode(s, 60);
            for (uint64_t seed = 0; seed < 10; ++seed) CHECK_EQ(text(speculative(s, 60, truth, seed)), text(truth));
        }
    }
}

// Masks belong to rows; every setting that remembers something gives the same text in blocks and alone.
void test_masks_and_memory() {
    const auto mask_after = [](const Tokens & history) { // two tokens in three, another choice after each token
        const uint64_t key = history.empty() ? 0 : static_cast<uint64_t>(history.back()) + history.size();
        return philox_block(5, key, 0, row_noise)[0] | 1u;
    };
    const std::vector<std::function<void(SamplerParams &)>> settings = {
        [](auto &) {},
        [](auto & p) { p.temperature = 0; },
        [](auto & p) { p.dry_multiplier = 2.0f, p.dry_allowed_length = 1; },
        [](auto & p) { p.mirostat = 2, p.mirostat_tau = 1.0f, p.mirostat_eta = 0.5f; },
        [](auto & p) { p.xtc_probability = 0.5f; },
        [](auto & p) { p.dynatemp_range = 0.5f, p.repeat_penalty = 2.0f; },
    };
    for (const auto & change : settings) {
        SamplerParams p;
        p.seed = 9;
        change(p);
        Sampler alone(p, n_vocab), blocks(p, n_vocab);
        Tokens truth;
        for (int i = 0; i < 80; ++i) {
            const std::vector<float> row = row_after(truth);
            const uint32_t mask          = mask_after(truth);
            const Choice choice          = alone.choose({row.data(), n_vocab, nullptr, &mask});
            CHECK(mask >> choice.token & 1);
            alone.advance(choice);
            truth.push_back(choice.token);
        }
        Tokens history;
        for (uint64_t round = 0; history.size() < 60; ++round) {
            const PhiloxBlock word = philox_block(8, round, 0, row_noise);
            Tokens draft(truth.begin() + static_cast<std::ptrdiff_t>(history.size()),
                         truth.begin() + static_cast<std::ptrdiff_t>(history.size() + word[0] % 7));
            if (!draft.empty() && word[1] % 2 == 0)
                draft[word[2] % draft.size()] = static_cast<int32_t>(word[3] % n_vocab);
            std::vector<float> rows;
            std::vector<uint32_t> masks;
            Tokens upto = history;
            for (size_t i = 0; i <= draft.size(); ++i) {
                const std::vector<float> row = row_after(upto);
                rows.insert(rows.end(), row.begin(), row.end());
                masks.push_back(mask_after(upto));
                if (i < draft.size()) upto.push_back(draft[i]);
            }
            Tokens out(draft.size() + 1);
            const Verdict v = accept_match(
                blocks,
                {rows.data(), nullptr, masks.data(), draft.data(), static_cast<int32_t>(draft.size()), 99, no_end},
                out.data());
            // Forced again after a restore: the same tokens, then one more (invariants 24 and 25).
            Sampler replayed = blocks;
            replayed.rollback(v.n_out);
            Tokens again(out.size() + 1, -1);
            if (v.n_out <= static_cast<int32_t>(draft.size())) {
                const Verdict r = accept_replay(
                    replayed, {rows.data(), nullptr, masks.data(), out.data(), v.n_out - 1, 99, no_end}, again.data());
                CHECK_EQ(r.n_out, v.n_out);
                for (int32_t i = 0; i < v.n_out; ++i)
                    CHECK_EQ(again[static_cast<size_t>(i)], out[static_cast<size_t>(i)]);
                CHECK_EQ(observe(replayed), observe(blocks));
            }
            history.insert(history.end(), out.begin(), out.begin() + v.n_out);
        }
        truth.resize(history.size());
        CHECK_EQ(text(history), text(truth));
    }
}

// Invariant 24: replay emits what was decided, whatever the rows say now, then one token more.
void test_replay() {
    const std::vector<float> rows = rows_saying({3, 1, 4, 1, 5});
    const auto run                = [&](const Tokens & forced, int32_t n_max, int32_t end) {
        Sampler s(greedy(), n_vocab);
        Tokens out(forced.size() + 1, -1);
        const Verdict v =
            accept_replay(s,
                          {rows.data(), nullptr, nullptr, forced.data(), static_cast<int32_t>(forced.size()), n_max,
                           [=](int32_t t) { return t == end; }},
                          out.data());
        CHECK_EQ(s.index(), static_cast<int64_t>(v.n_out));
        out.resize(static_cast<size_t>(v.n_out));
        return text(out);
    };
    CHECK_EQ(run({9, 8}, 9, -1), "9 8 4 ");
    CHECK_EQ(run({}, 9, -1), "3 ");
    CHECK_EQ(run({9, 8}, 2, -1), "9 8 ");
    CHECK_EQ(run({9, 8}, 9, 8), "9 8 "); // nothing behind an end token
    Sampler s(greedy(), n_vocab);
    const Tokens bad = {2, n_vocab};
    Tokens out(3, -1);
    CHECK_ERROR(accept_replay(s, {rows.data(), nullptr, nullptr, bad.data(), 2, 9, no_end}, out.data()), PYSPEC_OPTION,
                "token is 12");
    CHECK_EQ(s.n_history(), 0);
}

void test_penalties_inside_block() {
    // Every row prefers token 2 a little over token 3 over token 4; a strong penalty makes them take turns.
    std::vector<float> rows;
    for (int i = 0; i < 4; ++i) {
        for (int32_t v = 0; v < n_vocab; ++v) rows.push_back(v == 2 ? 3.0f : v == 3 ? 2.9f : v == 4 ? 2.8f : -5.0f);
    }
    const auto run = [&](void (*change)(SamplerParams &), const Tokens & draft) {
        SamplerParams p = greedy();
        change(p);
        Sampler s(p, n_vocab);
        return accept(s, rows, draft).tokens;
    };
    CHECK_EQ(run([](SamplerParams &) {}, {2, 2, 2}), "2 2 2 2 ");
    CHECK_EQ(run([](SamplerParams & p) { p.repeat_penalty = 1.5f; }, {2, 3, 4}), "2 3 4 2 ");
    CHECK_EQ(run([](SamplerParams & p) { p.presence_penalty = 1.0f; }, {2, 3, 4}), "2 3 4 2 ");
    CHECK_EQ(run([](SamplerParams & p) { p.frequency_penalty = 1.0f; }, {2, 3, 4}), "2 3 4 2 ");
    // A draft that keeps proposing the penalised token is right only once.
    CHECK_EQ(run([](SamplerParams & p) { p.presence_penalty = 1.0f; }, {2, 2, 2}), "2 3 ");
    // A window of one token: only the previous one is penalised.
    CHECK_EQ(run([](SamplerParams & p) { p.presence_penalty = 1.0f, p.penalty_last_n = 1; }, {2, 3, 2}), "2 3 2 3 ");
}

void test_errors() {
    SamplerParams p;
    p.repeat_penalty = 1.4f;
    p.penalty_last_n = 6;
    Sampler s(p, n_vocab);
    for (int32_t i = 0; i < 9; ++i) s.advance(i, i % 2 == 0);
    const std::string before = observe(s);
    std::vector<float> rows  = random_rows(5, 3);
    // The tokens the sampler will choose, so that every row is looked at.
    Tokens draft;
    {
        Sampler copy = s;
        for (size_t i = 0; i < 4; ++i) {
            draft.push_back(copy.sample(rows.data() + i * n_vocab));
            copy.advance(draft.back(), false);
        }
    }
    Tokens out(5, -1);
    const auto run = [&](int32_t n_draft, int32_t n_max, const std::function<bool(int32_t)> & is_end) {
        return accept_match(s, {rows.data(), nullptr, nullptr, draft.data(), n_draft, n_max, is_end}, out.data());
    };
    const auto untouched = [&] { return observe(s) == before && out == Tokens(5, -1); };
    for (size_t bad = 0; bad < 5; ++bad) {
        const std::vector<float> good = rows;
        rows[bad * n_vocab + 4]       = nan_;
        CHECK_ERROR(run(4, 9, no_end), PYSPEC_OPTION, "token 4 is not a number");
        CHECK(untouched());
        std::fill(rows.begin() + static_cast<std::ptrdiff_t>(bad * n_vocab),
                  rows.begin() + static_cast<std::ptrdiff_t>((bad + 1) * n_vocab), -inf);
        CHECK_ERROR(run(4, 9, no_end), PYSPEC_OPTION, "no token can be chosen");
        CHECK(untouched());
        rows = good;
    }
    CHECK_ERROR(run(-1, 9, no_end), PYSPEC_OPTION, "n_draft is -1; allowed: 0 or more");
    CHECK_ERROR(run(4, 0, no_end), PYSPEC_OPTION, "n_max is 0; allowed: 1 or more");
    CHECK_ERROR(run(4, -1, no_end), PYSPEC_OPTION, "n_max is -1");
    CHECK(untouched());
    int calls   = 0;
    bool thrown = false;
    try {
        run(4, 9, [&](int32_t) -> bool { return ++calls == 3 ? throw std::bad_alloc() : false; });
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    CHECK(thrown && untouched());

    // A row behind the stop is never looked at.
    rows[3 * n_vocab] = nan_;
    CHECK_EQ(run(4, 3, no_end).n_out, 3);
    s.rollback(3);
    draft[2] = (draft[2] + 1) % n_vocab;
    CHECK_EQ(run(4, 9, no_end).n_out, 3);
    s.rollback(3);
    CHECK_EQ(observe(s), before);
}

} // namespace

int main() {
    test_outcomes();
    test_same_as_plain();
    test_masks_and_memory();
    test_replay();
    test_penalties_inside_block();
    test_errors();
    return check_report();
}
