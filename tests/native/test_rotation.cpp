// Context shift: the frequencies that ggml's rope has, rows of the cache turned further in place, and positions that
// keep their order.
#include "check.h"

#include "graph/rope_frequencies.h"
#include "kernels/rotation.h"
#include "memory/test_memories.h"

#include "ggml-cpu.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

using namespace pyspec;

namespace {

constexpr ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0};

std::vector<float> random_values(size_t n, unsigned seed) {
    std::mt19937 generator(seed);
    std::vector<float> values(n);
    for (float & v : values) {
        v = (static_cast<float>(generator() >> 8) / 16777216.0f - 0.5f) * 3.0f;
    }
    return values;
}

std::vector<uint8_t> to_type(ggml_type type, const std::vector<float> & values) {
    const int64_t n = static_cast<int64_t>(values.size());
    std::vector<uint8_t> bytes(ggml_row_size(type, n));
    ggml_get_type_traits_cpu(type)->from_float(values.data(), bytes.data(), n);
    return bytes;
}

std::vector<float> to_floats(ggml_type type, const std::vector<uint8_t> & bytes, size_t n) {
    std::vector<float> values(n);
    if (type == GGML_TYPE_F32) {
        std::memcpy(values.data(), bytes.data(), bytes.size());
    } else {
        ggml_get_type_traits(type)->to_float(bytes.data(), values.data(), static_cast<int64_t>(n));
    }
    return values;
}

// Largest error of storing a value, heads having values up to `largest` in a block.
double rounding(ggml_type type, double largest) {
    switch (type) {
    case GGML_TYPE_F16:
        return largest / 2048;
    case GGML_TYPE_BF16:
        return largest / 256;
    case GGML_TYPE_Q8_0:
        return largest / 127 * 0.6; // half a step, and the step is a half
    default:
        return largest * 1e-6;
    }
}

// Every head against rotating its floats in double precision; what is not rotated keeps its bytes, and turning back
// gives the row again.
void check_rows(ggml_type type, int32_t head_dim, int32_t n_rot, bool adjacent) {
    constexpr int32_t n_head = 3;
    const size_t n           = static_cast<size_t>(head_dim) * n_head;
    std::vector<double> angles;
    for (int32_t i = 0; i < n_rot / 2; ++i) {
        angles.push_back(-37.0 * std::pow(0.7, i));
    }
    RowRotation r;
    r.type     = type;
    r.head_dim = head_dim;
    r.n_head   = n_head;
    r.adjacent = adjacent;
    r.table    = rotation_table(angles, adjacent);

    const std::vector<uint8_t> before = to_type(type, random_values(n, static_cast<unsigned>(head_dim + n_rot)));
    const std::vector<float> x        = to_floats(type, before, n);
    std::vector<uint8_t> bytes        = before;
    auto scratch                      = std::make_unique<float[]>(static_cast<size_t>(head_dim));
    rotate_row(r, bytes.data(), scratch.get());
    const std::vector<float> y = to_floats(type, bytes, n);

    const double allowed = rounding(type, 2.2);
    double worst         = 0;
    for (int32_t head = 0; head < n_head; ++head) {
        const size_t at = static_cast<size_t>(head) * static_cast<size_t>(head_dim);
        for (int32_t i = 0; i < n_rot / 2; ++i) {
            const size_t a = at + static_cast<size_t>(adjacent ? 2 * i : i);
            const size_t b = adjacent ? a + 1 : a + static_cast<size_t>(n_rot) / 2;
            const double c = std::cos(angles[static_cast<size_t>(i)]);
            const double s = std::sin(angles[static_cast<size_t>(i)]);
            const double u = double{x[a]} * c - double{x[b]} * s;
            const double v = double{x[a]} * s + double{x[b]} * c;
            worst          = std::max({worst, std::abs(u - double{y[a]}), std::abs(v - double{y[b]})});
        }
        const int64_t block  = ggml_blck_size(type);
        const size_t touched = ggml_row_size(type, (n_rot + block - 1) / block * block);
        const size_t from    = static_cast<size_t>(head) * ggml_row_size(type, head_dim) + touched;
        CHECK(std::memcmp(before.data() + from, bytes.data() + from, ggml_row_size(type, head_dim) - touched) == 0);
        for (size_t i = at + static_cast<size_t>(n_rot); i < at + static_cast<size_t>(head_dim); ++i) {
            worst = std::max(worst, std::abs(double{y[i]} - double{x[i]}));
        }
    }
    CHECK(worst <= allowed);
    CHECK(worst > 0.0 || n_rot == 0);

    for (double & angle : angles) {
        angle = -angle;
    }
    r.table = rotation_table(angles, adjacent);
    rotate_row(r, bytes.data(), scratch.get());
    const std::vector<float> z = to_floats(type, bytes, n);
    double back                = 0;
    for (size_t i = 0; i < n; ++i) {
        back = std::max(back, std::abs(double{z[i]} - double{x[i]}));
    }
    CHECK(back <= 3 * allowed);
}

