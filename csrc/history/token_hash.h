// One hash of token ids for all tables of this room. Fixed for all time and machines: tests compute it independently.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pyspec {

// h = 0; for each token: h = (h xor token + 1, as 32 bits) * 0x9E3779B97F4A7C15 mod 2^64, h = h xor h >> 32. The
// multiplier is 2^64 over the golden ratio (Knuth's multiplicative hashing); the shift brings the high half, which
// depends on everything, back to the low one.
inline uint64_t token_hash(const int32_t * tokens, size_t n) {
    uint64_t h = 0;
    for (size_t i = 0; i < n; ++i) {
        h = (h ^ (static_cast<uint32_t>(tokens[i]) + 1u)) * 0x9E3779B97F4A7C15u;
        h ^= h >> 32;
    }
    return h;
}

} // namespace pyspec
