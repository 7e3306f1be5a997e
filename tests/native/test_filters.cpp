// Random numbers, row scans, filters, logprobs and draft choice as pure functions of hand-made rows.
#include "sampling_fixtures.h"

#include "sampling/dry.h"
#include "sampling/logprobs.h"
#include "sampling/scan.h"
#include "support/row_blocks.h"

#include <algorithm>
#include <cstdio>

using namespace pyspec;

namespace {

void test_philox() {
    // Known answers published with the Random123 library for philox4x32, 10 rounds.
    const auto hex = [](const PhiloxBlock & b) {
        char s[40];
        std::snprintf(s, sizeof s, "%08x %08x %08x %08x", b[0], b[1], b[2], b[3]);
        return std::string(s);
    };
    CHECK_EQ(hex(philox4x32_10({0, 0, 0, 0}, {0, 0})), "6627e8d5 e169c58d bc57ac4c 9b00dbd8");
    CHECK_EQ(hex(philox4x32_10({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u})), "408f276d 41c83b0e a20bc7c6 6d5451fd");
    CHECK_EQ(hex(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0})),
             "d16cfe09 94fdcceb 5001e420 24126ea1");

    // The layout: each field goes to its own word, all 64 bits of seed and index count.
    CHECK_EQ(hex(philox_block(0x299f31d0a4093822u, 0x85a308d3243f6a88u, 0x13198a2e, static_cast<Purpose>(0x03707344))),
             "d16cfe09 94fdcceb 5001e420 24126ea1");
    CHECK_EQ(static_cast<int>(Purpose::target), 0);
    CHECK_EQ(static_cast<int>(Purpose::accept), 1);
    CHECK_EQ(static_cast<int>(Purpose::residual), 2);
    CHECK_EQ(static_cast<int>(Purpose::draft), 3);
    CHECK_EQ(static_cast<int>(Purpose::tree), 4);

    CHECK_EQ(uniform_open({0, 0, 9, 9}), 0x1p-53);
    CHECK_EQ(uniform_open({~0u, ~0u, 9, 9}), 1.0 - 0x1p-53);
    CHECK_EQ(uniform_open({0x80000000u, 0, 9, 9}), 0.5 + 0x1p-53);
    CHECK(std::isfinite(gumbel_from_uniform(0x1p-53)) && std::isfinite(gumbel_from_uniform(1.0 - 0x1p-53)));

    const int n = 20000;
    std::vector<int> seen(16);
    for (int i = 0; i < n; ++i) {
        ++seen[static_cast<size_t>(16 * uniform_open(7, static_cast<uint64_t>(i), 0, Purpose::accept))];
    }
    CHECK(chi_square(seen, std::vector<double>(16, 1.0 / 16), n) < chi_square_limit(15));
}

std::vector<float> maxima_of(const std::vector<float> & row) {
    const int32_t n = static_cast<int32_t>(row.size());
    std::vector<float> maxima;
    for (int32_t first = 0; first < n; first += row_block) {
        maxima.push_back(block_maximum(row.data() + first, std::min(row_block, n - first)));
    }
    return maxima;
}

