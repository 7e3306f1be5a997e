// Rotating pairs of elements by given angles: of rows in floats, and of rows of K as they lie in the cache.
//
// A table has one entry for each element that is rotated, cosines and sines placed as the elements of the pairs are:
// cosine at the first element of a pair, sine at the second.
#pragma once

#include "ggml.h"

#include <cstdint>
#include <vector>

namespace pyspec {

// Pairs (2i, 2i + 1) of the first n_rot elements. x may be y.
inline void rotate_adjacent(const float * x, const float * table, int32_t n_rot, float * y) {
    for (int32_t i = 0; i < n_rot; i += 2) {
        const float a = x[i];
        const float b = x[i + 1];
        y[i]          = a * table[i] - b * table[i + 1];
        y[i + 1]      = a * table[i + 1] + b * table[i];
    }
}

// Pairs (i, i + n_rot / 2). x may be y.
inline void rotate_halves(const float * x, const float * table, int32_t n_rot, float * y) {
    const int32_t half = n_rot / 2;
    for (int32_t i = 0; i < half; ++i) {
        const float a = x[i];
        const float b = x[i + half];
        y[i]          = a * table[i] - b * table[i + half];
        y[i + half]   = a * table[i + half] + b * table[i];
    }
}

// How the heads of one row of the cache are rotated.
struct RowRotation {
    ggml_type type           = GGML_TYPE_F32; // f32, f16, bf16 or q8_0
    int32_t head_dim         = 0;             // elements of a head, a multiple of the type's block
    int32_t n_head           = 0;             // heads in the row
    bool adjacent            = false;         // pairs, see above
    std::vector<float> table = {};            // {n_rot}, n_rot <= head_dim
};

// Table of turning each pair i by angles[i] radians.
std::vector<float> rotation_table(const std::vector<double> & angles, bool adjacent);

// Rotates every head of a row in place. Blocks without rotated elements keep their bytes. scratch: {head_dim} floats.
// The result is rounded to the type once.
void rotate_row(const RowRotation & rotation, void * row, float * scratch);

} // namespace pyspec
