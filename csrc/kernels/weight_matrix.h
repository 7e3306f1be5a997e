// A matrix of weights as product nodes see it, packed or as it lies in the file, and its product with some columns.
//
// The only way from weights and activations to results: nodes (product.h, experts.h) choose rows and columns and
// nothing else. A result is computed by the same sequence of operations whatever the number of columns:
//   packed         the tile's order (panel_tile.h)
//   as in the file ggml's own dot product of one row with one column
#pragma once

#include "kernels/packed_matrix.h"

#include "ggml.h"

#include <cstddef>
#include <cstdint>

namespace pyspec {

// The form in which a matrix takes its columns. Matrices of the same form can share converted columns.
struct ColumnForm {
    enum class Kind { floats, blocks, plain };
    Kind kind      = Kind::floats;    // f32 as they are; ActivationBlocks; `type` of ggml
    ggml_type type = GGML_TYPE_COUNT; // for plain

    bool operator==(const ColumnForm & other) const { return kind == other.kind && type == other.type; }
    size_t bytes(int64_t n_in) const; // of a column, multiple of 16
    // n_in floats in that form. Not for floats.
    void convert(const float * x, int64_t n_in, void * out) const;
};

struct WeightMatrix {
    ggml_type type;
    int64_t n_in;
    int64_t n_out;
    const PackedMatrix * packed; // with the panels at `panels`; or null, with rows as in the file at `rows`
    const uint8_t * panels;
    const char * rows;
    size_t row_bytes;

    // Number `index` of a stack of experts, 0 of a plain matrix.
    static WeightMatrix of(const ggml_tensor * weight, int64_t index = 0);

    int64_t n_panels() const { return pyspec::n_panels(n_out); } // of 16 rows, packed or not
};

ColumnForm column_form(const ggml_tensor * weight);
inline bool same_column_form(const ggml_tensor * a, const ggml_tensor * b) {
    return column_form(a) == column_form(b);
}

// Where results go: row r of the matrix and column c of the columns is dst[c * dst_stride + r].
struct ProductTarget {
    float * dst;        // element 0 of the first column
    size_t dst_stride;  // floats from column to column
    const float * bias; // {n_out} or null: added first
    const float * plus; // like dst, or null: added last
    size_t plus_stride;

    ProductTarget from_column(int64_t column) const {
        ProductTarget to = *this;
        to.dst += static_cast<size_t>(column) * dst_stride;
        if (plus != nullptr) {
            to.plus += static_cast<size_t>(column) * plus_stride;
        }
        return to;
    }
};

// Panels first .. last - 1 of w with n_columns columns, `stride` bytes apart, in the matrix's form.
void multiply(const WeightMatrix & w, int64_t first, int64_t last, const char * columns, size_t stride,
              int64_t n_columns, const ProductTarget & to);

} // namespace pyspec