// Every scan with and without the maxima of the blocks.
void test_scans(bool with_maxima) {
    const auto arg_max_of = [&](const std::vector<float> & row) {
        const std::vector<float> maxima = maxima_of(row);
        return arg_max({row.data(), static_cast<int32_t>(row.size()), with_maxima ? maxima.data() : nullptr});
    };
    const auto top = [&](const std::vector<float> & row, int32_t k) {
        const std::vector<float> maxima = maxima_of(row);
        std::vector<ScoredToken> best;
        top_k_of_row({row.data(), static_cast<int32_t>(row.size()), with_maxima ? maxima.data() : nullptr}, k, best);
        Tokens tokens;
        for (const ScoredToken & t : best) tokens.push_back(t.token);
        return tokens;
    };
    CHECK_EQ(arg_max_of({1, 3, 2, 3}), 1);
    CHECK_EQ(arg_max_of({-0.0f, 0.0f}), 0);
    CHECK_EQ(arg_max_of({-inf, -1e30f, -inf}), 1);
    EXPECT_TOKENS(top({1, 5, 5, 2, 5}, 2), {1, 2});
    EXPECT_TOKENS(top({1, 5, 5, 2, 5}, 4), {1, 2, 4, 3});
    EXPECT_TOKENS(top({0.0f, -0.0f, 0.0f}, 2), {0, 1});
    EXPECT_TOKENS(top({-inf, 1, -inf, 2}, 3), {3, 1});
    CHECK_ERROR(arg_max_of({-inf, -inf}), PYSPEC_OPTION, "all 2 logits");
    CHECK_ERROR(top({-inf, -inf}, 1), PYSPEC_OPTION, "all 2 logits");

    // Rows longer than the internal blocks, with heavy ties: the same as sorting everything.
    for (int32_t n : {1, 63, 127, 128, 129, 255, 256, 300, 1000, 4097}) {
        for (int kind = 0; kind < 4; ++kind) {
            std::vector<float> row = random_row(n, static_cast<uint64_t>(n * 10 + kind));
            for (int32_t i = 0; i < n; ++i) {
                float & x = row[static_cast<size_t>(i)];
                if (kind == 1) x = std::floor(x / 4);
                if (kind == 2) x = static_cast<float>(i / 3);
                if (kind == 3) x = i % 5 == 0 ? -inf : 1.0f;
            }
            Tokens order;
            for (int32_t i = 0; i < n; ++i) {
                if (row[static_cast<size_t>(i)] != -inf) order.push_back(i);
            }
            if (order.empty()) continue;
            std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
                return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
            });
            CHECK_EQ(arg_max_of(row), order[0]);
            for (int32_t k : {1, 2, 40, 128, 1000, 5000}) {
                const Tokens head(order.begin(), order.begin() + std::min<std::ptrdiff_t>(k, std::ssize(order)));
                CHECK_EQ(text(top(row, k)), text(head));
            }
        }
        for (int32_t bad : {0, n / 2, n - 1}) {
            std::vector<float> row        = random_row(n, 5);
            row[static_cast<size_t>(bad)] = nan_;
            CHECK_ERROR(arg_max_of(row), PYSPEC_OPTION, "token " + std::to_string(bad) + " is not a number");
            CHECK_ERROR(top(row, 3), PYSPEC_OPTION, "token " + std::to_string(bad) + " is not a number");
            row[static_cast<size_t>(bad)] = inf;
            CHECK_ERROR(arg_max_of(row), PYSPEC_OPTION, "token " + std::to_string(bad) + " is +infinity");
        }
    }
}

// Masked rows: the same as rows with -infinity in place of what is forbidden, with and without maxima, which then are
// only bounds; what is forbidden is not looked at.
void test_masks() {
    for (int32_t n : {1, 31, 32, 33, 127, 128, 129, 300, 1000, 4097}) {
        for (uint32_t share : {1u, 5u, 30u, 70u, 99u}) {
            std::vector<float> row = random_row(n, static_cast<uint64_t>(n) + share);
            for (float & x : row) x = std::floor(x / 2); // ties
            std::vector<uint32_t> mask(n_mask_words(n), 0);
            std::vector<float> masked(row.size(), -inf);
            for (int32_t i = 0; i < n; ++i) {
                const auto word = philox_block(share, static_cast<uint64_t>(n), static_cast<uint32_t>(i), row_noise);
                if (i != n / 2 && word[0] % 100 >= share) continue;
                mask[static_cast<size_t>(i / 32)] |= uint32_t{1} << (i % 32);
                masked[static_cast<size_t>(i)] = row[static_cast<size_t>(i)];
            }
            if (n % 32 != 0) mask.back() |= ~uint32_t{0} << (n % 32); // bits behind the row count for nothing
            std::vector<float> maxima = maxima_of(row);
            for (const float * m : {static_cast<const float *>(nullptr), static_cast<const float *>(maxima.data())}) {
                const LogitRow view{row.data(), n, m, mask.data()};
                CHECK_EQ(arg_max(view), arg_max({masked.data(), n}));
                std::vector<ScoredToken> a, b;
                const auto same = [](const ScoredToken & x, const ScoredToken & y) {
                    return x.token == y.token && x.logit == y.logit;
                };
                for (int32_t k : {1, 3, 40, 5000}) {
                    top_k_of_row(view, k, a);
                    top_k_of_row({masked.data(), n}, k, b);
                    CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end(), same));
                }
                allowed_of_row(view, a);
                allowed_of_row({masked.data(), n}, b);
                CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end(), same));
            }
            // Nonsense counts only where it is allowed.
            for (int32_t i = 0; i < n; ++i) {
                if (mask[static_cast<size_t>(i / 32)] >> (i % 32) & 1) continue;
                std::vector<float> odd      = row;
                odd[static_cast<size_t>(i)] = i % 2 == 0 ? nan_ : inf;
                CHECK_EQ(arg_max({odd.data(), n, nullptr, mask.data()}), arg_max({masked.data(), n}));
                i += n / 5;
            }
            row[static_cast<size_t>(n / 2)] = nan_;
            maxima                          = maxima_of(row);
            CHECK_ERROR(arg_max({row.data(), n, nullptr, mask.data()}), PYSPEC_OPTION, "is not a number");
            CHECK_ERROR(arg_max({row.data(), n, maxima.data(), mask.data()}), PYSPEC_OPTION, "is not a number");
            const std::vector<uint32_t> nothing(mask.size(), 0);
            CHECK_ERROR(arg_max({row.data(), n, nullptr, nothing.data()}), PYSPEC_OPTION, "mask and -infinity forbid");
        }
    }
}

