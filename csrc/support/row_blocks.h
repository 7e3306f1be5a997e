// A row of logits in blocks: its maxima say which blocks a search for the best tokens may skip. Whoever computes a row
// can make them while it is still in cache; whoever chooses from it can do without.
#pragma once

#include <cstdint>

namespace pyspec {

constexpr int32_t row_block = 128; // entries of a block; the last one of a row may be shorter

constexpr int32_t n_row_blocks(int32_t n) {
    return (n + row_block - 1) / row_block;
}

// Largest of x[0 .. n), n <= row_block; +infinity when an entry is NaN or +infinity, so that the block is looked at.
float block_maximum(const float * x, int32_t n) noexcept;

} // namespace pyspec
