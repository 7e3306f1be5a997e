#include "our_product.h"

#include <algorithm>
#include <cstring>

namespace pyspec::bench {

namespace {

// Panels of one pass over the columns: they stay in the second-level cache while all column tiles go by.
constexpr size_t panel_group_bytes = 512 * 1024;

void multiply_panels(const PackedMatrix & w, const ActivationBlock * rows, int64_t n_columns, int64_t first,
                     int64_t last, float * y) {
    const size_t stride   = w.layout.n_blocks;
    const int64_t n_tiles = (n_columns + w.max_columns - 1) / w.max_columns;
    const int64_t group   = std::max<int64_t>(1, static_cast<int64_t>(panel_group_bytes / w.layout.bytes));
    for (int64_t from = first; from < last; from += group) {
        for (int64_t tile = 0; tile < n_tiles; ++tile) { // of nearly equal width
            const int64_t column = n_columns * tile / n_tiles;
            const int n          = static_cast<int>(n_columns * (tile + 1) / n_tiles - column);
            for (int64_t panel = from; panel < std::min(last, from + group); ++panel) {
                alignas(64) float out[panel_rows * max_tile_columns];
                const uint8_t * data = w.data + static_cast<size_t>(panel) * w.layout.bytes;
                w.tile({data + w.layout.quants_at, data + w.layout.scales_at, data + w.layout.supers_at,
                        w.layout.n_blocks, rows + static_cast<size_t>(column) * stride, stride, n, out});
                const int64_t row = panel * panel_rows;
                const size_t kept = static_cast<size_t>(std::min(panel_rows, w.n_out - row)) * sizeof(float);
                for (int c = 0; c < n; ++c) {
                    std::memcpy(y + (column + c) * w.n_out + row, out + panel_rows * c, kept);
                }
            }
        }
    }
}

} // namespace

void multiply_packed(Team & team, const PackedMatrix & w, const float * x, int64_t n_columns,
                     std::vector<ActivationBlock> & rows, float * y) {
    rows.resize(std::max(rows.size(), w.layout.n_blocks * static_cast<size_t>(n_columns)));
    team.run([&](int thread, int n_threads) {
        for (int64_t column = thread; column < n_columns; column += n_threads) {
            quantise_row(x + column * w.n_in, static_cast<size_t>(w.n_in),
                         rows.data() + static_cast<size_t>(column) * w.layout.n_blocks);
        }
    });
    const int64_t total = n_panels(w.n_out);
    team.run([&](int thread, int n_threads) {
        multiply_panels(w, rows.data(), n_columns, total * thread / n_threads, total * (thread + 1) / n_threads, y);
    });
}

} // namespace pyspec::bench
