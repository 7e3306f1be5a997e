// Packed weights: the packed form keeps every bit, products are right for every type and instruction set, and their
// bits depend neither on the number of columns nor of threads nor on the set.
#include "check.h"
#include "kernel_fixtures.h"

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

constexpr ggml_type quantised_types[] = {GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1,
                                         GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};
constexpr ggml_type float_types[]     = {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_F32};

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

std::vector<uint8_t> random_rows(ggml_type type, int64_t n_in, int64_t n_out, unsigned seed) {
    const std::vector<float> raw = random_values(static_cast<size_t>(n_in * n_out), seed, 0.2f);
    std::vector<uint8_t> rows(ggml_row_size(type, n_in) * static_cast<size_t>(n_out));
    ggml_quantize_chunk(type, raw.data(), rows.data(), 0, n_out, n_in, nullptr);
    return rows;
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
        : Matrix(type_, n_in_, n_out_, set, random_rows(type_, n_in_, n_out_, seed)) {}

    Matrix(ggml_type type_, int64_t n_in_, int64_t n_out_, const TileSet & set, std::vector<uint8_t> rows)
        : type(type_), n_in(n_in_), n_out(n_out_), gguf(std::move(rows)), floats(static_cast<size_t>(n_in * n_out)),
          packed(type_, n_in_, n_out_, 1, set) {
        if (type == GGML_TYPE_F32) {
            std::memcpy(floats.data(), gguf.data(), gguf.size());
        } else {
            ggml_get_type_traits(type)->to_float(gguf.data(), floats.data(), n_in * n_out);
        }
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
    ProductPlan plan;
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
        KernelRun & run       = run_with(options.n_threads);
        plan                  = product_plan(&run, weights.data(), static_cast<int>(weights.size()), addend != nullptr);
        const size_t bytes    = std::max<size_t>(1, product_scratch_bytes(weights.data(), plan.n_weights, columns));
        ggml_tensor * scratch = ggml_new_tensor_1d(ctx, GGML_TYPE_I8, static_cast<int64_t>(bytes));
        results.push_back(product_node(ctx, &plan, weights.data(), input, addend, scratch));
    }
    for (ggml_tensor * y : results) {
        ggml_build_forward_expand(graph, y);
    }
    CHECK(ggml_graph_compute_with_ctx(ctx, graph, 1) == GGML_STATUS_SUCCESS);
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
        CHECK(m.packed.layout.bytes % 64 == 0);
        const int64_t n_values  = block_values(type);
        const size_t block_size = ggml_row_size(type, n_values);
        std::vector<uint8_t> block(max_gguf_block);
        const std::vector<uint8_t> nothing(max_gguf_block, 0);
        for (int64_t row = 0; row < n_panels(n_out) * panel_rows; ++row) {
            const uint8_t * panel = m.packed.data + static_cast<size_t>(row / panel_rows) * m.packed.layout.bytes;
            for (int64_t b = 0; b < 512 / n_values; ++b) {
                unpack_block(type, m.packed.layout, panel, row % panel_rows, b, block.data());
                const size_t at =
                    static_cast<size_t>(row) * ggml_row_size(type, 512) + static_cast<size_t>(b) * block_size;
                const uint8_t * want = row < n_out ? m.gguf.data() + at : nothing.data();
                CHECK(std::memcmp(block.data(), want, block_size) == 0);
            }
        }
    }
    // Whole panels of real widths: at most 3 % more than in the file.
    CHECK(static_cast<double>(packed_bytes(type, 1536, 256)) <=
          1.03 * static_cast<double>(ggml_row_size(type, 1536)) * 256);
}

// Floats, element by element: in the order that panel_tile.h promises.
void keeps_order(const Matrix & m, bool fused, const std::vector<float> & x, int64_t columns,
                 const std::vector<float> & got) {
    const auto add = [&](float a, float b, float s) { return fused ? std::fma(a, b, s) : a * b + s; };
    bool right     = true;
    for (int64_t column = 0; column < columns; ++column) {
        for (int64_t row = 0; row < m.n_out; ++row) {
            const float * w   = m.floats.data() + row * m.n_in;
            const float * y   = x.data() + column * m.n_in;
            float sum         = 0.0f;
            float excess      = 0.0f;
            const int64_t run = m.type == GGML_TYPE_F32 ? 8 : 32;
            for (int64_t first = 0; first < m.n_in; first += run) {
                float part = 0.0f;
                for (int64_t i = first; i < first + run; ++i) {
                    part = add(w[i], y[i], part);
                }
                if (m.type == GGML_TYPE_F32) { // with compensation
                    part -= excess;
                    const float grown = sum + part;
                    const float lost  = (grown - sum) - part;
                    excess            = std::isfinite(lost) ? lost : 0.0f;
                    sum               = grown;
                } else {
                    sum += part;
                }
            }
            right = right && got[static_cast<size_t>(column * m.n_out + row)] == sum;
        }
    }
    CHECK(right);
}

