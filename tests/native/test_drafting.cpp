// Coupled drafting: the drafter makes the target's draw, follows its history cheaply, and copes with rows of another
// width. What it proposes can only cost time; that the text stays the same is test_distribution's and the rounds' part.
#include "sampling_fixtures.h"

using namespace pyspec;

namespace {

DraftChoice guess(const Sampler & s, const std::vector<float> & row, int32_t n_best = 10) {
    return s.draft({row.data(), std::min(static_cast<int32_t>(row.size()), s.n_vocab())}, n_best);
}

std::vector<SamplerParams> settings() {
    const auto warm = plain(1);
    return {warm,
            plain(0),
            SamplerParams{},
            with(warm, [](auto & p) { p.repeat_penalty = 1.7f, p.penalty_last_n = 3; }),
            with(warm, [](auto & p) { p.frequency_penalty = 0.7f, p.penalty_last_n = -1; }),
            with(warm, [](auto & p) { p.dry_multiplier = 1.0f, p.dry_allowed_length = 1; }),
            with(warm, [](auto & p) { p.xtc_probability = 0.5f; }),
            with(warm, [](auto & p) { p.dynatemp_range = 0.9f; }),
            with(warm, [](auto & p) { p.mirostat = 2, p.mirostat_tau = 2.0f, p.mirostat_eta = 0.5f; })};
}

// With the target's own rows and scale 1 the guess is the target's choice, for every setting; the history follows
// whatever either side did in between.
void test_same_draw() {
    for (const SamplerParams & params : settings()) {
        Sampler target(with(params, [](auto & p) { p.seed = 12; }), 20);
        for (int32_t t = 0; t < 5; ++t) target.advance(t, true);
        Sampler drafting = target.for_drafting(1.0, 0);
        Sampler sharp    = target.for_drafting(0.5, 0);
        int equal        = 0;
        for (uint64_t i = 0; i < 200; ++i) {
            const auto word              = philox_block(6, i, 0, row_noise);
            const std::vector<float> row = random_row(20, i, 0.5);
            drafting.follow(target);
            sharp.follow(target);
            const DraftChoice choice = guess(drafting, row);
            CHECK(choice.probability > 0.0f && choice.probability <= 1.0f);
            const Choice chosen = target.choose({row.data(), 20});
            CHECK_EQ(choice.token, chosen.token);
            equal += guess(sharp, row).token == chosen.token;
            for (uint32_t j = 0; j < word[0] % 5; ++j)
                drafting.advance(static_cast<int32_t>((word[1] + j) % 20), false);
            target.advance(chosen);
            if (word[2] % 7 == 0) target.rollback(static_cast<int32_t>(word[3] % 4));
            if (word[2] % 11 == 0) target.advance(static_cast<int32_t>(word[3] % 20), true);
            if (word[2] % 50 == 0) target.reset();
        }
        CHECK(equal > 80);
        drafting.follow(target);
        CHECK_EQ(observe(drafting), observe(target));
        CHECK(drafting.can_rollback(static_cast<int32_t>(drafting.n_history())));
        target.rollback(3);
        drafting.rollback(3);
        CHECK_EQ(observe(drafting), observe(target)); // what was taken over can be undone as well
        Sampler other(with(target.params(), [](auto & p) { p.seed = 13; }), 20);
        CHECK_ERROR(drafting.follow(other), PYSPEC_OPTION, "same settings");
        CHECK_ERROR(drafting.follow(Sampler(target.params(), 21)), PYSPEC_OPTION, "same settings");
        CHECK_EQ(observe(drafting), observe(target));
    }
}

// Case-free but dear: a history of a million tokens must not be read in every round.
void test_follow_is_cheap() {
    Sampler target(plain(1), 8);
    const int32_t n = check::sanitized ? 50000 : 1000000;
    for (int32_t i = 0; i < n; ++i) target.advance(i % 8, false);
    Sampler drafting = target.for_drafting(0.8, 0);
    for (int32_t i = 0; i < 200000; ++i) { // hours, if it were
        drafting.advance(1, false);
        target.advance(i % 8, false);
        drafting.follow(target);
    }
    CHECK_EQ(drafting.n_history(), target.n_history());
}

// The probability: share of the winner among perturbed logits; the plain share at temperature 0.
void test_probability() {
    const std::vector<float> row = log_of({0.10, 0.20, 0.20, 0.05, 0.45});
    const Sampler greedy         = Sampler(plain(0), 5).for_drafting(0.8, 0);
    CHECK_EQ(guess(greedy, row).token, 4);
    CHECK(std::abs(guess(greedy, row).probability - 0.45f) < 1e-6f);
    CHECK(std::abs(guess(greedy, row, 2).probability - 0.45f / 0.65f) < 1e-6f);
    for (uint64_t seed = 0; seed < 40; ++seed) {
        const Sampler s = Sampler(with(plain(1), [&](auto & p) { p.seed = seed; }), 5).for_drafting(0.8, 0);
        double sum = 0.0, best = -1e300;
        int32_t winner = -1;
        for (int32_t v = 0; v < 5; ++v) {
            const double score =
                row[static_cast<size_t>(v)] + 0.8 * gumbel(seed, 0, static_cast<uint32_t>(v), Purpose::target);
            sum += std::exp(score);
            if (score > best) best = score, winner = v;
        }
        const DraftChoice choice = guess(s, row);
        CHECK_EQ(choice.token, winner);
        CHECK(std::abs(choice.probability - std::exp(best) / sum) < 1e-5);
        CHECK_EQ(guess(s, row, 1).token, winner); // n_best is about the probability only
    }
    CHECK_ERROR(guess(greedy, row, 0), PYSPEC_OPTION, "n_best is 0");
    for (double scale : {0.0, -1.0, static_cast<double>(nan_), static_cast<double>(inf)}) {
        CHECK_ERROR(greedy.for_drafting(scale, 0), PYSPEC_OPTION, "scale is ");
    }
}

// Draft rows of another width than the target's: padding on either side.
void test_other_width() {
    for (float temperature : {0.0f, 1.0f}) {
        Sampler target(with(plain(temperature),
                            [](auto & p) {
                                p.repeat_penalty = 1.5f;
                                p.logit_bias     = {{299, 2.0f}, {1, 1.0f}};
                            }),
                       300);
        for (int32_t t : {299, 5, 280, 130}) target.advance(t, false); // ids a shorter row does not have
        const Sampler drafting = target.for_drafting(0.8, 0);
        for (uint64_t i = 0; i < 30; ++i) {
            const std::vector<float> full = random_row(300, i, 1.0);
            for (int32_t n : {130, 172, 299, 300}) {
                std::vector<float> cut = full;
                std::fill(cut.begin() + n, cut.end(), -inf);
                const int32_t token = drafting.draft({full.data(), n}, 10).token;
                CHECK(token < n);
                CHECK_EQ(token, drafting.draft({cut.data(), 300}, 10).token);
            }
        }
        const std::vector<float> row = random_row(301, 4);
        CHECK_ERROR(drafting.draft({row.data(), 301}, 10), PYSPEC_OPTION, "the row has 301 logits; allowed: 1 to 300");
        CHECK_ERROR(drafting.draft({row.data(), 0}, 10), PYSPEC_OPTION, "the row has 0 logits");
    }
}

// Independent draws for rejection sampling: the law is the candidates', and the draws follow it.
void test_own_draws() {
    const std::vector<float> row = {1.5f, 0.2f, -0.5f, 2.0f, 2.0f, 0.9f, -3.0f, 1.0f};
    for (const SamplerParams & params : {plain(1), with(plain(0.7f), [](auto & p) { p.top_k = 4; })}) {
        Sampler s = Sampler(params, 8).for_drafting(0.8, 5);
        std::vector<float> p(8);
        Tokens t(8);
        const size_t kept = static_cast<size_t>(s.candidates(row.data(), t.data(), p.data(), 8));
        std::vector<int> seen(8);
        const int n = 20000;
        std::vector<WeightedToken> law;
        for (int i = 0; i < n; ++i) {
            ++seen[static_cast<size_t>(s.draw_draft({row.data(), 8}, law))];
            s.advance(0, false);
        }
        CHECK_EQ(law.size(), kept);
        std::vector<int> of_kept;
        std::vector<double> expected;
        double sum = 0.0;
        for (size_t i = 0; i < kept; ++i) {
            const auto at = std::find_if(law.begin(), law.end(), [&](const auto & w) { return w.token == t[i]; });
            CHECK(at != law.end() && std::abs(at->p - p[i]) < 1e-6);
            of_kept.push_back(seen[static_cast<size_t>(t[i])]);
            expected.push_back(p[i]);
            sum += at->p;
        }
        CHECK(std::abs(sum - 1.0) < 1e-12);
        CHECK(chi_square(of_kept, expected, n) < chi_square_limit(static_cast<int>(kept) - 1));
    }
    // The draft seed changes its draws and nothing else.
    const Sampler target(plain(1), 8);
    const Sampler a = target.for_drafting(1.0, 5), b = target.for_drafting(1.0, 6);
    int differ = 0;
    for (uint64_t i = 0; i < 50; ++i) {
        const std::vector<float> other = random_row(8, i, 0.5);
        std::vector<WeightedToken> law;
        differ += a.draw_draft({other.data(), 8}, law) != b.draw_draft({other.data(), 8}, law);
        CHECK_EQ(guess(a, other).token, guess(b, other).token);
        CHECK_EQ(guess(a, other).token, target.sample(other.data()));
    }
    CHECK(differ > 10);
}

} // namespace

int main() {
    test_same_draw();
    test_follow_is_cheap();
    test_probability();
    test_other_width();
    test_own_draws();
    return check_report();
}
