// What every kind of sequence memory answers. Ranges are positions [p0, p1) with open ends already resolved by the
// caller: p0 >= 0, p1 > p0 (INT32_MAX = to the end).
#pragma once

#include <cstdint>

namespace pyspec {

// Can tokens take other positions?
enum class Move {
    possible,
    unsupported, // never in this memory
    disordered,  // their positions would be negative, too large, or not between those of their neighbours
};

class Memory {
public:
    virtual ~Memory() = default;

    virtual int32_t n_used() const  = 0; // cells in use
    virtual int32_t pos_min() const = 0; // -1 when empty
    virtual int32_t pos_max() const = 0;

    // Would remove() succeed now? Must always agree with it.
    virtual bool can_remove(int32_t p0, int32_t p1) const = 0;
    // Removes the tokens in the range; false = refused and nothing has changed.
    [[nodiscard]] virtual bool remove(int32_t p0, int32_t p1) = 0;
    virtual void clear()                                      = 0;

    // May the positions of the tokens in the range change by delta? Every kept token must stay in its place in the
    // order. An empty range may.
    virtual Move check_move(int32_t p0, int32_t p1, int32_t delta) const = 0;
};

} // namespace pyspec
