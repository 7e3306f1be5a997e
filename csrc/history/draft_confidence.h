// How likely a token copied from earlier text is to be right: a fixed estimate from the evidence, corrected by what has
// been observed.
//
// The estimate is a logistic function of match length, counts and place in the draft. Its weights were fitted on source
// files and documentation (242 thousand tokens, predicted from what precedes them in the same file); on held-out files
// its error of calibration was 0.02. It hardly differs between code and prose, and output of models is more repetitive
// than either, so the corrections mostly raise it.
//
// One thread at a time for changes. Nothing allocates.
#pragma once

#include <array>
#include <cstdint>

namespace pyspec {

struct CopyEvidence {
    uint32_t match;  // tokens of context that agree at the start of the draft, >= 1
    uint32_t place;  // of the token in the draft, from 1
    uint32_t count;  // earlier occurrences of the context that go on with the token, >= 1
    uint32_t total;  // earlier occurrences of the context that go on at all, >= count
    uint32_t degree; // different tokens that follow the context, >= 1
};

// Logit of the estimated probability that the target chooses the token, given that it chose all before it.
double copy_logit(const CopyEvidence & evidence) noexcept;

// Observed against expected in ten bins of estimated probability; older observations fade with weight 0.98 per newer
// one of their bin.
class Calibration {
public:
    static constexpr int n_bins       = 10;
    static constexpr double fading    = 0.98;
    static constexpr double shrinkage = 4.0; // observations that the estimate itself is worth

    // Bin of an estimate.
    static int bin(double probability) noexcept;

    // The estimate with this logit, corrected; a probability.
    double corrected(double logit, int bin) const noexcept;
    // The token that was estimated at `probability` was right, or was the first wrong one of its draft.
    void observe(double probability, bool right) noexcept;
    void reset() noexcept { *this = Calibration(); }

private:
    struct Bin {
        double n        = 0.0; // observations, faded
        double right    = 0.0;
        double expected = 0.0;
        double shift    = 0.0; // of the logit
    };
    std::array<Bin, n_bins> bins_{};
};

double sigmoid(double logit) noexcept;

} // namespace pyspec