void test_more_filters() {
    const std::vector<float> row = log_of({0.05, 0.40, 0.10, 0.30, 0.15});

    // Standard deviation 0.7494 of the logits; the best is ln .40 = -0.916.
    const auto sigma = [](CandidateList l, float n) { return filter_top_n_sigma(l, n), l; };
    EXPECT_TOKENS(ids(sigma(list_of(row), 0.37f)), {1});
    EXPECT_TOKENS(ids(sigma(list_of(row), 0.41f)), {1, 3});
    EXPECT_TOKENS(ids(sigma(list_of(row), 1.4f)), {1, 3, 4});
    EXPECT_TOKENS(ids(sigma(list_of(row), 0.0f)), {0, 1, 2, 3, 4});
    EXPECT_TOKENS(ids(sigma(list_of({2, 2, 2}), 1e-6f)), {0, 1, 2}); // no spread: all are best
    EXPECT_TOKENS(ids(sigma(list_of({2}), 1.0f)), {0});

    const auto xtc = [](CandidateList l, float t, size_t keep = 0) { return filter_xtc(l, t, keep), l; };
    EXPECT_TOKENS(ids(xtc(list_of(row), 0.29f)), {0, 2, 3, 4}); // of .40 and .30 the better goes
    EXPECT_TOKENS(ids(xtc(list_of(row), 0.12f)), {0, 2, 4});
    EXPECT_TOKENS(ids(xtc(list_of(row), 0.35f)), {0, 1, 2, 3, 4}); // one alone stays
    EXPECT_TOKENS(ids(xtc(list_of(row), 0.51f)), {0, 1, 2, 3, 4});
    EXPECT_TOKENS(ids(xtc(list_of(row), 0.0f)), {0});
    EXPECT_TOKENS(ids(xtc(list_of(row), 0.12f, 4)), {0, 1, 2, 3, 4}); // three would stay: none goes
    EXPECT_TOKENS(ids(xtc(list_of(row), 0.12f, 3)), {0, 2, 4});
    EXPECT_TOKENS(ids(xtc(list_of({0, 0, 0, 0}), 0.2f)), {3}); // ties: the lowest ids are the best

    const auto keep = [](CandidateList l, const std::function<void(CandidateList &)> & f) { return f(l), l; };
    EXPECT_TOKENS(ids(keep(list_of(row), [](auto & l) { filter_top_p(l, 0.1f, 3); })), {1, 3, 4});
    EXPECT_TOKENS(ids(keep(list_of(row), [](auto & l) { filter_min_p(l, 0.9f, 3); })), {1, 3, 4});
    EXPECT_TOKENS(ids(keep(list_of(row), [](auto & l) { filter_min_p(l, 0.26f, 2); })), {1, 3, 4});
    EXPECT_TOKENS(ids(keep(list_of(row), [](auto & l) { filter_typical(l, 0.0f, 3); })), {1, 3, 4});
    EXPECT_TOKENS(ids(keep(list_of(row), [](auto & l) { filter_min_p(l, 0.9f, 99); })), {0, 1, 2, 3, 4});

    // Surprises in bits by id: 4.32, 1.32, 3.32, 1.74, 2.74.
    const auto cut = [](CandidateList l, double mu, double t = 1.0) { return filter_mirostat(l, t, mu), l; };
    EXPECT_TOKENS(ids(cut(list_of(row), 1.8)), {1, 3});
    EXPECT_TOKENS(ids(cut(list_of(row), 3.0)), {1, 3, 4});
    EXPECT_TOKENS(ids(cut(list_of(row), 1.0)), {1}); // the best stays
    EXPECT_TOKENS(ids(cut(list_of(row), -50.0)), {1});
    EXPECT_TOKENS(ids(cut(list_of(row), 5000.0)), {0, 1, 2, 3, 4});
    EXPECT_TOKENS(ids(cut(list_of(row), 1.0, 0.5)), {1}); // sharpened: .577 of the mass, 0.79 bits

    CandidateList flat = list_of({1, 1, 1}), sharp = list_of({0, 50, 0});
    CHECK(std::abs(dynamic_temperature(flat, 1.0, 0.5, 1.0) - 1.5) < 1e-12);
    CHECK(std::abs(dynamic_temperature(sharp, 1.0, 0.5, 1.0) - 0.5) < 1e-9);
    CHECK(std::abs(dynamic_temperature(sharp, 1.0, 1.5, 1.0)) < 1e-9); // never below 0
    CandidateList some = list_of(row);                                 // entropy 1.3924 of ln 5
    CHECK(std::abs(dynamic_temperature(some, 1.0, 0.5, 2.0) - (0.5 + std::pow(1.3924 / std::log(5.0), 2))) < 1e-4);
    CHECK_EQ(dynamic_temperature(some, 1.0, 0.0, 2.0), 1.0);
}

