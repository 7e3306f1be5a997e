// Text in distribution: long generations of toy models through rounds of drafts, for plain decoding, coupled drafting
// and rejection sampling, against the law that plain sampling is defined by. Chi-square over every context's next token
// and over pairs across round borders; limits and seeds are fixed. Also the exact law of rejection rounds by
// enumeration, and the keyed generator itself.
// Case C033 (sampling under speculation): lablup/mlxcel#902, ml-explore/mlx-swift-lm#459, ggml-org/llama.cpp#27694.
// Invariants of the verification reference: 4, 5, 6, 7, 8, 9, 48.
#include "sampling_fixtures.h"

#include "sampling/rejection.h"

#include <array>
#include <map>

using namespace pyspec;

namespace {

constexpr int n_tokens = 120000;

// A Markov model: the law of the next token depends on the last one.
using Table = std::vector<std::vector<float>>; // logits by last token

Table table_of(const std::vector<std::vector<double>> & p) {
    Table table;
    for (const std::vector<double> & row : p) table.push_back(log_of(row));
    return table;
}

// Every third entry impossible, never a whole row.
Table with_zeros(Table table) {
    for (size_t last = 0; last < table.size(); ++last) {
        for (size_t v = 0; v < table.size(); ++v) {
            if ((v + last) % 3 == 0) table[last][v] = -inf;
        }
    }
    return table;
}

Table random_table(int32_t n, uint64_t seed, double scale) {
    Table table;
    for (int32_t last = 0; last < n; ++last) {
        table.push_back(random_row(n, seed * 100 + static_cast<uint64_t>(last), scale));
    }
    return table;
}

struct Toy {
    const char * name;
    Table target;
    Table draft;
    SamplerParams params;        // of the target, and of the draft's sampler
    SamplerParams draft_params;  // differ where drafter and target filter differently
    std::vector<uint32_t> masks; // by last token; empty: none
};

enum class Mode { plain, coupled, rejection };

const uint32_t * mask_after(const Toy & toy, int32_t last) {
    return toy.masks.empty() ? nullptr : &toy.masks[static_cast<size_t>(last)];
}

struct Run {
    Tokens tokens;
    int n_drafted = 0, n_accepted = 0, n_coins = 0;
};

// Rounds of 0 to 4 draft tokens, lengths from a generator that has nothing to do with either model.
Run generate(const Toy & toy, Mode mode, int n, double scale = 1.0) {
    const int32_t n_vocab = static_cast<int32_t>(toy.target.size());
    Sampler target(toy.params, n_vocab);
    Sampler drafting = Sampler(toy.draft_params, n_vocab).for_drafting(scale, toy.params.seed);
    Run run;
    int32_t last = 0;
    for (uint64_t round = 0; static_cast<int>(run.tokens.size()) < n; ++round) {
        const int k = mode == Mode::plain ? 0 : static_cast<int>(philox_block(77, round, 0, row_noise)[0] % 5);
        drafting.rollback(static_cast<int32_t>(std::max<int64_t>(0, drafting.index() - target.index())));
        while (drafting.index() < target.index()) drafting.advance(0, false); // only its index matters here
        Tokens draft;
        std::vector<DraftLaw> laws;
        std::vector<float> rows = toy.target[static_cast<size_t>(last)];
        std::vector<uint32_t> masks;
        if (!toy.masks.empty()) masks.push_back(*mask_after(toy, last));
        int32_t before = last;
        for (int i = 0; i < k; ++i) {
            const LogitRow row{toy.draft[static_cast<size_t>(before)].data(), n_vocab};
            DraftLaw law;
            before = mode == Mode::coupled ? drafting.draft(row, 10).token : drafting.draw_draft(row, law);
            laws.push_back(law);
            draft.push_back(before);
            drafting.advance(before, false);
            const std::vector<float> & next = toy.target[static_cast<size_t>(before)];
            rows.insert(rows.end(), next.begin(), next.end());
            if (!toy.masks.empty()) masks.push_back(*mask_after(toy, before));
        }
        Tokens out(static_cast<size_t>(k) + 1);
        const Verification v{rows.data(), nullptr, toy.masks.empty() ? nullptr : masks.data(), draft.data(), k,
                             k + 1,       {}};
        RejectionVerdict verdict{};
        if (mode == Mode::rejection) {
            verdict = accept_rejection(target, v, laws, out.data());
        } else {
            const Verdict matched = accept_match(target, v, out.data());
            verdict               = {matched.n_out, matched.n_accepted, 0};
        }
        run.tokens.insert(run.tokens.end(), out.begin(), out.begin() + verdict.n_out);
        run.n_drafted += k;
        run.n_accepted += verdict.n_accepted;
        run.n_coins += verdict.n_coins;
        last = run.tokens.back();
    }
    return run;
}

// The law a token after `last` is defined to have.
std::vector<double> law_after(const Toy & toy, int32_t last) {
    const int32_t n_vocab = static_cast<int32_t>(toy.target.size());
    std::vector<WeightedToken> law;
    Sampler(toy.params, n_vocab)
        .distribution({toy.target[static_cast<size_t>(last)].data(), n_vocab, nullptr, mask_after(toy, last)}, law);
    std::vector<double> p(static_cast<size_t>(n_vocab), 0.0);
    for (const WeightedToken & t : law) p[static_cast<size_t>(t.token)] = t.p;
    return p;
}

// Chi-square of the `order` tokens that follow each token of the text. Cells that expect fewer than 5 are left out,
// impossible ones must be empty.
bool follows_law(const Toy & toy, const Tokens & text, int order) {
    const size_t n_vocab = toy.target.size();
    size_t n_cells       = 1;
    for (int i = 0; i < order; ++i) n_cells *= n_vocab;
    std::vector<std::vector<double>> after;
    for (size_t last = 0; last < n_vocab; ++last) after.push_back(law_after(toy, static_cast<int32_t>(last)));

    std::vector<int> seen(n_vocab * n_cells), n(n_vocab);
    const size_t span = static_cast<size_t>(order);
    for (size_t i = 0; i + span < text.size(); ++i) {
        size_t cell = 0;
        for (size_t j = 0; j <= span; ++j) cell = cell * n_vocab + static_cast<size_t>(text[i + j]);
        ++seen[cell];
        ++n[static_cast<size_t>(text[i])];
    }
    double sum  = 0.0;
    int degrees = 0;
    for (size_t context = 0; context < n_vocab; ++context) {
        int cells = 0;
        for (size_t cell = 0; cell < n_cells; ++cell) {
            double p    = 1.0;
            size_t last = context;
            for (size_t scale = n_cells / n_vocab, rest = cell; scale > 0; rest %= scale, scale /= n_vocab) {
                p *= after[last][rest / scale];
                last = rest / scale;
            }
            const int found = seen[context * n_cells + cell];
            if (p <= 0.0 && found > 0) return false;
            const double expected = n[context] * p;
            if (expected < 5.0) continue;
            sum += (found - expected) * (found - expected) / expected;
            ++cells;
        }
        degrees += std::max(0, cells - 1);
    }
    return degrees == 0 || sum < chi_square_limit(degrees);
}

std::vector<Toy> toys() {
    const Table three  = table_of({{.1, .5, .4}, {.3, .3, .4}, {.6, .2, .2}});
    const Table other  = table_of({{.5, .4, .1}, {.1, .8, .1}, {.2, .2, .6}});
    const Table five   = random_table(5, 3, 1.0);
    const Table guess  = random_table(5, 4, 1.0);
    const Table eight  = random_table(8, 5, 1.5);
    const Table eight2 = random_table(8, 6, 1.5);
    const auto some    = with(plain(1), [](auto & p) { p.seed = 41; });
    const auto change  = [&](const std::function<void(SamplerParams &)> & f) { return with(some, f); };
    const auto top_2   = change([](auto & p) { p.top_k = 2; });
    const auto cool    = change([](auto & p) { p.temperature = 0.6f, p.top_p = 0.9f; });
    const auto warm    = change([](auto & p) { p.temperature = 1.6f, p.min_p = 0.05f; });
    const auto xtc     = change([](auto & p) { p.xtc_probability = 1.0f, p.xtc_threshold = 0.2f; });
    return {
        {"equal", three, three, some, some, {}},
        {"apart", three, other, some, some, {}},
        {"disjoint",
         table_of({{.5, .5, 0, 0}, {.2, .8, 0, 0}, {.3, .7, 0, 0}, {.4, .6, 0, 0}}),
         table_of({{0, 0, .5, .5}, {0, 0, .2, .8}, {0, 0, .3, .7}, {0, 0, .6, .4}}),
         some,
         some,
         {}},
        {"target is certain", table_of({{0, 1, 0}, {.2, .3, .5}, {1, 0, 0}}), other, some, some, {}},
        {"draft is certain", three, table_of({{0, 1, 0}, {1, 0, 0}, {0, 0, 1}}), some, some, {}},
        {"draft misses tokens", five, with_zeros(guess), some, some, {}},
        {"target misses tokens", with_zeros(five), guess, some, some, {}},
        {"masked", five, guess, some, some, {0b11010, 0b00111, 0b10001, 0b01110, 0b11111}},
        {"masked to one", five, guess, some, some, {0b00010, 0b00111, 0b10000, 0b01110, 0b11111}},
        {"masked and filtered", eight, eight2, cool, cool, {0xF0, 0x0F, 0xFF, 0x3C, 0xC3, 0x5A, 0xA5, 0x81}},
        {"filtered alike", eight, eight2, cool, cool, {}},
        {"filtered differently", eight, eight2, cool, warm, {}},
        {"draft filtered only", five, guess, some, top_2, {}},
        {"target filtered only", five, guess, top_2, some, {}},
        {"top choices excluded", eight, eight2, xtc, xtc, {}},
    };
}

// Invariants 4, 6 and 8: what is emitted has the target's law, whatever the drafter.
void test_law_of_the_text() {
    const int n = check::sanitized ? n_tokens / 20 : n_tokens;
    for (const Toy & toy : toys()) {
        const Run text = generate(toy, Mode::plain, n);
        CHECK(follows_law(toy, text.tokens, 1) && follows_law(toy, text.tokens, 2));
        // Coupled drafting cannot change the text at all, sharpened or not.
        for (double scale : {1.0, 0.8}) {
            const Run coupled = generate(toy, Mode::coupled, n / 4, scale);
            const size_t both = std::min(coupled.tokens.size(), text.tokens.size());
            CHECK(std::equal(coupled.tokens.begin(), coupled.tokens.begin() + static_cast<std::ptrdiff_t>(both),
                             text.tokens.begin()));
        }
        for (double scale : {1.0, 0.8}) {
            const Run rejection = generate(toy, Mode::rejection, n, scale);
            if (!follows_law(toy, rejection.tokens, 1) || !follows_law(toy, rejection.tokens, 2)) {
                check::failed(__FILE__, __LINE__, std::string("rejection changes the law: ") + toy.name);
            }
            ++check::n_checks;
            const std::string name = toy.name;
            if (name == "disjoint") CHECK(rejection.n_accepted == 0 && rejection.n_coins == 0);
            if (name == "equal" && scale == 1.0) { // invariant 5
                CHECK_EQ(rejection.n_accepted, rejection.n_drafted);
                CHECK_EQ(rejection.n_coins, 0);
            }
        }
    }
}

// Acceptance of one draft token, in closed form: total variation for rejection; for coupling the sum over v of
// 1 / sum over y of max(p(y) / p(v), q(y) / q(v)).
void test_acceptance() {
    const std::vector<double> p = {.1, .5, .4}, q = {.5, .4, .1};
    const std::vector<float> target_row = log_of(p), draft_row = log_of(q);
    const auto first = [&](Mode mode) {
        int accepted = 0;
        const int n  = 100000;
        for (int i = 0; i < n; ++i) {
            Sampler target(with(plain(1), [&](auto & s) { s.seed = static_cast<uint64_t>(i); }), 3);
            const Sampler drafting = target.for_drafting(1.0, target.params().seed);
            DraftLaw law;
            const LogitRow row{draft_row.data(), 3};
            const int32_t d = mode == Mode::coupled ? drafting.draft(row, 3).token : drafting.draw_draft(row, law);
            Tokens out(2);
            const Verification v{target_row.data(), nullptr, nullptr, &d, 1, 1, {}};
            accepted += mode == Mode::coupled ? accept_match(target, v, out.data()).n_accepted
                                              : accept_rejection(target, v, {law}, out.data()).n_accepted;
        }
        return accepted / static_cast<double>(n);
    };
    double coupling = 0.0;
    for (size_t v = 0; v < 3; ++v) {
        double sum = 0.0;
        for (size_t y = 0; y < 3; ++y) sum += std::max(p[y] / p[v], q[y] / q[v]);
        coupling += 1.0 / sum;
    }
    CHECK(std::abs(coupling - 0.528) < 5e-4);
    CHECK(std::abs(first(Mode::coupled) - coupling) < 0.0064); // four standard deviations
    CHECK(std::abs(first(Mode::rejection) - 0.6) < 0.0063);
}

// The exact law of the next three tokens over as many rounds as it takes, coins integrated out: a round's verdict is a
// sum over drafts and outcomes, weighted by the rule's own probabilities.
class Enumeration {
public:
    Enumeration(uint64_t seed, int32_t k, bool zeros) : seed_(seed), k_(k), zeros_(zeros) {}

