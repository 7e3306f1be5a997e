// The sampler: filter chain, penalties, undo, keyed noise, distribution, validation. No model.
// Case C034 (seeds): vllm-project/vllm#6034, vllm-project/vllm#13196, NVIDIA/TensorRT-LLM#17599,
// NVIDIA/TensorRT-LLM#19487.
#include "sampling_fixtures.h"

using namespace pyspec;

namespace {

void test_chain() {
    const std::vector<float> row = log_of({0.05, 0.40, 0.10, 0.30, 0.15});
    const auto kept              = [&](const SamplerParams & params, const std::vector<float> & logits) {
        const Sampler sampler(params, static_cast<int32_t>(logits.size()));
        Tokens tokens(logits.size(), -1);
        tokens.resize(static_cast<size_t>(
            sampler.candidates(logits.data(), tokens.data(), nullptr, static_cast<int32_t>(tokens.size()))));
        return tokens;
    };
    EXPECT_TOKENS(kept(plain(1), row), {1, 3, 4, 2, 0});
    EXPECT_TOKENS(kept(plain(0), row), {1});
    EXPECT_TOKENS(kept(plain(-1), row), {1});
    EXPECT_TOKENS(kept(with(plain(1), [](auto & p) { p.top_k = 2; }), row), {1, 3});
    EXPECT_TOKENS(kept(with(plain(1), [](auto & p) { p.top_p = 0.71f; }), row), {1, 3, 4});
    EXPECT_TOKENS(kept(with(plain(1), [](auto & p) { p.min_p = 0.26f; }), row), {1, 3, 4});
    EXPECT_TOKENS(kept(with(plain(1), [](auto & p) { p.typical_p = 0.29f; }), row), {3});
    // Filters judge before temperature: a flat or sharp temperature keeps the same set.
    for (float t : {0.1f, 1.0f, 9.0f}) {
        EXPECT_TOKENS(kept(with(plain(t), [](auto & p) { p.top_p = 0.71f; }), row), {1, 3, 4});
    }
    // The order of the filters: each pair of neighbours, on a row where the other order keeps something else.
    EXPECT_TOKENS(kept(with(plain(1), [](auto & p) { p.top_k = 2, p.typical_p = 0.5f; }), row), {1});
    EXPECT_TOKENS(kept(with(plain(1), [](auto & p) { p.typical_p = 0.29f, p.top_p = 0.5f; }), row), {3});
    EXPECT_TOKENS(kept(with(plain(1), [](auto & p) { p.top_p = 0.8f, p.min_p = 0.3f; }), row), {1, 3, 4});

    float p[5]   = {-1, -1, -1, -1, -1};
    int32_t t[5] = {-1, -1, -1, -1, -1};
    const Sampler two(with(plain(0.5f), [](auto & q) { q.top_k = 2; }), 5);
    CHECK_EQ(two.candidates(row.data(), t, p, 1), 2); // cap: fewer written than counted
    CHECK(t[0] == 1 && t[1] == -1 && p[1] == -1);
    CHECK(std::abs(p[0] - 0.64f) < 1e-6f); // .16 / (.16 + .09)
    CHECK_EQ(two.candidates(row.data(), nullptr, nullptr, 0), 2);
    CHECK_ERROR(two.candidates(row.data(), t, p, -1), PYSPEC_OPTION, "cap is -1");
    const Sampler greedy(plain(0), 5);
    CHECK_EQ(greedy.candidates(row.data(), t, p, 5), 1);
    CHECK(t[0] == 1 && p[0] == 1.0f);
    EXPECT_TOKENS(kept(plain(1), {2, 3, 3, 2}), {1, 2, 0, 3}); // equal probability: lowest id first

    // Greedy looks at the largest logit, not at what typical would keep.
    CHECK_EQ(Sampler(with(plain(0), [](auto & q) { q.typical_p = 0.29f; }), 5).sample(row.data()), 1);

    // Bias: added, repeated entries add up, -infinity forbids.
    const auto biased = [&](std::vector<LogitBias> bias) {
        return Sampler(with(plain(0), [&](auto & q) { q.logit_bias = bias; }), 5).sample(row.data());
    };
    CHECK_EQ(biased({{0, 5.0f}}), 0);
    CHECK_EQ(biased({{0, 1.5f}}), 1); // ln .05 + 1.5 < ln .40
    CHECK_EQ(biased({{0, 1.5f}, {0, 1.5f}}), 0);
    CHECK_EQ(biased({{1, -inf}}), 3);
    CHECK_ERROR(biased({{0, -inf}, {1, -inf}, {2, -inf}, {3, -inf}, {4, -inf}}), PYSPEC_OPTION,
                "no token can be chosen");
    CHECK_ERROR(biased({{2, 3e38f}, {2, 3e38f}}), PYSPEC_OPTION, "token 2 is +infinity");
    for (uint64_t seed = 0; seed < 200; ++seed) { // never chosen when sampling either
        const Sampler s(with(plain(50), [&](auto & q) { q.seed = seed, q.logit_bias = {{1, -inf}, {3, -inf}}; }), 5);
        const int32_t token = s.sample(row.data());
        CHECK(token != 1 && token != 3);
    }
    const float bad[5] = {0, 1, nan_, 2, 3};
    for (float temperature : {0.0f, 1.0f}) {
        for (int32_t k : {0, 2}) {
            const Sampler s(with(plain(temperature), [&](auto & q) { q.top_k = k; }), 5);
            CHECK_ERROR(s.sample(bad), PYSPEC_OPTION, "token 2 is not a number");
            CHECK_ERROR(s.candidates(bad, t, p, 5), PYSPEC_OPTION, "token 2 is not a number");
        }
    }
}

void test_penalties() {
    const std::vector<float> row = {2.0f, 1.0f, -1.0f, 0.0f};
    // Probabilities reveal the adjusted logits: ln p[i] - ln p[j] = logit[i] - logit[j].
    const auto adjusted = [&](const SamplerParams & params, const Tokens & history) {
        Sampler s(params, 4);
        for (int32_t token : history) s.advance(token, false);
        int32_t t[4];
        float p[4];
        CHECK_EQ(s.candidates(row.data(), t, p, 4), 4);
        std::vector<double> logit(4);
        for (int i = 0; i < 4; ++i) logit[static_cast<size_t>(t[i])] = std::log(static_cast<double>(p[i]));
        const double last = logit[3]; // token 3 has logit 0 and stays out of every history here
        for (double & x : logit) x -= last;
        return logit;
    };
    const auto near = [](const std::vector<double> & a, const std::vector<double> & b) {
        for (size_t i = 0; i < a.size(); ++i) {
            if (std::abs(a[i] - b[i]) > 1e-5) return false;
        }
        return true;
    };
    const auto repeat = with(plain(1), [](auto & p) { p.repeat_penalty = 2.0f; });
    CHECK(near(adjusted(repeat, {}), {2, 1, -1, 0}));
    CHECK(near(adjusted(repeat, {0, 2, 0}), {1, 1, -2, 0})); // once per token, whatever the count; both signs go down
    const auto frequency = with(plain(1), [](auto & p) { p.frequency_penalty = 0.5f; });
    CHECK(near(adjusted(frequency, {0, 2, 0}), {1, 1, -1.5, 0}));
    const auto presence = with(plain(1), [](auto & p) { p.presence_penalty = 0.75f; });
    CHECK(near(adjusted(presence, {0, 2, 0}), {1.25, 1, -1.75, 0}));
    const auto all = with(plain(1), [](auto & p) {
        p.repeat_penalty    = 2.0f;
        p.frequency_penalty = 0.5f;
        p.presence_penalty  = 0.75f;
    });
    CHECK(near(adjusted(all, {0, 2, 0}), {1 - 1 - 0.75, 1, -2 - 0.5 - 0.75, 0}));
    const auto window = [&](int32_t last_n) { return with(frequency, [&](auto & p) { p.penalty_last_n = last_n; }); };
    CHECK(near(adjusted(window(2), {0, 0, 1, 2}), {2, 0.5, -1.5, 0}));
    CHECK(near(adjusted(window(3), {0, 0, 1, 2}), {1.5, 0.5, -1.5, 0}));
    CHECK(near(adjusted(window(-1), {0, 0, 1, 2}), {1, 0.5, -1.5, 0}));
    CHECK(near(adjusted(window(0), {0, 0, 1, 2}), {2, 1, -1, 0}));

    // Prompt tokens count for penalties but not for the logical index.
    Sampler s(window(-1), 4);
    s.advance(0, true);
    s.advance(1, false);
    CHECK_EQ(s.n_history(), 2);
    CHECK_EQ(s.index(), 1);
    // Bias comes before penalties: (2 + 2) / 2 = 2, not 2 / 2 + 2 = 3, so token 1 at 2.5 wins.
    const auto order = with(repeat, [](auto & p) {
        p.temperature = 0;
        p.logit_bias  = {{0, 2.0f}, {1, 1.5f}};
    });
    Sampler greedy(order, 4);
    CHECK_EQ(greedy.sample(row.data()), 0);
    greedy.advance(0, false);
    CHECK_EQ(greedy.sample(row.data()), 1);
}

// Wander off and come back: everything a sampler remembers is undone exactly. Invariant 25 in part.
void test_undo(const std::function<void(SamplerParams &)> & memory) {
    const auto base = with(with(plain(1), memory), [](auto & p) { p.seed = 99; });
    for (int32_t last_n : {-1, 0, 1, 3, 8, 64}) {
        Sampler s(with(base, [&](auto & p) { p.penalty_last_n = p.dry_penalty_last_n = last_n; }), 10);
        for (int detour = 0; detour < 60; ++detour) {
            const auto word          = philox_block(3, static_cast<uint64_t>(detour), 0, row_noise);
            const std::string before = observe(s);
            const Sampler kept       = s;
            const int32_t length     = static_cast<int32_t>(word[0] % 20);
            for (int32_t i = 0; i < length; ++i) {
                const auto w = philox_block(4, static_cast<uint64_t>(detour), static_cast<uint32_t>(i), row_noise);
                const std::vector<float> row = random_row(10, w[2] % 4, 1.0);
                if (w[1] % 3 == 0) {
                    s.advance(static_cast<int32_t>(w[0] % 10), true);
                } else if (w[1] % 3 == 1) {
                    s.advance(s.as_choice({row.data(), 10}, static_cast<int32_t>(w[0] % 10)));
                } else {
                    s.advance(s.choose({row.data(), 10}));
                }
            }
            if (length > 0) CHECK(observe(s) != before);
            Sampler restored = s;
            CHECK(s.can_rollback(length));
            s.rollback(length);
            CHECK_EQ(observe(s), before);
            CHECK_EQ(observe(kept), before); // a copy is independent
            restored.restore(kept);
            CHECK_EQ(observe(restored), before);
            s.advance(static_cast<int32_t>(word[1] % 10), word[2] % 2 == 0);
        }
        // All the way back, through a copy (whose storage is tight).
        Sampler copy = s;
        copy.rollback(static_cast<int32_t>(copy.n_history()));
        CHECK_EQ(observe(copy), observe(Sampler(s.params(), 10)));
        const std::string before = observe(s);
        CHECK(!s.can_rollback(61) && !s.can_rollback(-1) && s.can_rollback(60) && s.can_rollback(0));
        CHECK_ERROR(s.rollback(61), PYSPEC_OPTION, "rollback of 61 tokens; allowed: 0 to 60");
        CHECK_ERROR(s.rollback(-1), PYSPEC_OPTION, "rollback of -1");
        CHECK_ERROR(s.advance(10, false), PYSPEC_OPTION, "token is 10; allowed: 0 to 9");
        CHECK_ERROR(s.advance(-1, false), PYSPEC_OPTION, "token is -1");
        CHECK_EQ(observe(s), before);
        Sampler other(with(s.params(), [](auto & p) { p.seed = 100; }), 10);
        CHECK_ERROR(s.restore(other), PYSPEC_OPTION, "same settings");
        CHECK_ERROR(s.restore(Sampler(with(s.params(), [](auto & p) { p.dry_breakers = {}; }), 11)), PYSPEC_OPTION,
                    "same settings");
        CHECK_EQ(observe(s), before);
        s.reset();
        CHECK_EQ(observe(s), observe(Sampler(s.params(), 10)));
    }
}

void test_keyed_noise() {
    const std::vector<float> row = random_row(50, 11, 1.0);
    Sampler s(with(plain(1), [](auto & p) { p.seed = 5; }), 50);
    Tokens first, again;
    for (int i = 0; i < 40; ++i) { // one look per token against many looks at other rows in between
        first.push_back(s.sample(row.data()));
        s.advance(first.back(), false);
    }
    s.reset();
    for (int i = 0; i < 40; ++i) {
        for (int look = 0; look < i % 4; ++look) s.sample(random_row(50, static_cast<uint64_t>(look)).data());
        again.push_back(s.sample(row.data()));
        s.advance(7, true); // history differs too; without penalties only the index matters
        s.advance(again.back(), false);
    }
    CHECK_EQ(text(again), text(first));
    CHECK(std::count(first.begin(), first.end(), first[0]) < 40); // positions differ
    Tokens other_seed;
    Sampler t(with(plain(1), [](auto & p) { p.seed = 6; }), 50);
    Tokens high_seed;
    Sampler h(with(plain(1), [](auto & p) { p.seed = 5 + (uint64_t{1} << 32); }), 50);
    for (int i = 0; i < 40; ++i) {
        other_seed.push_back(t.sample(row.data()));
        high_seed.push_back(h.sample(row.data()));
        t.advance(0, false);
        h.advance(0, false);
    }
    CHECK(text(other_seed) != text(first));
    CHECK(text(high_seed) != text(first)); // all 64 bits of the seed count

    // The choice is argmax(log p + noise) by definition, whatever shortcut is taken.
    for (uint64_t i = 0; i < 300; ++i) {
        const double temperature      = 0.25 + 0.01 * static_cast<double>(i);
        const std::vector<float> wide = random_row(3000, i, 2.0);
        const Sampler w(with(plain(static_cast<float>(temperature)), [&](auto & p) { p.seed = i; }), 3000);
        double best = -1e300;
        int32_t id  = -1;
        for (int32_t v = 0; v < 3000; ++v) {
            const double score = static_cast<double>(wide[static_cast<size_t>(v)]) / static_cast<float>(temperature) +
                                 gumbel(i, 0, static_cast<uint32_t>(v), Purpose::target);
            if (score > best) best = score, id = v;
        }
        CHECK_EQ(w.sample(wide.data()), id);
    }
    // Noise belongs to the token id: forbidding losers does not change the winner.
    const int32_t winner = Sampler(plain(1), 50).sample(row.data());
    for (int32_t v = 0; v < 50; ++v) {
        if (v == winner) continue;
        CHECK_EQ(Sampler(with(plain(1), [&](auto & p) { p.logit_bias = {{v, -inf}}; }), 50).sample(row.data()), winner);
    }
    // Equal logits at a temperature close to zero are still drawn, not always the first.
    Tokens drawn(2);
    const float pair[3] = {20.0f, 20.0f, 19.0f};
    for (uint64_t seed = 0; seed < 100; ++seed) {
        const int32_t v = Sampler(with(plain(1e-30f), [&](auto & p) { p.seed = seed; }), 3).sample(pair);
        CHECK(v < 2);
        if (v < 2) ++drawn[static_cast<size_t>(v)];
    }
    CHECK(drawn[0] > 20 && drawn[1] > 20);
}

void test_distribution() {
    const std::vector<float> row              = {1.5f, 0.2f, -0.5f, 2.0f, 2.0f, 0.9f, -3.0f, 1.0f};
    const std::vector<SamplerParams> settings = {plain(1),
                                                 plain(0.6f),
                                                 with(plain(1.4f), [](auto & p) { p.top_k = 5; }),
                                                 with(plain(1), [](auto & p) { p.top_p = 0.8f; }),
                                                 with(plain(0.8f), [](auto & p) { p.typical_p = 0.7f; }),
                                                 SamplerParams{}};
    for (const SamplerParams & params : settings) {
        for (bool by_index : {false, true}) { // many seeds at index 0, and many positions of one seed
            const int n = 20000;
            Sampler s(params, 8);
            std::vector<int32_t> t(8);
            std::vector<float> p(8);
            const size_t kept = static_cast<size_t>(s.candidates(row.data(), t.data(), p.data(), 8));
            std::vector<double> probability(8, 0.0), expected, pairs;
            for (size_t i = 0; i < kept; ++i) probability[static_cast<size_t>(t[i])] = p[i];
            std::vector<int> seen(8), seen_kept, seen_pairs(kept * kept);
            const auto rank = [&](int32_t token) {
                return static_cast<size_t>(std::find(t.begin(), t.begin() + std::ssize(seen_kept), token) - t.begin());
            };
            int32_t last = -1;
            seen_kept.resize(kept);
            for (int i = 0; i < n; ++i) {
                if (!by_index) s = Sampler(with(params, [&](auto & q) { q.seed = static_cast<uint64_t>(i); }), 8);
                const int32_t token = s.sample(row.data());
                ++seen[static_cast<size_t>(token)];
                CHECK(rank(token) < kept);
                if (rank(token) < kept && last >= 0 && i % 2 == 1) ++seen_pairs[rank(last) * kept + rank(token)];
                last = token;
                if (by_index) s.advance(token, false);
            }
            for (size_t i = 0; i < kept; ++i) {
                seen_kept[i] = seen[static_cast<size_t>(t[i])];
                expected.push_back(p[i]);
                for (size_t j = 0; j < kept; ++j) pairs.push_back(static_cast<double>(p[i]) * p[j]);
            }
            CHECK(chi_square(seen_kept, expected, n) < chi_square_limit(static_cast<int>(kept) - 1));
            CHECK(chi_square(seen_pairs, pairs, n / 2) < chi_square_limit(static_cast<int>(kept * kept) - 1));
        }
    }
}

void test_validation() {
    const auto make = [](const std::function<void(SamplerParams &)> & change, int32_t n_vocab = 10) {
        return Sampler(with(SamplerParams{}, change), n_vocab);
    };
    CHECK_ERROR(make([](auto & p) { p.temperature = nan_; }), PYSPEC_OPTION, "temperature is nan");
    CHECK_ERROR(make([](auto & p) { p.temperature = inf; }), PYSPEC_OPTION, "temperature is inf");
    CHECK_ERROR(make([](auto & p) { p.top_p = nan_; }), PYSPEC_OPTION, "top_p is nan");
    CHECK_ERROR(make([](auto & p) { p.top_p = -0.5f; }), PYSPEC_OPTION, "top_p is -0.5; allowed: 0 or more");
    CHECK_ERROR(make([](auto & p) { p.min_p = nan_; }), PYSPEC_OPTION, "min_p is nan");
    CHECK_ERROR(make([](auto & p) { p.min_p = 1.5f; }), PYSPEC_OPTION, "min_p is 1.5; allowed: at most 1");
    CHECK_ERROR(make([](auto & p) { p.typical_p = nan_; }), PYSPEC_OPTION, "typical_p is nan");
    CHECK_ERROR(make([](auto & p) { p.typical_p = -1; }), PYSPEC_OPTION, "typical_p is -1");
    for (float x : {0.0f, -1.0f, nan_, inf}) {
        CHECK_ERROR(make([&](auto & p) { p.repeat_penalty = x; }), PYSPEC_OPTION, "repeat_penalty is ");
    }
    for (float x : {nan_, inf, -inf}) {
        CHECK_ERROR(make([&](auto & p) { p.frequency_penalty = x; }), PYSPEC_OPTION, "frequency_penalty is ");
        CHECK_ERROR(make([&](auto & p) { p.presence_penalty = x; }), PYSPEC_OPTION, "presence_penalty is ");
    }
    CHECK_ERROR(make([](auto & p) { p.penalty_last_n = -2; }), PYSPEC_OPTION, "penalty_last_n is -2; allowed: -1");
    CHECK_ERROR(make([](auto & p) { p.logit_bias = {{10, 1.0f}}; }), PYSPEC_OPTION, "names token 10; allowed: 0 to 9");
    CHECK_ERROR(make([](auto & p) { p.logit_bias = {{-1, 1.0f}}; }), PYSPEC_OPTION, "names token -1");
    CHECK_ERROR(make([](auto & p) { p.logit_bias = {{3, nan_}}; }), PYSPEC_OPTION, "logit_bias of token 3 is nan");
    CHECK_ERROR(make([](auto & p) { p.logit_bias = {{3, inf}}; }), PYSPEC_OPTION, "logit_bias of token 3 is inf");
    CHECK_ERROR(make([](auto &) {}, 0), PYSPEC_OPTION, "n_vocab is 0");
    CHECK_ERROR(make([](auto & p) { p.min_keep = -1; }), PYSPEC_OPTION, "min_keep is -1; allowed: 0 or more");
    for (float x : {nan_, inf}) {
        CHECK_ERROR(make([&](auto & p) { p.top_n_sigma = x; }), PYSPEC_OPTION, "top_n_sigma is ");
        CHECK_ERROR(make([&](auto & p) { p.xtc_probability = x; }), PYSPEC_OPTION, "xtc_probability is ");
        CHECK_ERROR(make([&](auto & p) { p.xtc_threshold = x; }), PYSPEC_OPTION, "xtc_threshold is ");
        CHECK_ERROR(make([&](auto & p) { p.dynatemp_range = x; }), PYSPEC_OPTION, "dynatemp_range is ");
        CHECK_ERROR(make([&](auto & p) { p.dynatemp_exponent = x; }), PYSPEC_OPTION, "dynatemp_exponent is ");
        CHECK_ERROR(make([&](auto & p) { p.mirostat_tau = x; }), PYSPEC_OPTION, "mirostat_tau is ");
        CHECK_ERROR(make([&](auto & p) { p.mirostat_eta = x; }), PYSPEC_OPTION, "mirostat_eta is ");
        CHECK_ERROR(make([&](auto & p) { p.dry_multiplier = x; }), PYSPEC_OPTION, "dry_multiplier is ");
        CHECK_ERROR(make([&](auto & p) { p.dry_base = x; }), PYSPEC_OPTION, "dry_base is ");
    }
    CHECK_ERROR(make([](auto & p) { p.xtc_probability = 1.5f; }), PYSPEC_OPTION, "xtc_probability is 1.5; allowed: 0");
    CHECK_ERROR(make([](auto & p) { p.xtc_threshold = -0.1f; }), PYSPEC_OPTION, "xtc_threshold is -0.1");
    CHECK_ERROR(make([](auto & p) { p.dynatemp_range = -1; }), PYSPEC_OPTION, "dynatemp_range is -1");
    CHECK_ERROR(make([](auto & p) { p.dry_multiplier = -1; }), PYSPEC_OPTION, "dry_multiplier is -1");
    CHECK_ERROR(make([](auto & p) { p.dry_base = 0.5f; }), PYSPEC_OPTION,
                "dry_base is 0.5; allowed: a finite number, 1");
    CHECK_ERROR(make([](auto & p) { p.dry_allowed_length = -1; }), PYSPEC_OPTION, "dry_allowed_length is -1");
    CHECK_ERROR(make([](auto & p) { p.dry_penalty_last_n = -2; }), PYSPEC_OPTION, "dry_penalty_last_n is -2");
    CHECK_ERROR(make([](auto & p) { p.dry_breakers = DryBreakers({{1}}, 11); }), PYSPEC_OPTION, "made for 11 tokens");
    for (int32_t x : {1, 3, -1}) {
        CHECK_ERROR(make([&](auto & p) { p.mirostat = x; }), PYSPEC_OPTION, "allowed: 0 (off) or 2");
    }
    // Mirostat replaces the filters: one that was asked for is refused, one at its default is not.
    const auto miro = [&](const std::function<void(SamplerParams &)> & change) {
        return make([&](auto & p) { p.mirostat = 2, change(p); });
    };
    miro([](auto &) {});
    miro([](auto & p) { p.top_k = 0, p.top_p = 1, p.min_p = 0, p.min_keep = 1; });
    CHECK_ERROR(miro([](auto & p) { p.top_k = 20; }), PYSPEC_OPTION, "top_k is 20, but mirostat replaces this filter");
    CHECK_ERROR(miro([](auto & p) { p.top_p = 0.5f; }), PYSPEC_OPTION, "top_p is 0.5, but mirostat");
    CHECK_ERROR(miro([](auto & p) { p.min_p = 0.5f; }), PYSPEC_OPTION, "min_p is 0.5, but mirostat");
    CHECK_ERROR(miro([](auto & p) { p.typical_p = 0.5f; }), PYSPEC_OPTION, "typical_p is 0.5, but mirostat");
    CHECK_ERROR(miro([](auto & p) { p.top_n_sigma = 1; }), PYSPEC_OPTION, "top_n_sigma is 1, but mirostat");
    CHECK_ERROR(miro([](auto & p) { p.xtc_probability = 1; }), PYSPEC_OPTION, "xtc_probability is 1, but mirostat");
    CHECK_ERROR(miro([](auto & p) { p.dynatemp_range = 1; }), PYSPEC_OPTION, "dynatemp_range is 1, but mirostat");
    CHECK_ERROR(miro([](auto & p) { p.min_keep = 2; }), PYSPEC_OPTION, "min_keep is 2, but mirostat");
    // Values that mean "off" are welcome.
    make([](auto & p) {
        p.temperature = -3;
        p.top_k       = -7;
        p.top_p       = 2;
        p.min_p       = -1;
        p.typical_p   = 5;
    });
    make([](auto & p) { p.penalty_last_n = 2147483647, p.presence_penalty = -1; }).advance(3, false);
    const SamplerParams d; // defaults users know
    CHECK(d.temperature == 0.8f && d.top_k == 40 && d.top_p == 0.95f && d.min_p == 0.05f && d.typical_p == 1.0f);
    CHECK(d.repeat_penalty == 1.0f && d.frequency_penalty == 0.0f && d.presence_penalty == 0.0f);
    CHECK_EQ(d.penalty_last_n, 64);
}

} // namespace

int main() {
    test_chain();
    test_penalties();
    test_undo([](auto & p) { p.repeat_penalty = 1.5f, p.frequency_penalty = 0.3f, p.presence_penalty = 0.2f; });
    test_undo([](auto & p) { p.dry_multiplier = 1.0f, p.dry_allowed_length = 1; });
    test_undo([](auto & p) { p.mirostat = 2, p.mirostat_tau = 2.0f, p.mirostat_eta = 0.7f; });
    test_undo([](auto & p) {
        p.mirostat       = 2;
        p.repeat_penalty = 1.5f;
        p.dry_multiplier = 1.0f;
        p.dry_breakers   = DryBreakers({{3}, {1, 2}}, 10);
    });
    test_undo([](auto & p) { p.xtc_probability = 0.5f, p.xtc_threshold = 0.05f; });
    test_keyed_noise();
    test_distribution();
    test_validation();
    return check_report();
}