void test_dry() {
    const auto find = [](Tokens history, int32_t allowed, const DryBreakers::Sequences & breakers = {}) {
        std::reverse(history.begin(), history.end());
        std::vector<int32_t> work;
        std::vector<Repetition> found;
        find_repetitions(history.data(), history.size(), DryBreakers(breakers, 10), allowed, work, found);
        std::string said;
        for (const Repetition & r : found) said += std::to_string(r.token) + "x" + std::to_string(r.length) + " ";
        return said;
    };
    CHECK_EQ(find({1, 2, 3, 9, 1, 2}, 2), "3x2 "); // "1 2" came before and went on with 3
    CHECK_EQ(find({1, 2, 3, 9, 1, 2}, 3), "");
    CHECK_EQ(find({1, 2, 3, 5, 2, 4, 9, 1, 2}, 1), "3x2 4x1 ");
    CHECK_EQ(find({7, 7, 7, 7}, 2), "7x3 ");
    CHECK_EQ(find({1, 2, 3, 1, 2, 5, 1, 2}, 2), "3x2 5x2 ");
    CHECK_EQ(find({5, 1, 2, 3, 9, 1, 2, 4, 5, 1, 2}, 2), "3x3 4x2 ");
    CHECK_EQ(find({}, 0) + find({1}, 0), "");
    // A breaker ends the repetition: only what follows the last one counts, and it is never penalised itself.
    CHECK_EQ(find({1, 8, 2, 3, 9, 1, 8, 2}, 1, {{8}}), "3x1 ");
    CHECK_EQ(find({1, 8, 2, 3, 9, 1, 8, 2}, 2, {{8}}), "");
    CHECK_EQ(find({1, 2, 8, 9, 1, 2}, 2, {{8}}), "");
    CHECK_EQ(find({1, 8, 7, 2, 3, 9, 1, 8, 7, 2}, 1, {{8, 7}}), "3x1 ");
    CHECK_EQ(find({1, 8, 6, 2, 3, 9, 1, 8, 6, 2}, 1, {{8, 7}}), "3x4 ");
    CHECK_ERROR(DryBreakers({{}}, 10), PYSPEC_OPTION, "has no tokens");
    CHECK_ERROR(DryBreakers({{1, 10}}, 10), PYSPEC_OPTION, "names token 10; allowed: 0 to 9");
    CHECK_ERROR(DryBreakers({{-1}}, 10), PYSPEC_OPTION, "names token -1");

    CHECK_EQ(dry_penalised(1.0f, 4, 0.5f, 2.0f, 2), -1.0f);
    CHECK(std::isfinite(dry_penalised(1.0f, 100000, 0.8f, 1.75f, 2)));

    // In the sampler: after bias and penalties, before the filters; the window ends it.
    const std::vector<float> row = {3.0f, 2.0f, 1.0f, 0.0f};
    const auto choose            = [&](const Tokens & history, const std::function<void(SamplerParams &)> & change) {
        Sampler s(with(plain(0),
                       [&](auto & p) {
                           p.dry_multiplier = 1.0f;
                           p.dry_base       = 2.0f;
                           change(p);
                       }),
                  4);
        for (int32_t token : history) s.advance(token, true);
        return s.sample(row.data());
    };
    CHECK_EQ(choose({1, 2, 0, 3, 1, 2}, [](auto &) {}), 0); // 3 - 1 = 2: tie, lowest id
    CHECK_EQ(choose({1, 2, 0, 3, 1, 2}, [](auto & p) { p.dry_multiplier = 1.5f; }), 1);
    CHECK_EQ(choose({1, 2, 0, 3, 1, 2}, [](auto & p) { p.dry_allowed_length = 1; }), 1); // 3 - 2 = 1
    CHECK_EQ(choose({1, 2, 0, 3, 1, 2}, [](auto & p) { p.dry_allowed_length = 1, p.dry_penalty_last_n = 5; }), 0);
    CHECK_EQ(choose({1, 2, 0, 3, 1, 2}, [](auto & p) { p.dry_allowed_length = 1, p.dry_penalty_last_n = 0; }), 0);
    CHECK_EQ(choose({1, 2, 0, 3, 1, 2},
                    [](auto & p) {
                        p.dry_allowed_length = 1;
                        p.dry_breakers       = DryBreakers({{2}}, 4);
                    }),
             0);
}