    // Largest difference between the law that rounds emit and the product of the target's laws.
    double error() {
        rounds({}, 1.0);
        double worst = 0.0;
        for (const auto & [tokens, weight] : emitted_) {
            double p = 1.0;
            for (size_t i = 0; i < tokens.size(); ++i) {
                p *= law(Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(i)),
                         0)[static_cast<size_t>(tokens[i])];
            }
            worst = std::max(worst, std::abs(p - weight));
        }
        return worst;
    }

private:
    // 0: the target's, 1: the draft's.
    std::vector<double> law(const Tokens & prefix, int which) const {
        uint64_t key = seed_ * 2 + static_cast<uint64_t>(which);
        for (int32_t t : prefix) key = key * 31 + static_cast<uint64_t>(t) + 1;
        std::vector<double> p;
        double sum = 0.0;
        for (uint32_t v = 0; v < 3; ++v) {
            const double u = uniform_open(key, v, 0, row_noise);
            p.push_back(zeros_ && u < 0.3 ? 0.0 : u);
            sum += p.back();
        }
        if (sum == 0.0) p[key % 3] = sum = 1.0;
        for (double & x : p) x /= sum;
        return p;
    }

    static std::vector<WeightedToken> weighted(const std::vector<double> & p) {
        std::vector<WeightedToken> out;
        for (size_t v = 0; v < p.size(); ++v) {
            if (p[v] > 0.0) out.push_back({static_cast<int32_t>(v), p[v]});
        }
        return out;
    }

