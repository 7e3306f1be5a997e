// The loop that every acceptance rule runs in: one row after the other, all or nothing.
#pragma once

#include "sampling/accept.h"
#include "support/error.h"
#include "support/row_blocks.h"

#include <algorithm>
#include <vector>

namespace pyspec {

struct Step {
    Choice choice; // what to emit and advance by
    bool accepted; // the draft token was accepted
};

// step(i, row) decides row i without changing the sampler.
template <typename Decide> Verdict accept_rows(Sampler & sampler, const Verification & v, int32_t * out, Decide step) {
    if (v.n_draft < 0) throw Error(PYSPEC_OPTION, format("n_draft is %d; allowed: 0 or more", v.n_draft));
    if (v.n_max < 1) throw Error(PYSPEC_OPTION, format("n_max is %d; allowed: 1 or more", v.n_max));

    const int32_t n_vocab = sampler.n_vocab();
    const auto row_at     = [&](size_t i) {
        LogitRow row{v.rows + i * static_cast<size_t>(n_vocab), n_vocab};
        if (v.maxima != nullptr) row.maxima = v.maxima + i * static_cast<size_t>(n_row_blocks(n_vocab));
        if (v.masks != nullptr) row.mask = v.masks + i * n_mask_words(n_vocab);
        return row;
    };
    const int32_t n_rows = static_cast<int32_t>(std::min<int64_t>(int64_t{v.n_draft} + 1, v.n_max));
    std::vector<int32_t> emitted;
    emitted.reserve(static_cast<size_t>(n_rows));
    sampler.reserve(n_rows);
    int32_t n_accepted = 0;
    int32_t n_advanced = 0;
    try {
        for (int32_t i = 0; i < n_rows; ++i) {
            const Step decided = step(i, row_at(static_cast<size_t>(i)));
            sampler.advance(decided.choice);
            ++n_advanced;
            emitted.push_back(decided.choice.token);
            if (decided.accepted) ++n_accepted;
            if (!decided.accepted || (v.is_end && v.is_end(decided.choice.token))) break;
        }
    } catch (...) {
        sampler.rollback(n_advanced); // cannot fail: room was made above
        throw;
    }
    std::copy(emitted.begin(), emitted.end(), out);
    return {static_cast<int32_t>(emitted.size()), n_accepted};
}

} // namespace pyspec