// How far from exact results may be. Quantised: both ggml's products and ours round activations to 8 bits; ours, in
// blocks of 32, must not be worse by more than chance. F16 and BF16: ggml rounds activations to that type, we do not.
// F32: no worse than ggml's, or than one rounding and a quarter, where chance decides.
double allowed_error(const Matrix & m, double of_ggml) {
    switch (m.type) {
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
        return 0.05 * of_ggml;
    case GGML_TYPE_F32:
        return std::max(of_ggml, std::ldexp(1.25, -24));
    default:
        return 1.1 * of_ggml + 1e-6;
    }
}

void multiplies(ggml_type type, const TileSet & set) {
    constexpr int64_t columns = 33;
    const bool small          = ggml_blck_size(type) <= 32;
    const bool fused          = std::strcmp(set.name, "portable") != 0;
    const std::vector<int64_t> widths =
        small ? std::vector<int64_t>{32, 64, 96, 576, 1536} : std::vector<int64_t>{256, 768, 1536};
    for (const int64_t n_in : widths) {
        const int64_t n_out = n_in == 32 ? 1 : n_in == 64 ? 15 : n_in == 576 ? 100 : 17;
        Matrix m(type, n_in, n_out, set, static_cast<unsigned>(n_in));
        const std::vector<float> x     = random_values(static_cast<size_t>(n_in * columns), 77, 3.0f);
        const std::vector<float> whole = compute({&m}, x, columns, {});
        const double ours              = error_of(whole, m, x, columns);
        CHECK(ours <= allowed_error(m, error_of(compute({&m}, x, columns, {1, true}), m, x, columns)));
        CHECK(ours > 0.0);
        if (m.packed.takes_floats) {
            keeps_order(m, fused, x, columns, whole);
        }
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
        if (fused) { // all sets with fused additions give the same bits
            Matrix other(type, n_in, m.n_out, *available_tile_sets().front(), static_cast<unsigned>(n_in));
            CHECK(same(compute({&other}, x, columns, {}), whole.data()));
        }
    }
}

