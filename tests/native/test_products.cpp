// Packed weights: the packed form keeps every bit, products are right for every type and instruction set, and their
// bits depend neither on the number of columns nor of threads nor on the set.
#include "check.h"

#include "kernels/activation_block.h"
#include "kernels/instruction_set.h"
#include "kernels/packed_matrix.h"
#include "kernels/product.h"

#include "ggml-cpu.h"
#include "ggml.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace pyspec;

namespace {

constexpr ggml_type types[] = {GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1,
                               GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};

// Own code for distributions: the library's differ between compilers.
std::vector<float> random_values(size_t n, unsigned seed, float scale) {
    std::mt19937 generator(seed);
    std::vector<float> values(n);
    for (float & v : values) {
        float sum = 0.0f;
        for (int i = 0; i < 4; ++i) {
            sum += static_cast<float>(generator() >> 8) / 16777216.0f - 0.5f;
        }
        v = sum * scale;
    }
    return values;
}

// A matrix in GGUF form, in floats and packed.
struct Matrix {
    ggml_type type;
    int64_t n_in;
    int64_t n_out;
    std::vector<uint8_t> gguf;
    std::vector<float> floats;
    std::vector<uint8_t> space;
    PackedMatrix packed;

    Matrix(ggml_type type_, int64_t n_in_, int64_t n_out_, const TileSet & set, unsigned seed)
        : type(type_), n_in(n_in_), n_out(n_out_), packed(type_, n_in_, n_out_, set) {
        const std::vector<float> raw = random_values(static_cast<size_t>(n_in * n_out), seed, 0.2f);
        gguf.resize(ggml_row_size(type, n_in) * static_cast<size_t>(n_out));
        ggml_quantize_chunk(type, raw.data(), gguf.data(), 0, n_out, n_in, nullptr);
        floats.resize(raw.size());
        ggml_get_type_traits(type)->to_float(gguf.data(), floats.data(), n_in * n_out);

        space.assign(packed.bytes() + 64, 0xa5);
        uint8_t * data = space.data();
        while (reinterpret_cast<uintptr_t>(data) % 64 != 0) {
            ++data;
        }
        for (int64_t panel = 0; panel < n_panels(n_out); ++panel) {
            const int64_t first = panel * panel_rows;
            pack_panel(type, n_in, gguf.data() + static_cast<size_t>(first) * ggml_row_size(type, n_in),
                       std::min(panel_rows, n_out - first), data + static_cast<size_t>(panel) * packed.layout.bytes);
        }
        packed.data = data;
    }
};

// Several matrices times the same columns, in one node; or ggml's plain products of the GGUF form, one after the other.
struct Options {
    int n_threads = 1;
    bool ggml     = false;
    bool biased   = false;
    bool addend   = false;
};
std::vector<float> compute(const std::vector<Matrix *> & matrices, const std::vector<float> & x, int64_t columns,
                           const Options & options) {
    static std::vector<uint8_t> arena(16u << 20);
    ggml_context * ctx = ggml_init({arena.size(), arena.data(), false});
    const int64_t n_in = matrices[0]->n_in;
    int64_t n_out      = 0;
    for (const Matrix * m : matrices) {
        n_out += m->n_out;
    }
    ggml_tensor * input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n_in, columns);
    std::memcpy(input->data, x.data(), static_cast<size_t>(n_in * columns) * sizeof(float));
    ggml_tensor * addend = nullptr;
    if (options.addend) {
        addend = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n_out, columns);
        for (int64_t i = 0; i < n_out * columns; ++i) {
            static_cast<float *>(addend->data)[i] = static_cast<float>(i % 31) * 0.25f;
        }
    }
    ggml_cgraph * graph = ggml_new_graph(ctx);
    std::vector<ProductWeight> weights;
    std::vector<ggml_tensor *> results;
    for (Matrix * m : matrices) {
        ggml_tensor * w = ggml_new_tensor_2d(ctx, m->type, n_in, m->n_out);
        std::memcpy(w->data, m->gguf.data(), m->gguf.size());
        if (options.ggml) {
            results.push_back(ggml_mul_mat(ctx, w, input));
            continue;
        }
        w->extra           = &m->packed;
        ggml_tensor * bias = nullptr;
        if (options.biased) {
            bias = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, m->n_out);
            for (int64_t i = 0; i < m->n_out; ++i) {
                static_cast<float *>(bias->data)[i] = static_cast<float>(i % 7) - 3.0f;
            }
        }
        weights.push_back({w, bias});
    }
    if (!options.ggml) {
        results.push_back(packed_product(ctx, weights.data(), static_cast<int>(weights.size()), input, addend));
    }
    for (ggml_tensor * y : results) {
        ggml_build_forward_expand(graph, y);
    }
    CHECK(ggml_graph_compute_with_ctx(ctx, graph, options.n_threads) == GGML_STATUS_SUCCESS);
    std::vector<float> out(static_cast<size_t>(n_out * columns));
    int64_t row = 0;
    for (const ggml_tensor * y : results) {
        for (int64_t c = 0; c < columns; ++c) {
            std::memcpy(out.data() + c * n_out + row,
                        static_cast<const char *>(y->data) + static_cast<size_t>(c) * y->nb[1],
                        static_cast<size_t>(y->ne[0]) * sizeof(float));
        }
        row += y->ne[0];
    }
    ggml_free(ctx);
    return out;
}