void test_filters() {
    const std::vector<float> row = log_of({0.05, 0.40, 0.10, 0.30, 0.15});

    CandidateList list = list_of(row);
    softmax(list);
    CHECK(std::abs(list.items[1].p - 0.40) < 1e-7 && std::abs(list.items[0].p - 0.05) < 1e-7);
    softmax(list, 0.5); // squares
    CHECK(std::abs(list.items[1].p - 0.16 / (0.0025 + 0.16 + 0.01 + 0.09 + 0.0225)) < 1e-6);

    const auto top_k = [](CandidateList l, int32_t k) { return filter_top_k(l, k), l; };
    EXPECT_TOKENS(in_list_order(top_k(list_of(row), 3)), {1, 3, 4});
    EXPECT_TOKENS(in_list_order(top_k(list_of(row), 1)), {1});
    EXPECT_TOKENS(ids(top_k(list_of(row), 0)), {0, 1, 2, 3, 4});
    EXPECT_TOKENS(ids(top_k(list_of(row), 9)), {0, 1, 2, 3, 4});
    EXPECT_TOKENS(ids(top_k(list_of({2, 1, 2, 1, 1}), 3)), {0, 1, 2}); // tie at the boundary: lowest id
    for (int32_t k = 1; k <= 5; ++k) { // the scan that replaces the filter on whole rows agrees with it
        CandidateList gathered;
        gather_candidates({row.data(), 5}, k, gathered);
        CHECK_EQ(text(ids(gathered)), text(ids(top_k(list_of(row), k))));
    }
    EXPECT_TOKENS(ids(list_of({-inf, 1, -inf})), {1});

    const auto top_p = [](CandidateList l, float p) { return filter_top_p(l, p), l; };
    EXPECT_TOKENS(in_list_order(top_p(list_of(row), 0.39f)), {1});
    EXPECT_TOKENS(in_list_order(top_p(list_of(row), 0.41f)), {1, 3});
    EXPECT_TOKENS(in_list_order(top_p(list_of(row), 0.84f)), {1, 3, 4});
    EXPECT_TOKENS(in_list_order(top_p(list_of(row), 0.96f)), {1, 3, 4, 2, 0});
    EXPECT_TOKENS(in_list_order(top_p(list_of(row), 0.0f)), {1}); // never empty
    EXPECT_TOKENS(in_list_order(top_p(list_of(row), 1.0f)), {0, 1, 2, 3, 4});
    EXPECT_TOKENS(in_list_order(top_p(list_of({0, 0, 0, 0}), 0.5f)),
                  {0, 1}); // reaching it exactly is enough; ties by id
    // Renormalised over what top-k left: 0.40 / 0.70 = 0.571.
    EXPECT_TOKENS(in_list_order(top_p(top_k(list_of(row), 2), 0.55f)), {1});
    EXPECT_TOKENS(in_list_order(top_p(list_of(row), 0.55f)), {1, 3});
    { // a nucleus longer than the first sorted piece
        const CandidateList wide = top_p(list_of(std::vector<float>(2000, 1.0f)), 0.5f);
        CHECK_EQ(wide.items.size(), 1000u);
        CHECK_EQ(wide.items[999].token, 999);
    }

    const auto min_p = [](CandidateList l, float p) { return filter_min_p(l, p), l; };
    EXPECT_TOKENS(ids(min_p(list_of(row), 0.24f)), {1, 2, 3, 4}); // limit 0.096
    EXPECT_TOKENS(ids(min_p(list_of(row), 0.26f)), {1, 3, 4});    // limit 0.104
    EXPECT_TOKENS(ids(min_p(list_of(row), 0.0f)), {0, 1, 2, 3, 4});
    EXPECT_TOKENS(ids(min_p(list_of({3, 1, 3, 2}), 1.0f)), {0, 2}); // equal to the best stays
    EXPECT_TOKENS(ids(min_p(top_k(list_of(row), 2), 0.76f)), {1});

    // Entropy 1.392; distances from it by id: 1.604, 0.475, 0.911, 0.188, 0.505.
    const auto typical = [](CandidateList l, float p) { return filter_typical(l, p), l; };
    EXPECT_TOKENS(in_list_order(typical(list_of(row), 0.29f)), {3});
    EXPECT_TOKENS(in_list_order(typical(list_of(row), 0.31f)), {3, 1});
    EXPECT_TOKENS(in_list_order(typical(list_of(row), 0.71f)), {3, 1, 4});
    EXPECT_TOKENS(in_list_order(typical(list_of(row), 0.0f)), {3});
    EXPECT_TOKENS(in_list_order(typical(list_of(row), 1.0f)), {0, 1, 2, 3, 4});
    EXPECT_TOKENS(in_list_order(typical(list_of({0, 0, 0, 0}), 0.5f)), {0, 1, 2}); // must be exceeded; ties by id
    EXPECT_TOKENS(in_list_order(typical(list_of({0.0f, -2000.0f, 0.0f}), 0.999f)), {0, 2}); // p = 0 makes no NaN
    EXPECT_TOKENS(in_list_order(top_p(typical(list_of(row), 0.71f), 0.45f)), {1}); // order restored after typical
}

