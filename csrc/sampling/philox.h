// Counter-based random numbers: Philox4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011). There is no state: a number is a pure function of (seed, logical index, token id,
// purpose), so the noise of an emitted token does not depend on how many rows were looked at, in which order, or on
// time.
//
// Layout, fixed because seeded text depends on it:
//   key     = seed, low word first
//   counter = { index low, index high, token id, purpose }
// Streams of different purposes are disjoint. A drafter that wants to agree with the target uses Purpose::target on
// purpose; everything else needs its own.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace pyspec {

enum class Purpose : uint32_t { // numbers are part of the layout: append only
    target    = 0,              // the target's own choice
    accept    = 1,              // coins of rejection sampling
    residual  = 2,              // draw from the residual after a rejection
    draft     = 3,              // a drafter's private draws
    tree      = 4,              // several candidates per position
    xtc       = 5,
    mirostat  = 6, // the choice when mirostat cuts the candidates
    synthetic = 7, // coins of synthetic acceptance
};

using PhiloxBlock = std::array<uint32_t, 4>;
using PhiloxKey   = std::array<uint32_t, 2>;

// The bijection itself.
inline PhiloxBlock philox4x32_10(PhiloxBlock counter, PhiloxKey key) noexcept {
    constexpr uint64_t multiplier_0 = 0xD2511F53u;
    constexpr uint64_t multiplier_1 = 0xCD9E8D57u;
    for (int round = 0; round < 10; ++round) {
        const uint64_t product_0 = multiplier_0 * counter[0];
        const uint64_t product_1 = multiplier_1 * counter[2];
        counter = {static_cast<uint32_t>(product_1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product_1),
                   static_cast<uint32_t>(product_0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product_0)};
        key[0] += 0x9E3779B9u; // golden ratio and sqrt(3) - 1: the Weyl sequences of the key schedule
        key[1] += 0xBB67AE85u;
    }
    return counter;
}

inline PhiloxBlock philox_block(uint64_t seed, uint64_t index, uint32_t token, Purpose purpose) noexcept {
    return philox4x32_10(
        {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), token, static_cast<uint32_t>(purpose)},
        {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// Uniform in the open interval (0, 1): an odd multiple of 2^-53, so neither end is reached and u and 1 - u are equally
// likely. (An even spacing of 2^-53 would have to round its last value to 1.) Uses the first two words of the block.
inline double uniform_open(const PhiloxBlock & block) noexcept {
    const uint64_t bits = static_cast<uint64_t>(block[0]) << 32 | block[1];
    return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

inline double uniform_open(uint64_t seed, uint64_t index, uint32_t token, Purpose purpose) noexcept {
    return uniform_open(philox_block(seed, index, token, purpose));
}

// Standard Gumbel noise. argmax over v of log p(v) + gumbel(v) is distributed as p.
inline double gumbel_from_uniform(double u) noexcept {
    return -std::log(-std::log(u));
}

// The noise of all tokens at one place.
struct Noise {
    uint64_t seed;
    uint64_t index;
    Purpose purpose;

    double uniform(int32_t token) const noexcept {
        return uniform_open(seed, index, static_cast<uint32_t>(token), purpose);
    }
    double gumbel(int32_t token) const noexcept { return gumbel_from_uniform(uniform(token)); }
};

inline double gumbel(uint64_t seed, uint64_t index, uint32_t token, Purpose purpose) noexcept {
    return gumbel_from_uniform(uniform_open(seed, index, token, purpose));
}

} // namespace pyspec