// Root mean square error relative to the root mean square of the result in double precision.
double error_of(const std::vector<float> & got, const Matrix & m, const std::vector<float> & x, int64_t columns) {
    double wrong = 0.0;
    double whole = 0.0;
    for (int64_t column = 0; column < columns; ++column) {
        for (int64_t row = 0; row < m.n_out; ++row) {
            double exact = 0.0;
            for (int64_t i = 0; i < m.n_in; ++i) {
                exact += static_cast<double>(m.floats[static_cast<size_t>(row * m.n_in + i)]) *
                         static_cast<double>(x[static_cast<size_t>(column * m.n_in + i)]);
            }
            const double difference = got[static_cast<size_t>(column * m.n_out + row)] - exact;
            wrong += difference * difference;
            whole += exact * exact;
        }
    }
    return std::sqrt(wrong / whole);
}

bool same(const std::vector<float> & a, const float * b) {
    return std::memcmp(a.data(), b, a.size() * sizeof(float)) == 0;
}

void keeps_every_bit(ggml_type type, const TileSet & set) {
    for (const int64_t n_out : {1, 16, 19}) {
        const Matrix m(type, 512, n_out, set, 5);
        CHECK(m.packed.bytes() == packed_bytes(type, 512, n_out));
        const int64_t n_values  = ggml_blck_size(type);
        const size_t block_size = ggml_type_size(type);
        std::vector<uint8_t> block(max_gguf_block);
        for (int64_t row = 0; row < n_out; ++row) {
            const uint8_t * panel = m.packed.data + static_cast<size_t>(row / panel_rows) * m.packed.layout.bytes;
            for (int64_t b = 0; b < 512 / n_values; ++b) {
                unpack_block(type, m.packed.layout, panel, row % panel_rows, b, block.data());
                const size_t at =
                    static_cast<size_t>(row) * ggml_row_size(type, 512) + static_cast<size_t>(b) * block_size;
                CHECK(std::memcmp(block.data(), m.gguf.data() + at, block_size) == 0);
            }
        }
    }
    // Whole panels of real widths: at most 3 % more than in the file.
    CHECK(static_cast<double>(packed_bytes(type, 1536, 256)) <=
          1.03 * static_cast<double>(ggml_row_size(type, 1536)) * 256);
}

void multiplies(ggml_type type, const TileSet & set) {
    constexpr int64_t columns = 33;
    const bool small          = ggml_blck_size(type) == 32;
    const std::vector<int64_t> widths =
        small ? std::vector<int64_t>{32, 64, 96, 576, 1536} : std::vector<int64_t>{256, 768, 1536};
    for (const int64_t n_in : widths) {
        Matrix m(type, n_in, n_in == 576 ? 100 : 17, set, static_cast<unsigned>(n_in));
        const std::vector<float> x     = random_values(static_cast<size_t>(n_in * columns), 77, 3.0f);
        const std::vector<float> whole = compute({&m}, x, columns, {});
        // Both round activations to 8 bits; ours, in blocks of 32, must not be worse than ggml's by more than chance.
        const double ours = error_of(whole, m, x, columns);
        CHECK(ours <= 1.1 * error_of(compute({&m}, x, columns, {1, true}), m, x, columns) + 1e-6);
        CHECK(ours > 0.0);
        for (int64_t width = 1; width <= columns; width += check::sanitized ? 4 : 1) {
            for (const int n_threads : {1, 2, 3}) {
                if (check::sanitized && n_threads != 2) {
                    continue;
                }
                const int64_t first = (columns - width) / 2;
                const std::vector<float> some(x.begin() + first * n_in, x.begin() + (first + width) * n_in);
                CHECK(same(compute({&m}, some, width, {n_threads}), whole.data() + first * m.n_out));
            }
        }
        if (std::strcmp(set.name, "portable") != 0) { // all sets with fused additions give the same bits
            Matrix other(type, n_in, m.n_out, *available_tile_sets().front(), static_cast<unsigned>(n_in));
            CHECK(same(compute({&other}, x, columns, {}), whole.data()));
        }
    }
}

