#include "kernels/weight_matrix.h"

#include "kernels/activation_block.h"

#include "ggml-cpu.h"

#include <algorithm>

namespace pyspec {

namespace {

// Panels of one pass over the columns: they stay in the second-level cache while all column tiles go by.
constexpr size_t panel_group_bytes = 512 * 1024;
// Of the columns of a tile: they stay in the first-level cache while the panels of a group go by. Long rows are walked
// in pieces of so much, which changes nothing in the order of a sum.
constexpr size_t piece_bytes = 16 * 1024;

// The n results of a panel for some columns, with bias and addend.
void store(const ProductTarget & to, int64_t row, int64_t n, int64_t column, int n_columns, const float * out) {
    for (int c = 0; c < n_columns; ++c, out += panel_rows) {
        const size_t at     = static_cast<size_t>(column + c);
        float * y           = to.dst + at * to.dst_stride + row;
        const float * bias  = to.bias == nullptr ? nullptr : to.bias + row;
        const float * other = to.plus == nullptr ? nullptr : to.plus + at * to.plus_stride + row;
        for (int64_t r = 0; r < n; ++r) {
            float value = out[r];
            if (bias != nullptr) {
                value += bias[r];
            }
            if (other != nullptr) {
                value += other[r];
            }
            y[r] = value;
        }
    }
}

int64_t rows_of_panel(const WeightMatrix & w, int64_t panel) {
    return std::min(panel_rows, w.n_out - panel * panel_rows);
}

// Blocks of 32 values that are walked at a time.
size_t piece_of(const PackedMatrix & m, int64_t n_columns) {
    const size_t whole = m.layout.n_blocks;
    if (m.takes_floats || n_columns * static_cast<int64_t>(sizeof(ActivationBlock) * whole) <= int64_t{piece_bytes}) {
        return whole;
    }
    // A multiple of 8, the blocks of a K-quant's super-block.
    return std::max<size_t>(8, piece_bytes / (static_cast<size_t>(n_columns) * sizeof(ActivationBlock)) / 8 * 8);
}

void multiply_packed(const WeightMatrix & w, int64_t first, int64_t last, const char * columns, size_t stride,
                     int64_t n_columns, const ProductTarget & to) {
    const PackedMatrix & m  = *w.packed;
    const PanelLayout & at  = m.layout;
    const int64_t n_tiles   = (n_columns + m.max_columns - 1) / m.max_columns;
    const int64_t widest    = (n_columns + n_tiles - 1) / n_tiles;
    const size_t piece      = piece_of(m, widest);
    constexpr int64_t most  = 32; // panels of a group; their sums lie on the stack while a row is walked in pieces
    const int64_t by_size   = static_cast<int64_t>(panel_group_bytes / at.bytes);
    const int64_t group     = n_tiles == 1 && piece == at.n_blocks ? 1 : std::clamp<int64_t>(by_size, 1, most);
    constexpr int64_t block = panel_rows * max_tile_columns;
    alignas(64) float out[most * block];
    for (int64_t from = first; from < last; from += group) {
        const int64_t until = std::min(last, from + group);
        for (int64_t t = 0; t < n_tiles; ++t) { // tiles of nearly equal width
            const int64_t column = n_columns * t / n_tiles;
            const int n          = static_cast<int>(n_columns * (t + 1) / n_tiles - column);
            const char * x       = columns + static_cast<size_t>(column) * stride;
            for (size_t b = 0; b < at.n_blocks; b += piece) {
                for (int64_t panel = from; panel < until; ++panel) {
                    const uint8_t * data = w.panels + static_cast<size_t>(panel) * at.bytes;
                    PanelTask task;
                    task.quants    = data + at.quants_at + b * at.quant_bytes;
                    task.scales    = data + at.scales_at + b * at.scale_bytes;
                    task.supers    = data + at.supers_at + b / 8 * at.super_bytes;
                    task.n_blocks  = std::min(piece, at.n_blocks - b);
                    task.x         = x + b * sizeof(ActivationBlock);
                    task.x_stride  = stride;
                    task.n_columns = n;
                    task.resume    = b > 0;
                    task.out       = out + (panel - from) * block;
                    m.tile(task);
                }
            }
            for (int64_t panel = from; panel < until; ++panel) {
                store(to, panel * panel_rows, rows_of_panel(w, panel), column, n, out + (panel - from) * block);
            }
        }
    }
}

void multiply_plain(const WeightMatrix & w, int64_t first, int64_t last, const char * columns, size_t stride,
                    int64_t n_columns, const ProductTarget & to) {
    const ggml_vec_dot_t dot = ggml_get_type_traits_cpu(w.type)->vec_dot;
    for (int64_t panel = first; panel < last; ++panel) {
        const char * rows = w.rows + static_cast<size_t>(panel * panel_rows) * w.row_bytes;
        const int64_t n   = rows_of_panel(w, panel);
        for (int64_t c = 0; c < n_columns; ++c) {
            float out[panel_rows];
            for (int64_t r = 0; r < n; ++r) {
                dot(static_cast<int>(w.n_in), out + r, 0, rows + static_cast<size_t>(r) * w.row_bytes, 0,
                    columns + static_cast<size_t>(c) * stride, 0, 1);
            }
            store(to, panel * panel_rows, n, c, 1, out);
        }
    }
}

} // namespace

size_t ColumnForm::bytes(int64_t n_in) const {
    size_t n = 0;
    switch (kind) {
    case Kind::floats:
        n = static_cast<size_t>(n_in) * sizeof(float);
        break;
    case Kind::blocks:
        n = static_cast<size_t>(n_in) / 32 * sizeof(ActivationBlock);
        break;
    case Kind::plain:
        n = ggml_row_size(type, n_in);
        break;
    }
    return (n + 15) / 16 * 16;
}

void ColumnForm::convert(const float * x, int64_t n_in, void * out) const {
    if (kind == Kind::blocks) {
        quantise_row(x, static_cast<size_t>(n_in), static_cast<ActivationBlock *>(out));
    } else {
        ggml_get_type_traits_cpu(type)->from_float(x, out, n_in);
    }
}

ColumnForm column_form(const ggml_tensor * weight) {
    if (const PackedMatrix * packed = packed_of(weight)) {
        return {packed->takes_floats ? ColumnForm::Kind::floats : ColumnForm::Kind::blocks, GGML_TYPE_COUNT};
    }
    const ggml_type type = ggml_get_type_traits_cpu(weight->type)->vec_dot_type;
    if (type == GGML_TYPE_F32) {
        return {ColumnForm::Kind::floats, GGML_TYPE_COUNT};
    }
    return {ColumnForm::Kind::plain, type};
}

WeightMatrix WeightMatrix::of(const ggml_tensor * weight, int64_t index) {
    WeightMatrix w{};
    w.type   = weight->type;
    w.n_in   = weight->ne[0];
    w.n_out  = weight->ne[1];
    w.packed = packed_of(weight);
    if (w.packed != nullptr) {
        w.panels = w.packed->matrix(index);
    } else {
        w.rows      = static_cast<const char *>(weight->data) + static_cast<size_t>(index) * weight->nb[2];
        w.row_bytes = weight->nb[1];
    }
    return w;
}

void multiply(const WeightMatrix & w, int64_t first, int64_t last, const char * columns, size_t stride,
              int64_t n_columns, const ProductTarget & to) {
    if (w.packed != nullptr) {
        multiply_packed(w, first, last, columns, stride, n_columns, to);
    } else {
        multiply_plain(w, first, last, columns, stride, n_columns, to);
    }
}

} // namespace pyspec