    void rounds(const Tokens & text, double weight) {
        if (text.size() >= 3) {
            emitted_[Tokens(text.begin(), text.begin() + 3)] += weight;
            return;
        }
        verify(text, {}, weight);
    }

    // The round's draft and verdict, place by place: what is drafted behind a rejection does not matter.
    void verify(const Tokens & text, const Tokens & accepted, double weight) {
        Tokens prefix = text;
        prefix.insert(prefix.end(), accepted.begin(), accepted.end());
        const auto end_with = [&](int32_t token, double w) {
            Tokens more = prefix;
            more.push_back(token);
            rounds(more, w);
        };
        const std::vector<double> p = law(prefix, 0), q = law(prefix, 1);
        if (static_cast<int32_t>(accepted.size()) == k_) {
            for (int32_t v = 0; v < 3; ++v) {
                if (p[static_cast<size_t>(v)] > 0.0) end_with(v, weight * p[static_cast<size_t>(v)]);
            }
            return;
        }
        const std::vector<WeightedToken> target = weighted(p), draft = weighted(q);
        double rejected = 0.0;
        for (const WeightedToken & d : draft) {
            const double chance = acceptance_probability(target, draft, d.token);
            if (chance > 0.0) {
                Tokens more = accepted;
                more.push_back(d.token);
                verify(text, more, weight * d.p * chance);
            }
            rejected += d.p * (1.0 - chance);
        }
        if (rejected <= 0.0) return;
        for (const WeightedToken & t : residual_law(target, draft)) {
            if (t.p > 0.0) end_with(t.token, weight * rejected * t.p);
        }
    }