void shares_inputs(const TileSet & set) {
    Matrix q(GGML_TYPE_Q4_K, 768, 40, set, 1);
    Matrix k(GGML_TYPE_Q8_0, 768, 16, set, 2);
    Matrix v(GGML_TYPE_Q6_K, 768, 7, set, 3);
    for (const int64_t columns : {1, 2, 9, 40}) { // quantised by each thread, and by a node of their own
        const std::vector<float> x     = random_values(static_cast<size_t>(768 * columns), 9, 2.0f);
        const std::vector<float> fused = compute({&q, &k, &v}, x, columns, {2, false, true, true});
        int64_t row                    = 0;
        for (Matrix * m : {&q, &k, &v}) {
            const std::vector<float> alone = compute({m}, x, columns, {1});
            for (int64_t c = 0; c < columns; ++c) {
                for (int64_t r = 0; r < m->n_out; ++r) {
                    const float bias   = static_cast<float>(r % 7) - 3.0f;
                    const float addend = static_cast<float>((c * 63 + row + r) % 31) * 0.25f;
                    const float want   = alone[static_cast<size_t>(c * m->n_out + r)] + bias + addend;
                    CHECK(fused[static_cast<size_t>(c * 63 + row + r)] == want);
                }
            }
            row += m->n_out;
        }
    }
}

void looks_rows_up(ggml_type type, const TileSet & set) {
    const Matrix m(type, 512, 37, set, 11);
    const std::vector<int32_t> ids = {36, 0, 15, 16, 16, 31, 5};
    static std::vector<uint8_t> arena(4u << 20);
    ggml_context * ctx  = ggml_init({arena.size(), arena.data(), false});
    ggml_tensor * table = ggml_new_tensor_2d(ctx, type, 512, 37);
    table->extra        = const_cast<PackedMatrix *>(&m.packed);
    ggml_tensor * index = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, static_cast<int64_t>(ids.size()));
    std::memcpy(index->data, ids.data(), ids.size() * sizeof(int32_t));
    ggml_tensor * y     = packed_rows(ctx, table, index);
    ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    CHECK(ggml_graph_compute_with_ctx(ctx, graph, 2) == GGML_STATUS_SUCCESS);
    for (size_t i = 0; i < ids.size(); ++i) {
        CHECK(std::memcmp(static_cast<const float *>(y->data) + 512 * i, m.floats.data() + 512 * ids[i],
                          512 * sizeof(float)) == 0);
    }
    ggml_free(ctx);
}

void odd_values() {
    // Zeros, values at the edge of the range, and values that are no numbers: those must show in the result.
    std::vector<float> x(4 * 64, 0.0f);
    x[64]      = 1e30f;
    x[128]     = 1e-38f; // 127 / x overflows
    x[192 + 5] = NAN;
    for (const TileSet * set : available_tile_sets()) {
        Matrix m(GGML_TYPE_Q4_1, 64, 3, *set, 4);
        const std::vector<float> y = compute({&m}, x, 4, {});
        for (size_t i = 0; i < 3; ++i) {
            CHECK(y[i] == 0.0f);
            CHECK(std::isfinite(y[3 + i]) && y[3 + i] != 0.0f);
            CHECK(std::fabs(y[6 + i]) < 1e-30f);
            CHECK(std::isnan(y[9 + i]));
        }
    }
    const std::vector<float> infinities(256, INFINITY);
    for (const ggml_type type : {GGML_TYPE_Q8_0, GGML_TYPE_Q6_K}) {
        Matrix m(type, 256, 3, *available_tile_sets().front(), 4);
        for (const float y : compute({&m}, infinities, 1, {})) {
            CHECK(!std::isfinite(y));
        }
    }
    ActivationBlock block;
    std::vector<float> ties(32, 0.0f);
    ties[0] = 127.0f;
    ties[1] = 2.5f;
    ties[2] = 3.5f;
    ties[3] = -2.5f;
    quantise_row(ties.data(), 32, &block);
    CHECK(block.scale == 1.0f && block.q[0] == 127 && block.q[1] == 2 && block.q[2] == 4 && block.q[3] == -2);
    CHECK(block.half_sum[0] == 131 && block.half_sum[1] == 0 && block.sum == 131.0f);
}

void forced_sets() {
    CHECK(&find_tile_set("") == available_tile_sets().front());
    CHECK(&find_tile_set("portable") == &portable_tiles);
    bool refused = false;
    try {
        find_tile_set("mmx");
    } catch (const Error & error) {
        refused = error.status() == PYSPEC_OPTION && std::string(error.what()).find("portable") != std::string::npos;
    }
    CHECK(refused);
}

} // namespace

int main() {
    ggml_cpu_init();
    forced_sets();
    odd_values();
    for (const TileSet * set : available_tile_sets()) {
        std::printf("%s\n", set->name);
        for (const ggml_type type : types) {
            keeps_every_bit(type, *set);
            looks_rows_up(type, *set);
            multiplies(type, *set);
        }
        shares_inputs(*set);
    }
    return check_report();
}