// The rotation of unit pairs by ggml's rope, against the frequencies.
void check_frequencies(RopeParams p, const std::vector<float> & factors, double magnitude) {
    ggml_context * ctx  = ggml_init({size_t{16} << 20, nullptr, false});
    const int32_t pos[] = {1, 7, 1000};
    ggml_tensor * x     = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, p.n_rot, 1, 3);
    ggml_tensor * at    = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 3);
    std::memcpy(at->data, pos, sizeof pos);
    float * ones = static_cast<float *>(x->data);
    for (int64_t i = 0; i < ggml_nelements(x); ++i) {
        ones[i] = i % p.n_rot < p.n_rot / 2 ? 1.0f : 0.0f; // pairs of halves
    }
    if (!factors.empty()) {
        p.factors = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, p.n_rot / 2);
        std::memcpy(p.factors->data, factors.data(), factors.size() * sizeof(float));
    }
    ggml_tensor * y = ggml_rope_ext(ctx, x, at, p.factors, p.n_rot, static_cast<int>(RopePairing::halves), p.n_ctx_orig,
                                    p.freq_base, p.freq_scale, p.ext_factor, p.attn_factor, p.beta_fast, p.beta_slow);
    ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    CHECK(ggml_graph_compute_with_ctx(ctx, graph, 1) == GGML_STATUS_SUCCESS);

    const std::vector<double> frequencies = rope_frequencies(p);
    CHECK_EQ(frequencies.size(), static_cast<size_t>(p.n_rot / 2));
    const float * got = static_cast<const float *>(y->data);
    double worst      = 0;
    for (size_t token = 0; token < 3; ++token) {
        for (size_t i = 0; i < frequencies.size(); ++i) {
            const double angle = frequencies[i] * pos[token];
            const float * row  = got + token * static_cast<size_t>(p.n_rot);
            worst              = std::max(worst, std::abs(std::cos(angle) * magnitude - double{row[i]}));
            worst = std::max(worst, std::abs(std::sin(angle) * magnitude - double{row[frequencies.size() + i]}));
        }
    }
    CHECK(worst < 3e-4); // angles of 1000 in single precision
    ggml_free(ctx);
}

void check_all_frequencies() {
    RopeParams p;
    p.n_rot      = 64;
    p.n_ctx_orig = 512;
    check_frequencies(p, {}, 1.0);
    p.freq_base  = 1e6f;
    p.freq_scale = 0.25f;
    check_frequencies(p, {}, 1.0);
    std::vector<float> factors;
    for (int i = 0; i < 32; ++i) {
        factors.push_back(1.0f + 0.2f * static_cast<float>(i));
    }
    p.attn_factor = 1.19f;
    check_frequencies(p, factors, 1.19);
    p.ext_factor = 1.0f;
    check_frequencies(p, {}, 1.19 * (1.0 + 0.1 * std::log(4.0)));
    check_frequencies(p, factors, 1.19 * (1.0 + 0.1 * std::log(4.0)));
}

template <typename Cache> std::unique_ptr<Cache> make_cache(const std::vector<int32_t> & positions) {
    auto cache = std::make_unique<Cache>(KvLayout{1, 256, GGML_TYPE_F16, GGML_TYPE_F16, {32}, {32}});
    cache->allocate();
    cache->append(positions.data(), static_cast<int32_t>(positions.size()));
    return cache;
}

void check_positions() {
    const std::vector<int32_t> start = {0, 1, 2, 10, 11, 20};
    const auto cache                 = make_cache<KvCache>(start);
    const auto is                    = [&](int32_t p0, int32_t p1, int32_t delta, Move expected) {
        CHECK(cache->check_move(p0, p1, delta) == expected);
    };
    is(10, 12, -7, Move::possible);   // next to 2
    is(10, 12, -8, Move::disordered); // onto 2
    is(10, 12, 8, Move::possible);    // next to 20
    is(10, 12, 9, Move::disordered);  // onto 20
    is(0, 3, -1, Move::disordered);   // below 0
    is(0, 3, 7, Move::possible);
    is(0, 3, 8, Move::disordered);
    is(20, INT32_MAX, INT32_MAX - 21, Move::possible);
    is(20, INT32_MAX, INT32_MAX - 20, Move::disordered);
    is(20, INT32_MAX, INT32_MIN, Move::disordered);
    is(0, INT32_MAX, INT32_MAX, Move::disordered);
    is(3, 10, -100, Move::possible); // nobody is there
    is(12, 5, -100, Move::possible);
    CHECK(cache->positions() == start);

    const KvCache::Cells cells = cache->cells(10, 12);
    CHECK_EQ(cells.first, 3);
    CHECK_EQ(cells.last, 5);
    cache->move(cells.first, cells.last, -7);
    CHECK(cache->positions() == std::vector<int32_t>({0, 1, 2, 3, 4, 20}));

    CHECK(make_cache<FullRemovalOnlyCache>({0, 1})->check_move(1, 2, 5) == Move::unsupported);
    CHECK(make_cache<NoRemovalCache>({0, 1})->check_move(1, 2, 5) == Move::unsupported);
}

} // namespace

int main() {
    ggml_cpu_init();
    for (const ggml_type type : types) {
        for (const bool adjacent : {false, true}) {
            for (const int32_t head_dim : {32, 64, 96, 128}) {
                for (const int32_t n_rot : {head_dim, head_dim / 2, 24, 2}) {
                    check_rows(type, head_dim, n_rot, adjacent);
                }
            }
        }
    }
    check_all_frequencies();
    check_positions();
    return check_report();
}