    uint64_t seed_;
    int32_t k_;
    bool zeros_;
    std::map<Tokens, double> emitted_;
};

void test_exact_law() {
    for (uint64_t seed = 0; seed < 300; ++seed) {
        for (int32_t k = 1; k <= 2; ++k) { // three tokens then take two rounds and more
            CHECK(Enumeration(seed, k, false).error() < 1e-12);
            CHECK(Enumeration(seed, k, true).error() < 1e-12);
        }
    }
}

// Uniform over positions and over seeds, for every purpose; streams of different purposes, seeds and places are
// independent of each other (invariant 48).
void test_generator() {
    const int n           = 100000;
    const auto purposes   = {Purpose::target, Purpose::accept,   Purpose::residual, Purpose::draft,
                             Purpose::xtc,    Purpose::mirostat, Purpose::synthetic};
    constexpr int n_cells = 64;
    const auto uniform    = [&](const std::function<double(uint64_t)> & draw) {
        std::vector<int> seen(n_cells);
        for (int i = 0; i < n; ++i) ++seen[static_cast<size_t>(n_cells * draw(static_cast<uint64_t>(i)))];
        return chi_square(seen, std::vector<double>(n_cells, 1.0 / n_cells), n) < chi_square_limit(n_cells - 1);
    };
    const auto independent = [&](const std::function<double(uint64_t)> & a, const std::function<double(uint64_t)> & b) {
        std::vector<int> seen(n_cells);
        for (int i = 0; i < n; ++i) {
            const uint64_t at = static_cast<uint64_t>(i);
            ++seen[static_cast<size_t>(8 * a(at)) * 8 + static_cast<size_t>(8 * b(at))];
        }
        return chi_square(seen, std::vector<double>(n_cells, 1.0 / n_cells), n) < chi_square_limit(n_cells - 1);
    };
    for (Purpose a : purposes) {
        CHECK(uniform([&](uint64_t i) { return uniform_open(3, i, 5, a); }));
        CHECK(uniform([&](uint64_t i) { return uniform_open(i, 3, 5, a); }));
        CHECK(uniform([&](uint64_t i) { return uniform_open(i << 32, 3, 5, a); }));
        CHECK(uniform([&](uint64_t i) { return uniform_open(3, 7, static_cast<uint32_t>(i), a); }));
        CHECK(independent([&](uint64_t i) { return uniform_open(3, i, 5, a); },
                          [&](uint64_t i) { return uniform_open(3, i + 1, 5, a); }));
        CHECK(independent([&](uint64_t i) { return uniform_open(3, i, 5, a); },
                          [&](uint64_t i) { return uniform_open(4, i, 5, a); }));
        for (Purpose b : purposes) {
            if (b <= a) continue;
            CHECK(independent([&](uint64_t i) { return uniform_open(3, i, 0, a); },
                              [&](uint64_t i) { return uniform_open(3, i, 0, b); }));
        }
    }
    // What the samplers draw: a drafter's own draws say nothing about the target's choices of the same seed.
    const std::vector<float> flat(8, 0.0f);
    std::vector<int> seen(64);
    Sampler target(with(plain(1), [](auto & p) { p.seed = 17; }), 8);
    for (uint64_t draft_seed : {uint64_t{17}, uint64_t{18}}) {
        target.reset();
        std::fill(seen.begin(), seen.end(), 0);
        Sampler drafting = target.for_drafting(1.0, draft_seed);
        for (int i = 0; i < n; ++i) {
            DraftLaw law;
            const size_t d = static_cast<size_t>(drafting.draw_draft({flat.data(), 8}, law));
            const size_t t = static_cast<size_t>(target.sample(flat.data()));
            ++seen[8 * d + t];
            target.advance(0, false);
            drafting.advance(0, false);
        }
        CHECK(chi_square(seen, std::vector<double>(64, 1.0 / 64), n) < chi_square_limit(63));
    }
}

