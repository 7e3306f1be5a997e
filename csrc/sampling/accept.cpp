#include "sampling/accept.h"

#include "support/error.h"
#include "support/row_blocks.h"

#include <algorithm>
#include <vector>

namespace pyspec {

Verdict accept_match(Sampler & sampler, const float * rows, const float * maxima, const int32_t * draft,
                     int32_t n_draft, int32_t n_max, const std::function<bool(int32_t token)> & is_end, int32_t * out) {
    if (n_draft < 0) throw Error(PYSPEC_OPTION, format("n_draft is %d; allowed: 0 or more", n_draft));
    if (n_max < 1) throw Error(PYSPEC_OPTION, format("n_max is %d; allowed: 1 or more", n_max));

    const size_t n_vocab  = static_cast<size_t>(sampler.n_vocab());
    const size_t n_blocks = static_cast<size_t>(n_row_blocks(sampler.n_vocab()));
    const int32_t n_rows  = static_cast<int32_t>(std::min<int64_t>(int64_t{n_draft} + 1, n_max));
    std::vector<int32_t> emitted;
    emitted.reserve(static_cast<size_t>(n_rows));
    sampler.reserve(n_rows);
    int32_t n_accepted = 0;
    int32_t n_advanced = 0;
    try {
        for (int32_t i = 0; i < n_rows; ++i) {
            const size_t row = static_cast<size_t>(i);
            const int32_t token =
                sampler.sample(rows + row * n_vocab, maxima == nullptr ? nullptr : maxima + row * n_blocks);
            sampler.advance(token, false);
            ++n_advanced;
            emitted.push_back(token);
            const bool right = i < n_draft && token == draft[i];
            if (right) ++n_accepted;
            if (!right || (is_end && is_end(token))) break;
        }
    } catch (...) {
        sampler.rollback(n_advanced); // cannot fail: room was made above
        throw;
    }
    std::copy(emitted.begin(), emitted.end(), out);
    return {static_cast<int32_t>(emitted.size()), n_accepted};
}

} // namespace pyspec
