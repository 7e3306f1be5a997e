// How often the tokens of a text drafter came true, and what that says of its next ones.
//
// A target that samples and matches emits the same tokens whatever was drafted. So a draft can be judged by the tokens
// that follow it, whether it was verified or not: it waits until they exist. Position i counts only if all before it
// came true ("reached"); what lies beyond the first error was never a guess about this text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pyspec {

// Estimate before anything was observed, of the probability that a drafted token is right given that those before it
// were: a logistic fit on human text. length: tokens of context that matched; count of n_seen occurrences went on with
// this token; n_next: distinct tokens that followed; position: 0 for the first drafted token.
float acceptance_prior(double length, double count, double n_seen, double n_next, size_t position);

// Counts by evidence class and position, discounted so that the last hundred or so weigh most. An estimate is
// (accepted + weight * prior) / (accepted + rejected + weight) with a prior worth four observations: a smoothed rate
// that begins at the prior. A function of tokens alone. Fixed size: the last 8 drafts stay open; older ones that still
// wait lose what they could not yet tell.
class AcceptanceRecord {
public:
    explicit AcceptanceRecord(size_t n_classes);

    float estimate(uint8_t evidence, size_t position, float prior) const;

    // A draft of n tokens that follow the text's present end. Kept until it fails or all its tokens were seen.
    void open(const int32_t * tokens, const uint8_t * evidence, size_t n);
    // The tokens that followed.
    void observe(const int32_t * emitted, size_t n);
    // The text was edited: what is open will never be known.
    void forget_open() { n_open_ = 0; }

    size_t memory_bytes() const;

    static constexpr size_t n_positions = 8; // later positions share the last one's counts

private:
    struct Counts {
        float accepted = 0.0f;
        float rejected = 0.0f;
    };
    struct Open {
        std::vector<int32_t> tokens;
        std::vector<uint8_t> evidence;
        size_t seen = 0; // leading tokens that came true
    };
    static constexpr size_t max_open = 8;

    void count(uint8_t evidence, size_t position, bool accepted);

    std::vector<Counts> counts_; // {n_positions, n_classes}
    std::vector<Open> open_;     // max_open; the first n_open_ wait, oldest first
    size_t n_open_ = 0;
};

} // namespace pyspec