// Invariants 7 and 9, an end token inside a draft, and refusals.
void test_rejection_borders() {
    const std::vector<float> rows = [] {
        std::vector<float> r;
        for (uint64_t i = 0; i < 4; ++i) {
            const std::vector<float> row = random_row(6, 900 + i, 1.0);
            r.insert(r.end(), row.begin(), row.end());
        }
        return r;
    }();
    const auto run = [&](const SamplerParams & params, const Tokens & draft, const std::vector<DraftLaw> & laws,
                         int32_t end = -1, int32_t n_max = 9) {
        Sampler s(params, 6);
        Tokens out(draft.size() + 1, -1);
        const RejectionVerdict v =
            accept_rejection(s,
                             {rows.data(), nullptr, nullptr, draft.data(), static_cast<int32_t>(draft.size()), n_max,
                              [=](int32_t t) { return t == end; }},
                             laws, out.data());
        CHECK_EQ(s.index(), static_cast<int64_t>(v.n_out));
        out.resize(static_cast<size_t>(v.n_out));
        return text(out) + "/" + std::to_string(v.n_accepted);
    };
    const auto match = [&](const SamplerParams & params, const Tokens & draft) {
        Sampler s(params, 6);
        Tokens out(draft.size() + 1, -1);
        const Verdict v = accept_match(
            s, {rows.data(), nullptr, nullptr, draft.data(), static_cast<int32_t>(draft.size()), 9, {}}, out.data());
        out.resize(static_cast<size_t>(v.n_out));
        return text(out) + "/" + std::to_string(v.n_accepted);
    };
    const DraftLaw flat = {{0, .25}, {1, .25}, {2, .25}, {3, .25}};
    for (uint64_t seed = 0; seed < 50; ++seed) {
        const auto cold = with(plain(0), [&](auto & p) { p.seed = seed; });
        const auto warm = with(plain(1), [&](auto & p) { p.seed = seed; });
        for (int32_t a = 0; a < 4; ++a) {
            CHECK_EQ(run(cold, {a, 1, 2}, {flat, flat, flat}), match(cold, {a, 1, 2})); // invariant 7
            CHECK_EQ(run(warm, {a, 1, 2}, {{}, {}, {}}), match(warm, {a, 1, 2}));       // invariant 9
        }
    }
    // p = q: all accepted, so the end token inside the draft is what stops it; nothing behind it is looked at.
    Sampler s(plain(1), 6);
    std::vector<DraftLaw> own(3);
    for (size_t i = 0; i < 3; ++i) s.distribution({rows.data() + 6 * i, 6}, own[i]);
    CHECK_EQ(run(plain(1), {4, 3, 2}, own).substr(0, 6), "4 3 2 ");
    CHECK_EQ(run(plain(1), {4, 3, 2}, own, 3), "4 3 /2");
    CHECK_EQ(run(plain(1), {4, 3, 2}, own, 2), "4 3 2 /3");
    CHECK_EQ(run(plain(1), {4, 3, 2}, own, -1, 2), "4 3 /2");
    // A token that q does not contain is never accepted.
    CHECK_EQ(run(plain(1), {5}, {flat}).back(), '0');

    CHECK_ERROR(run(with(plain(1), [](auto & p) { p.mirostat = 2; }), {0}, {flat}), PYSPEC_UNSUPPORTED, "mirostat");
    CHECK_ERROR(run(plain(1), {0}, {}), PYSPEC_OPTION, "0 draft laws were given for 1");
    CHECK_ERROR(run(plain(1), {0}, {{{0, .5}, {1, .4}}}), PYSPEC_OPTION, "add up to 0.9");
    CHECK_ERROR(run(plain(1), {0}, {{{0, .5}, {0, .5}}}), PYSPEC_OPTION, "names token 0 twice");
    CHECK_ERROR(run(plain(1), {0}, {{{0, 1.5}, {1, -.5}}}), PYSPEC_OPTION, "token 1 the probability -0.5");
    CHECK_ERROR(run(plain(1), {0}, {{{0, nan_}}}), PYSPEC_OPTION, "probability nan");
}

