#include "kernels/rotation.h"

#include "ggml-cpu.h"

#include <cmath>

namespace pyspec {

std::vector<float> rotation_table(const std::vector<double> & angles, bool adjacent) {
    const size_t n = angles.size();
    std::vector<float> table(2 * n);
    for (size_t i = 0; i < n; ++i) {
        table[adjacent ? 2 * i : i]         = static_cast<float>(std::cos(angles[i]));
        table[adjacent ? 2 * i + 1 : n + i] = static_cast<float>(std::sin(angles[i]));
    }
    return table;
}

void rotate_row(const RowRotation & r, void * row, float * scratch) {
    const int32_t n_rot   = static_cast<int32_t>(r.table.size());
    const int64_t block   = ggml_blck_size(r.type);
    const int64_t n       = (n_rot + block - 1) / block * block; // elements of a head that are touched
    const size_t head     = ggml_row_size(r.type, r.head_dim);
    const auto rotate     = r.adjacent ? rotate_adjacent : rotate_halves;
    const auto to_float   = ggml_get_type_traits(r.type)->to_float;
    const auto from_float = ggml_get_type_traits_cpu(r.type)->from_float; // what wrote the row
    for (int32_t i = 0; i < r.n_head; ++i) {
        char * data = static_cast<char *>(row) + static_cast<size_t>(i) * head;
        if (r.type == GGML_TYPE_F32) {
            float * x = reinterpret_cast<float *>(data);
            rotate(x, r.table.data(), n_rot, x);
            continue;
        }
        to_float(data, scratch, n);
        rotate(scratch, r.table.data(), n_rot, scratch);
        from_float(scratch, data, n);
    }
}

} // namespace pyspec
