#include "graph/rope_frequencies.h"

#include <algorithm>
#include <cmath>

namespace pyspec {

std::vector<double> rope_frequencies(const RopeParams & p) {
    // ggml multiplies from pair to pair by this ratio in single precision. Its rounding is shared, so that it cannot
    // add up between what the graphs computed and what is turned further here.
    const double ratio    = std::pow(p.freq_base, -2.0f / static_cast<float>(p.n_rot));
    const float * divisor = p.factors == nullptr ? nullptr : static_cast<const float *>(p.factors->data);
    float ends[2]         = {0.0f, 0.0f}; // pairs between which yarn goes over from one scale to the other
    if (p.ext_factor != 0.0f) {
        ggml_rope_yarn_corr_dims(p.n_rot, p.n_ctx_orig, p.freq_base, p.beta_fast, p.beta_slow, ends);
    }

    std::vector<double> frequencies;
    double power = 1.0;
    for (int32_t i = 0; i < p.n_rot / 2; ++i, power *= ratio) {
        const double unscaled = divisor == nullptr ? power : power / static_cast<double>(divisor[i]);
        double share          = 0.0; // of the unscaled frequency
        if (p.ext_factor != 0.0f) {
            const double way = (i - ends[0]) / std::max(0.001, static_cast<double>(ends[1] - ends[0]));
            share            = (1.0 - std::clamp(way, 0.0, 1.0)) * p.ext_factor;
        }
        frequencies.push_back(unscaled * (p.freq_scale * (1.0 - share) + share));
    }
    return frequencies;
}

} // namespace pyspec