// Invariant 47.
void test_synthetic() {
    double rates[4];
    synthetic_rates(3.4, 4, rates);
    for (int i = 0; i < 4; ++i) CHECK(std::abs(rates[i] - std::pow(0.80581, i + 1)) < 2e-5);
    synthetic_rates(1.0, 4, rates);
    CHECK(rates[0] == 0.0 && rates[3] == 0.0);
    synthetic_rates(5.0, 4, rates);
    CHECK(rates[0] == 1.0 && rates[3] == 1.0);
    CHECK_ERROR(synthetic_rates(0.9, 4, rates), PYSPEC_OPTION, "mean length is 0.9; allowed: 1 to 5");
    CHECK_ERROR(synthetic_rates(5.1, 4, rates), PYSPEC_OPTION, "mean length is 5.1");
    CHECK_ERROR(synthetic_rates(nan_, 4, rates), PYSPEC_OPTION, "mean length is nan");
    CHECK_ERROR(synthetic_rates(1.0, 0, rates), PYSPEC_OPTION, "longest draft is 0");
    const double rising[2] = {.5, .6}, wide[1] = {1.2}, odd[1] = {nan_};
    CHECK_ERROR(check_synthetic_rates(rising, 2), PYSPEC_OPTION, "synthetic rate 2 is 0.6; allowed: 0 to 0.5");
    CHECK_ERROR(check_synthetic_rates(wide, 1), PYSPEC_OPTION, "synthetic rate 1 is 1.2");
    CHECK_ERROR(check_synthetic_rates(odd, 1), PYSPEC_OPTION, "synthetic rate 1 is nan");

    const Table table = random_table(6, 8, 1.0);
    struct Counts {
        Tokens text;
        int rounds = 0, drafted = 0, accepted = 0;
        std::array<int, 4> by_place{};
    };
    const auto run = [&](const double * r, uint64_t seed, int n, int32_t end = -1) {
        Sampler s(with(plain(1), [&](auto & p) { p.seed = seed; }), 6);
        Counts c;
        int32_t last = 0;
        while (static_cast<int>(c.text.size()) < n) {
            const Tokens draft = {1, 2, 3, 4}; // nobody's choice
            std::vector<float> rows;
            for (int32_t before : {last, 1, 2, 3, 4}) {
                const std::vector<float> & row = table[static_cast<size_t>(before)];
                rows.insert(rows.end(), row.begin(), row.end());
            }
            Tokens out(5);
            const Verdict v = accept_synthetic(
                s, {rows.data(), nullptr, nullptr, draft.data(), 4, 5, [=](int32_t t) { return t == end; }}, r, 4,
                out.data());
            c.text.insert(c.text.end(), out.begin(), out.begin() + v.n_out);
            last = c.text.back();
            ++c.rounds;
            c.drafted += 4;
            c.accepted += v.n_accepted;
            for (int i = 0; i < v.n_accepted; ++i) ++c.by_place[static_cast<size_t>(i)];
        }
        return c;
    };
    const double none[4] = {0, 0, 0, 0}, all[4] = {1, 1, 1, 1}, some[4] = {.9, .5, .5, .1};
    const Counts nothing = run(none, 3, 500);
    CHECK_EQ(nothing.accepted, 0);
    Sampler s(with(plain(1), [](auto & p) { p.seed = 3; }), 6);
    Tokens plain_text;
    int32_t last = 0;
    for (size_t i = 0; i < nothing.text.size(); ++i) {
        last = s.sample(table[static_cast<size_t>(last)].data());
        s.advance(last, false);
        plain_text.push_back(last);
    }
    CHECK_EQ(text(nothing.text), text(plain_text));
    const Counts everything = run(all, 3, 500);
    CHECK_EQ(everything.accepted, everything.drafted);
    CHECK_EQ(run(all, 3, 10, 3).accepted % 2, 0); // the third draft token ends a generation: never accepted
    const Counts mixed = run(some, 5, 100000);
    for (size_t i = 0; i < 4; ++i) {
        CHECK(std::abs(mixed.by_place[i] / static_cast<double>(mixed.rounds) - some[i]) < 0.012);
    }
    CHECK_EQ(text(run(some, 5, 300).text), text(run(some, 5, 300).text)); // equal seeds, equal counts
    CHECK(text(run(some, 6, 300).text) != text(run(some, 5, 300).text));
    synthetic_rates(3.4, 4, rates);
    const Counts aimed = run(rates, 9, 100000);
    CHECK(std::abs(static_cast<double>(aimed.text.size()) / aimed.rounds - 3.4) < 0.03);
    const Tokens long_draft(5, 1);
    const std::vector<float> rows(36, 0.0f);
    Tokens out(6);
    CHECK_ERROR(accept_synthetic(s, {rows.data(), nullptr, nullptr, long_draft.data(), 5, 6, {}}, some, 4, out.data()),
                PYSPEC_OPTION, "draft has 5 tokens, but there are synthetic rates for 4");
}

} // namespace

int main() {
    test_law_of_the_text();
    test_acceptance();
    test_exact_law();
    test_generator();
    test_rejection_borders();
    test_synthetic();
    return check_report();
}