void test_logprobs() {
    const std::vector<float> row = log_of({0.05, 0.30, 0.10, 0.30, 0.25});
    std::vector<TokenLogprob> top;
    CHECK(std::abs(logprobs(row.data(), 5, 2, 3, top) - std::log(0.10f)) < 1e-6f);
    CHECK_EQ(top.size(), 3u);
    CHECK(top[0].token == 1 && top[1].token == 3 && top[2].token == 4); // tie: lowest id
    CHECK(top[0].logprob == top[1].logprob && std::abs(top[0].logprob - std::log(0.30f)) < 1e-6f);
    std::vector<float> shifted = row;
    for (float & x : shifted) x = (x + 3.0f) * 1.0f;
    std::vector<TokenLogprob> none;
    CHECK(std::abs(logprobs(shifted.data(), 5, 2, 0, none) - std::log(0.10f)) < 1e-6f);
    CHECK(none.empty());

    const float few[4] = {-inf, 2.0f, -inf, 1.0f};
    CHECK_EQ(logprobs(few, 4, 0, 4, top), -inf);
    CHECK(top[0].token == 1 && top[1].token == 3 && top[2].token == 0 && top[3].token == 2);
    CHECK(top[2].logprob == -inf);
    const float far[3] = {100.0f, -1000.0f, 100.0f};
    CHECK(std::abs(logprobs(far, 3, 1, 0, top) - (-1100.0f - std::log(2.0f))) < 1e-3f);

    top = {{77, 7.0f}};
    CHECK_ERROR(logprobs(row.data(), 5, 5, 1, top), PYSPEC_OPTION, "token is 5; allowed: 0 to 4");
    CHECK_ERROR(logprobs(row.data(), 5, 0, 6, top), PYSPEC_OPTION, "n_top is 6; allowed: 0 to 5");
    CHECK_ERROR(logprobs(row.data(), 5, 0, -1, top), PYSPEC_OPTION, "n_top is -1");
    const float bad[2] = {0, nan_}, no[2] = {-inf, -inf};
    CHECK_ERROR(logprobs(bad, 2, 0, 1, top), PYSPEC_OPTION, "token 1 is not a number");
    CHECK_ERROR(logprobs(no, 2, 0, 1, top), PYSPEC_OPTION, "all 2 logits");
    CHECK(top.size() == 1 && top[0].token == 77);

    // Asking changes nothing: the row, the choice and the sampler are the same.
    Sampler s(SamplerParams{}, 300);
    const std::string before = observe(s);
    for (uint64_t i = 0; i < 50; ++i) {
        std::vector<float> logits     = random_row(300, i);
        const std::vector<float> copy = logits;
        const int32_t token           = s.sample(logits.data());
        logprobs(logits.data(), 300, token, 20, top);
        int32_t t[20];
        float p[20];
        s.candidates(logits.data(), t, p, 20);
        CHECK(logits == copy);
        CHECK_EQ(s.sample(logits.data()), token);
    }
    CHECK_EQ(observe(s), before);
}

