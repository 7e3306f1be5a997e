// The tables of the n-gram drafters by themselves, against plain searches: indexes that grow and shrink, counts that
// are taken back, the record of acceptance. (tests/ngram compares whole drafters.)
#include "check.h"

#include "history/acceptance_record.h"
#include "history/ngram_cache.h"
#include "history/ngram_counts.h"
#include "history/ngram_index.h"
#include "history/ngram_options.h"
#include "history/ngram_simple.h"
#include "history/token_hash.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

using namespace pyspec;

namespace {

using Tokens = std::vector<int32_t>;

// Stable for all time: tests and tables of other languages compute it too.
void test_hash() {
    const Tokens tokens = {0, 1, 151'935, -1};
    CHECK_EQ(token_hash(tokens.data(), 0), 0u);
    CHECK_EQ(token_hash(tokens.data(), 1), 0x9e3779b97f4a7c15u ^ 0x9e3779b9u);
    CHECK(token_hash(tokens.data(), 3) != token_hash(tokens.data(), 4));
    CHECK(token_hash(tokens.data(), 2) != token_hash(tokens.data() + 1, 2));
}

// Two ids whose hashes agree in the 32 bits that an index keeps: only the tokens tell them apart.
std::pair<int32_t, int32_t> colliding_tokens() {
    std::map<uint32_t, int32_t> seen;
    for (int32_t token = 0;; ++token) {
        const auto [at, is_new] = seen.emplace(static_cast<uint32_t>(token_hash(&token, 1)), token);
        if (!is_new) return {at->second, token};
    }
}

void test_equal_hashes() {
    const auto [a, b]   = colliding_tokens();
    const Tokens tokens = {a, 1, b, 2, a};
    NgramIndex index(1);
    for (int i = 0; i < 4; ++i) index.push(tokens.data());
    CHECK_EQ(index.n_keys(), 4u);
    CHECK_EQ(index.newest(index.find(tokens.data(), &a)), 0u);
    CHECK_EQ(index.newest(index.find(tokens.data(), &b)), 2u);
    index.push(tokens.data());
    index.pop(tokens.data());
    index.pop(tokens.data());
    index.pop(tokens.data());
    CHECK_EQ(index.find(tokens.data(), &b), NgramIndex::none);
    CHECK_EQ(index.newest(index.find(tokens.data(), &a)), 0u);

    // The whole drafter: b never occurred, its look-alike did.
    NgramSimple simple(1, 2);
    const Tokens history = {0, a, 1, 2, 3};
    simple.begin(history.data(), history.size());
    CHECK_EQ(simple.propose(a, 9).tokens.size(), 2u);
    CHECK(simple.propose(b, 9).tokens.empty());
}

void check_index(const NgramIndex & index, const Tokens & tokens, int32_t alphabet, uint32_t n_seed) {
    const size_t n = index.n();
    std::map<Tokens, std::vector<uint32_t>> starts;
    for (size_t i = 0; i < index.n_starts(); ++i) {
        const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(i);
        starts[Tokens(first, first + static_cast<std::ptrdiff_t>(n))].push_back(static_cast<uint32_t>(i));
    }
    CHECK_EQ(index.n_keys(), starts.size());
    for (const auto & [ngram, found] : starts) {
        const uint32_t key = index.find(tokens.data(), ngram.data());
        CHECK(key < index.n_keys());
        uint32_t at = index.newest(key);
        for (auto i = found.rbegin(); i != found.rend(); ++i, at = index.older(at)) CHECK_EQ(at, *i);
        CHECK_EQ(at, NgramIndex::none);
    }
    std::mt19937 rng(n_seed);
    for (int i = 0; i < 20; ++i) {
        Tokens ngram(n);
        for (int32_t & token : ngram) token = static_cast<int32_t>(rng() % static_cast<uint32_t>(alphabet + 1));
        CHECK_EQ(index.find(tokens.data(), ngram.data()) != NgramIndex::none, starts.count(ngram) > 0);
    }
}

void test_index() {
    std::mt19937 rng(1);
    for (const int32_t alphabet : {1, 2, 5, 1000}) {
        for (const size_t n : {size_t{1}, size_t{2}, size_t{4}}) {
            NgramIndex index(n);
            Tokens tokens;
            for (int step = 0; step < 60; ++step) {
                const size_t more = rng() % 40, less = rng() % 50;
                for (size_t i = 0; i < more; ++i) {
                    tokens.push_back(static_cast<int32_t>(rng() % static_cast<uint32_t>(alphabet)));
                }
                while (index.n_starts() + n <= tokens.size()) index.push(tokens.data());
                const size_t kept = tokens.size() - std::min(tokens.size(), step % 3 == 0 ? less : 0);
                while (index.n_starts() > 0 && index.n_starts() - 1 + n > kept) index.pop(tokens.data());
                tokens.resize(kept);
                check_index(index, tokens, alphabet, static_cast<uint32_t>(step));
            }
        }
    }
}

using Table = std::map<NgramKey, std::map<int32_t, int32_t>>;

Table contents(const NgramCounts & counts) {
    Table table;
    for (size_t i = 0; i < counts.n_entries(); ++i) {
        const NgramCounts::Entry & e = counts.entry(i);
        int64_t sum                  = 0;
        counts.each(e, [&](int32_t token, int32_t n) {
            CHECK_EQ(counts.count(e, token), n);
            table[e.key][token] = n;
            sum += n;
        });
        CHECK_EQ(sum, e.sum);
        const int32_t most = counts.count(e, e.best);
        counts.each(e, [&](int32_t, int32_t n) { CHECK(n <= most); });
        CHECK(counts.find(e.key) == &e);
        CHECK_EQ(counts.count(e, 77'777), 0);
    }
    return table;
}

// Adds are taken back in reverse: after any of it the table is the one of what is left, its best tokens included.
void test_counts() {
    struct Add {
        NgramKey key;
        int32_t token, best_before;
    };
    std::mt19937 rng(2);
    for (const uint32_t alphabet : {2u, 6u, 3000u}) {
        NgramCounts counts;
        std::vector<Add> adds;
        for (int step = 0; step < 200; ++step) {
            for (uint32_t i = rng() % 60; i > 0; --i) {
                Tokens ngram(1 + rng() % 4);
                for (int32_t & token : ngram) token = static_cast<int32_t>(rng() % alphabet);
                const NgramKey key  = ngram_key(ngram.data(), ngram.size());
                const int32_t token = static_cast<int32_t>(rng() % alphabet);
                adds.push_back({key, token, counts.add(key, token)});
            }
            for (size_t i = std::min<size_t>(adds.size(), rng() % 60); i > 0; --i) {
                counts.take_back(adds.back().key, adds.back().token, adds.back().best_before);
                adds.pop_back();
            }
            Table expected;
            std::map<NgramKey, int32_t> best;
            for (const Add & add : adds) {
                auto & found = expected[add.key];
                if (++found[add.token] >= found[best.emplace(add.key, add.token).first->second]) {
                    best[add.key] = add.token;
                }
            }
            CHECK(contents(counts) == expected);
            for (const auto & [key, token] : best) CHECK_EQ(counts.find(key)->best, token);
        }
    }
}

void test_sums_of_counts() {
    NgramCounts a, b;
    const NgramKey key = ngram_key(Tokens{1, 2}.data(), 2);
    a.add_count(key, 9, NgramCounts::max_count - 1);
    a.add_count(key, 8, 5);
    b.add_count(key, 9, 7);
    b.add_count(key, 3, 5);
    a.merge(b);
    CHECK_EQ(a.find(key)->best, 9);
    CHECK(contents(a) == (Table{{key, {{9, NgramCounts::max_count}, {8, 5}, {3, 5}}}}));
    CHECK(a.find(ngram_key(Tokens{1, 2, 0}.data(), 3)) == nullptr);

    // Among equals the lowest id, in whatever order they came.
    NgramCounts c, d;
    for (const int32_t token : {5, 3, 4}) c.add_count(key, token, 2);
    for (const int32_t token : {3, 4, 5}) d.add_count(key, token, 2);
    CHECK_EQ(c.find(key)->best, 3);
    CHECK_EQ(d.find(key)->best, 3);
    CHECK(contents(parse_ngram_counts(write_ngram_counts(a), 10, "a")) == contents(a));
    CHECK_ERROR(parse_ngram_counts("four", 10, "x"), PYSPEC_FILE_FORMAT, "x is not a table");
    CHECK_ERROR(parse_ngram_counts(write_ngram_counts(a), 9, "a"), PYSPEC_FILE_FORMAT, "token id 9");
}

// What leaves the history is learnt until the table is full.
void test_learning_ends() {
    NgramCache cache(8, 1'000'000, true);
    Tokens text(300'000);
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<int32_t>(i);
    cache.begin(text.data(), 1000);
    cache.begin(nullptr, 0);
    CHECK_EQ(cache.dynamic_counts().n_entries(), 4u * 1000 - 10);
    CHECK_EQ(cache.context_counts().n_entries(), 0u);
    cache.begin(text.data() + 1000, text.size() - 1000);
    cache.begin(nullptr, 0);
    const size_t full = cache.dynamic_counts().n_entries();
    CHECK(full >= NgramCache::max_learnt && full < NgramCache::max_learnt + 4);
    cache.begin(text.data(), 1000);
    cache.begin(nullptr, 0);
    CHECK_EQ(cache.dynamic_counts().n_entries(), full);
    CHECK(cache.memory_bytes() < size_t{400} << 20);
}

void test_record() {
    // The prior at some points of the published fit.
    CHECK(std::abs(acceptance_prior(1, 1, 1, 1, 0) - 1 / (1 + std::exp(1.41 - 0.83 * std::log(2.0) - 0.40))) < 1e-6);
    CHECK(std::abs(acceptance_prior(4, 6, 9, 3, 9) -
                   1 / (1 + std::exp(1.41 - 0.83 * std::log(5.0) - 1.43 * std::log(6.0) + 1.67 * std::log(4.0) -
                                     0.22 * std::log(3.0) - 0.16 - 0.63))) < 1e-6);

    AcceptanceRecord record(2);
    const Tokens draft               = {1, 2, 3};
    const std::vector<uint8_t> kinds = {0, 1, 1};
    const auto open                  = [&] { record.open(draft.data(), kinds.data(), draft.size()); };
    const auto observe               = [&](const Tokens & tokens) { record.observe(tokens.data(), tokens.size()); };
    const auto expected    = [](double right, double wrong) { return (right + 4 * 0.5) / (right + wrong + 4); };
    const auto estimate_is = [&](uint8_t kind, size_t position, double right, double wrong) {
        CHECK(std::abs(record.estimate(kind, position, 0.5f) - expected(right, wrong)) < 1e-6);
    };
    estimate_is(0, 0, 0, 0);
    open();
    observe({1});
    estimate_is(0, 0, 1, 0);
    estimate_is(1, 1, 0, 0);
    observe({2, 9}); // goes on where it stopped, and ends at the error
    estimate_is(1, 1, 1, 0);
    estimate_is(1, 2, 0, 1);
    observe({3});
    estimate_is(1, 2, 0, 1);
    open();
    record.forget_open();
    observe({1});
    estimate_is(0, 0, 1, 0);
    open();
    observe({7}); // discounted before it counts
    estimate_is(0, 0, 0.98, 1);
    CHECK_EQ(record.estimate(0, 7, 0.25f), record.estimate(0, 99, 0.25f));

    // Only the last eight wait.
    AcceptanceRecord one(1);
    const std::vector<uint8_t> zero(9, 0);
    for (int32_t i = 0; i < 9; ++i) {
        const Tokens two = {5, i};
        one.open(two.data(), zero.data(), 2);
    }
    const Tokens following = {5, 0}; // the first draft, which is forgotten, was right
    one.observe(following.data(), 2);
    CHECK(one.estimate(0, 0, 0.5f) > 0.7f);
    CHECK(one.estimate(0, 1, 0.5f) < 0.3f);
}

void test_options() {
    pyspec_ngram_params p = ngram_defaults(PYSPEC_NGRAM_MOD);
    p.n_min               = p.m + 1;
    CHECK_ERROR(make_ngram_drafter(p), PYSPEC_OPTION, "n_min is 17, expected 0..16");
    CHECK_ERROR(make_ngram_drafter(ngram_defaults(PYSPEC_NGRAM_CACHE)), PYSPEC_OPTION, "n_vocab is 0");
    CHECK_ERROR(ngram_defaults(static_cast<pyspec_ngram_kind>(9)), PYSPEC_OPTION, "kind 9");
    for (const pyspec_ngram_kind kind :
         {PYSPEC_NGRAM_SIMPLE, PYSPEC_NGRAM_MAP_K, PYSPEC_NGRAM_MAP_K4V, PYSPEC_NGRAM_MOD, PYSPEC_NGRAM_CACHE}) {
        p                  = ngram_defaults(kind);
        p.n_vocab          = 10;
        const auto drafter = make_ngram_drafter(p);
        CHECK_EQ(drafter->max_draft(), static_cast<size_t>(p.m));
        CHECK(drafter->propose(3, 0).tokens.empty());
    }
}

// The C interface: null pointers and lengths that cannot be.
void test_interface() {
    pyspec_ngram_params params;
    CHECK_EQ(pyspec_ngram_params_default(&params, PYSPEC_NGRAM_SIMPLE, sizeof params), PYSPEC_OK);
    params.n = 1, params.m = 2;
    pyspec_ngram * ngram = nullptr;
    CHECK_EQ(pyspec_ngram_new(&params, nullptr), PYSPEC_OPTION);
    CHECK_EQ(pyspec_ngram_new(nullptr, &ngram), PYSPEC_OPTION);
    CHECK_EQ(pyspec_ngram_new(&params, &ngram), PYSPEC_OK);
    const Tokens history = {9, 1, 2, 3, 4};
    CHECK_EQ(pyspec_ngram_begin(ngram, history.data(), -1), PYSPEC_OPTION);
    CHECK_EQ(pyspec_ngram_begin(ngram, nullptr, 5), PYSPEC_OPTION);
    CHECK_EQ(pyspec_ngram_begin(nullptr, history.data(), 5), PYSPEC_OPTION);
    CHECK_EQ(pyspec_ngram_begin(ngram, history.data(), 5), PYSPEC_OK);
    int32_t draft[2] = {-5, -5}, n = -5;
    float confidence[2];
    CHECK_EQ(pyspec_ngram_propose(ngram, 4, 1, 9, draft, confidence, &n), PYSPEC_OK);
    CHECK_EQ(n, -1);
    CHECK_EQ(pyspec_ngram_propose(ngram, 5, 1, 9, draft, confidence, &n), PYSPEC_OK);
    CHECK(n == 2 && draft[0] == 2 && draft[1] == 3);
    CHECK_EQ(pyspec_ngram_propose(ngram, 5, 1, -3, draft, confidence, &n), PYSPEC_OK);
    CHECK_EQ(n, 0);
    CHECK_EQ(pyspec_ngram_commit(ngram, nullptr, 0, nullptr, 0, 0, 1), PYSPEC_OPTION);
    CHECK_EQ(pyspec_ngram_commit(ngram, nullptr, 1, nullptr, 0, 0, 0), PYSPEC_OPTION);
    CHECK_EQ(pyspec_ngram_commit(ngram, nullptr, 0, nullptr, 0, 0, 0), PYSPEC_OK);
    CHECK_EQ(pyspec_ngram_remove(ngram, 3, 2), PYSPEC_OPTION);
    CHECK_EQ(pyspec_ngram_remove(ngram, 1, 99), PYSPEC_OK);
    CHECK_EQ(pyspec_ngram_truncate(ngram, -1, false), PYSPEC_OK);
    CHECK_EQ(pyspec_ngram_history(ngram, nullptr, 0), 0);
    CHECK(pyspec_ngram_memory(ngram) > 0);
    size_t size = 0;
    CHECK_EQ(pyspec_ngram_save(ngram, PYSPEC_NGRAM_CONTEXT, nullptr, 0, &size), PYSPEC_OPTION);
    pyspec_ngram_free(ngram);
    pyspec_ngram_free(nullptr);
    CHECK(pyspec_ngram_history(nullptr, nullptr, 0) == 0 && pyspec_ngram_memory(nullptr) == 0);
}

} // namespace

int main() {
    test_hash();
    test_equal_hashes();
    test_index();
    test_counts();
    test_sums_of_counts();
    test_learning_ends();
    test_record();
    test_options();
    test_interface();
    return check_report();
}