void shares_inputs(const TileSet & set, ggml_type type_q, ggml_type type_k, ggml_type type_v) {
    Matrix q(type_q, 768, 40, set, 1);
    Matrix k(type_k, 768, 16, set, 2);
    Matrix v(type_v, 768, 7, set, 3);
    for (const int64_t columns : {1, 2, 9, 40}) {
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
    ggml_tensor * y     = rows_node(ctx, &run_with(2), table, index);
    ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    CHECK(ggml_graph_compute_with_ctx(ctx, graph, 1) == GGML_STATUS_SUCCESS);
    for (size_t i = 0; i < ids.size(); ++i) {
        CHECK(std::memcmp(static_cast<const float *>(y->data) + 512 * i, m.floats.data() + 512 * ids[i],
                          512 * sizeof(float)) == 0);
    }
    ggml_free(ctx);
}

// A long row in pieces gives the bits that it gives in one go.
void goes_on(ggml_type type, const TileSet & set) {
    const Matrix m(type, 1536, 16, set, 21);
    const PanelLayout & layout = m.packed.layout;
    const size_t unit          = static_cast<size_t>(block_values(type)) / 32;
    std::vector<ActivationBlock> x(static_cast<size_t>(m.packed.max_columns) * layout.n_blocks);
    const std::vector<float> values = random_values(32 * x.size(), 22, 2.0f);
    quantise_row(values.data(), values.size(), x.data());
    for (int columns = 1; columns <= m.packed.max_columns; ++columns) {
        std::vector<float> whole(static_cast<size_t>(16 * columns), 7.0f);
        PanelTask task{};
        task.n_blocks  = layout.n_blocks;
        task.x_stride  = layout.n_blocks * sizeof(ActivationBlock);
        task.n_columns = columns;
        task.out       = whole.data();
        const auto run = [&](size_t first) {
            task.quants = m.packed.data + layout.quants_at + first * layout.quant_bytes;
            task.scales = m.packed.data + layout.scales_at + first * layout.scale_bytes;
            task.supers = m.packed.data + layout.supers_at + first / 8 * layout.super_bytes;
            task.x      = x.data() + first;
            m.packed.tile(task);
        };
        run(0);
        for (const size_t step : {1, 4, 5, 6}) {           // the last piece may be shorter
            std::vector<float> pieces(whole.size(), 9.0f); // not read by the first piece
            task.out = pieces.data();
            for (size_t first = 0; first < layout.n_blocks; first += step * unit) {
                task.n_blocks = std::min(step * unit, layout.n_blocks - first);
                task.resume   = first > 0;
                run(first);
            }
            CHECK(same(pieces, whole.data()));
        }
    }
}

bool same_number(float a, float b) {
    return a == b || (std::isnan(a) && std::isnan(b));
}

// One value in each row, zeros beside it: every value of 16 bits, and many of 32, must come out as they are.
void floats_keep_their_values(ggml_type type, const TileSet & set) {
    const size_t size         = ggml_type_size(type);
    constexpr uint32_t edge[] = {0,          0x80000000, 1,          0x807fffff, 0x00800000, 0x7f7fffff,
                                 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffffffff, 0x33800000};
    std::mt19937 generator(8);
    std::vector<uint8_t> rows(65536 * 32 * size, 0);
    std::vector<float> values(65536);
    for (uint32_t row = 0; row < 65536; ++row) {
        uint32_t bits = row;
        if (type == GGML_TYPE_F32) {
            bits = row < std::size(edge) ? edge[row] : static_cast<uint32_t>(generator());
        }
        std::memcpy(rows.data() + (row * 32 + row % 32) * size, &bits, size); // little end first
        const uint32_t as_f32 = type == GGML_TYPE_BF16 ? bits << 16 : bits;
        std::memcpy(&values[row], &as_f32, sizeof as_f32);
        if (type == GGML_TYPE_F16) { // sign, 5 bits of exponent with bias 15, 10 bits of mantissa
            const int exponent = static_cast<int>(row >> 10 & 31);
            const float digits = static_cast<float>(row & 1023);
            const float size_of =
                exponent == 31 ? (digits == 0.0f ? INFINITY : NAN)
                               : std::ldexp(exponent == 0 ? digits : 1024.0f + digits, std::max(exponent, 1) - 25);
            values[row] = row >> 15 == 1 ? -size_of : size_of;
        }
    }
    Matrix m(type, 32, 65536, set, std::move(rows));
    std::vector<float> x(64, 1.0f);
    x[37]                      = NAN;
    const std::vector<float> y = compute({&m}, x, 2, {});
    bool right                 = true;
    bool shown                 = true;
    for (size_t row = 0; row < values.size(); ++row) {
        right = right && same_number(y[row], values[row]);
        shown = shown && std::isnan(y[65536 + row]);
    }
    CHECK(right);
    CHECK(shown); // what is no number reaches its own column and no other
}

void packable() {
    for (const ggml_type type : float_types) {
        CHECK(is_packable(type, 32) && is_packable(type, 96) && !is_packable(type, 48) && !is_packable(type, 1));
    }
    CHECK(is_packable(GGML_TYPE_Q6_K, 256) && !is_packable(GGML_TYPE_Q6_K, 128));
    CHECK(!is_packable(GGML_TYPE_IQ4_NL, 256) && !is_packable(GGML_TYPE_I32, 256));
    for (const TileSet * set : available_tile_sets()) { // no more columns than the set has room for
        const PackedMatrix m(GGML_TYPE_F32, 32, 16, 1, *set);
        CHECK(m.takes_floats && m.max_columns <= set->max_columns && m.max_columns <= set->floats->max_columns);
        CHECK(!PackedMatrix(GGML_TYPE_Q4_0, 32, 16, 1, *set).takes_floats);
    }
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
    packable();
    odd_values();
    for (const TileSet * set : available_tile_sets()) {
        std::printf("%s\n", set->name);
        for (const ggml_type type : quantised_types) {
            keeps_every_bit(type, *set);
            looks_rows_up(type, *set);
            multiplies(type, *set);
            goes_on(type, *set);
        }
        for (const ggml_type type : float_types) {
            keeps_every_bit(type, *set);
            looks_rows_up(type, *set);
            multiplies(type, *set);
            floats_keep_their_values(type, *set);
        }
        shares_inputs(*set, GGML_TYPE_Q4_K, GGML_TYPE_Q8_0, GGML_TYPE_Q6_K);
        shares_inputs(*set, GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_BF16);
        shares_inputs(*set, GGML_TYPE_BF16, GGML_TYPE_Q5_1, GGML_TYPE_F32);
        shares_inputs(*set, GGML_TYPE_Q4_K, GGML_TYPE_F16, GGML_TYPE_Q8_0);
        if (check::thread_sanitized) {
            break;
        }
    }
    return check_report();
}