void test_draft_choice() {
    const std::vector<float> row = log_of({0.10, 0.20, 0.20, 0.05, 0.45});
    const auto choose            = [&](int32_t allowed, int32_t best) {
        return draft_choice(row.data(), nullptr, 5, allowed, best);
    };
    CHECK_EQ(choose(5, 10).token, 4);
    CHECK(std::abs(choose(5, 10).probability - 0.45f) < 1e-6f);
    CHECK(std::abs(choose(5, 2).probability - 0.45f / 0.65f) < 1e-6f);
    CHECK_EQ(choose(5, 1).probability, 1.0f);
    CHECK_EQ(choose(4, 10).token, 1); // tie: lowest id; id 4 is not allowed and does not count
    CHECK(std::abs(choose(4, 10).probability - 0.20f / 0.55f) < 1e-6f);
    CHECK(std::abs(choose(4, 2).probability - 0.5f) < 1e-6f);
    CHECK_ERROR(choose(0, 1), PYSPEC_OPTION, "n_allowed is 0; allowed: 1 to 5");
    CHECK_ERROR(choose(6, 1), PYSPEC_OPTION, "n_allowed is 6");
    CHECK_ERROR(choose(5, 0), PYSPEC_OPTION, "n_best is 0");
    const float bad[3] = {nan_, 1, 2}, no[3] = {-inf, -inf, 1};
    CHECK_ERROR(draft_choice(bad, nullptr, 3, 3, 10), PYSPEC_OPTION, "not a number");
    CHECK_ERROR(draft_choice(no, nullptr, 3, 2, 10), PYSPEC_OPTION, "all 2 logits");
}

} // namespace

int main() {
    test_philox();
    test_scans(false);
    test_scans(true);
    test_masks();
    test_filters();
    test_more_filters();
    test_dry();
    test_logprobs();
    test_draft_choice();
    return check_report();
}
