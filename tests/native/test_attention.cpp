// Attention over the cache: right for every cache type and instruction set, and a query's bits depend neither on the
// queries beside it, nor on threads, nor on what lies in cells it may not see.
#include "check.h"
#include "kernel_fixtures.h"

#include "kernels/attention.h"
#include "kernels/instruction_set.h"

#include "ggml-cpu.h"
#include "ggml.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace pyspec;

namespace {

struct Shape {
    int32_t dim_k;
    int32_t dim_v;
    int32_t n_head;
    int32_t n_head_kv;
    float softcap;
    int32_t window; // 0: none
    bool sinks = false;
};

float sink_of(int32_t head) {
    return 2.0f - 1.5f * static_cast<float>(head);
}

constexpr int32_t n_cells = 1024;

std::vector<float> random_values(size_t n, unsigned seed, float scale) {
    std::mt19937 generator(seed);
    std::vector<float> values(n);
    for (float & v : values) {
        v = (static_cast<float>(generator() >> 8) / 16777216.0f - 0.5f) * scale;
    }
    return values;
}

// The cache in one of its types, and what its bits mean in floats.
struct Cache {
    ggml_type type;
    size_t width;
    std::vector<uint8_t> bytes;
    std::vector<float> floats;

    Cache(ggml_type type_, size_t width_, unsigned seed) : type(type_), width(width_) {
        const std::vector<float> raw = random_values(width * n_cells, seed, 3.0f);
        floats.resize(raw.size());
        bytes.resize(ggml_row_size(type, static_cast<int64_t>(raw.size())));
        if (type == GGML_TYPE_F32) {
            std::memcpy(bytes.data(), raw.data(), bytes.size());
            floats = raw;
        } else {
            ggml_quantize_chunk(type, raw.data(), bytes.data(), 0, n_cells, static_cast<int64_t>(width), nullptr);
            ggml_get_type_traits(type)->to_float(bytes.data(), floats.data(), static_cast<int64_t>(raw.size()));
        }
    }
    // Cells first .. last - 1 hold bytes that are no number.
    void spoil(int32_t first, int32_t last) {
        const size_t cell = ggml_row_size(type, static_cast<int64_t>(width));
        std::memset(bytes.data() + static_cast<size_t>(first) * cell, 0xff, static_cast<size_t>(last - first) * cell);
    }
};

struct Data {
    Shape shape;
    Cache k;
    Cache v;
    std::vector<float> q; // {dim_k, n_head, n_cells}: one query for every cell

    Data(const Shape & s, ggml_type type_k, ggml_type type_v)
        : shape(s), k(type_k, static_cast<size_t>(s.dim_k * s.n_head_kv), 1),
          v(type_v, static_cast<size_t>(s.dim_v * s.n_head_kv), 2),
          q(random_values(static_cast<size_t>(s.dim_k * s.n_head) * n_cells, 3, 4.0f)) {}

    int32_t first_of(int32_t i) const { return shape.window > 0 && i >= shape.window ? i - shape.window + 1 : 0; }
    float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape.dim_k)); }
};

// Queries of cells first .. first + n - 1; the graph looks at n_seen cells.
std::vector<float> compute(Data & d, const TileSet & set, int32_t first, int32_t n, int32_t n_seen, int n_threads) {
    static std::vector<uint8_t> arena(96u << 20);
    ggml_context * ctx = ggml_init({arena.size(), arena.data(), false});
    const Shape & s    = d.shape;
    AttentionPlan plan{&run_with(n_threads), set.attention, s.dim_k,   s.dim_v,   s.n_head,
                       s.n_head_kv,          n_seen,        d.scale(), s.softcap, s.sinks};
    ggml_tensor * q       = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, s.dim_k, s.n_head, n);
    ggml_tensor * k       = ggml_new_tensor_2d(ctx, d.k.type, static_cast<int64_t>(d.k.width), n_cells);
    ggml_tensor * v       = ggml_new_tensor_2d(ctx, d.v.type, static_cast<int64_t>(d.v.width), n_cells);
    ggml_tensor * visible = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, 2, n);
    const size_t row      = static_cast<size_t>(s.dim_k * s.n_head);
    std::memcpy(q->data, d.q.data() + row * static_cast<size_t>(first), row * static_cast<size_t>(n) * sizeof(float));
    std::memcpy(k->data, d.k.bytes.data(), d.k.bytes.size());
    std::memcpy(v->data, d.v.bytes.data(), d.v.bytes.size());
    for (int32_t i = 0; i < n; ++i) {
        static_cast<int32_t *>(visible->data)[2 * i]     = d.first_of(first + i);
        static_cast<int32_t *>(visible->data)[2 * i + 1] = first + i + 1;
    }
    ggml_tensor * scratch =
        ggml_new_tensor_1d(ctx, GGML_TYPE_I8, static_cast<int64_t>(attention_scratch_bytes(plan, n, n_threads)));
    ggml_tensor * sinks = nullptr;
    if (s.sinks) {
        sinks = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, s.n_head);
        for (int32_t h = 0; h < s.n_head; ++h) {
            static_cast<float *>(sinks->data)[h] = sink_of(h);
        }
    }
    ggml_tensor * y     = attention_node(ctx, &plan, q, k, v, visible, scratch, sinks);
    ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    CHECK(ggml_graph_compute_with_ctx(ctx, graph, 1) == GGML_STATUS_SUCCESS);
    std::vector<float> out(static_cast<size_t>(s.dim_v * s.n_head * n));
    std::memcpy(out.data(), y->data, out.size() * sizeof(float));
    ggml_free(ctx);
    return out;
}

// Largest error of query i in double precision, relative to the largest value.
double error_of(const Data & d, const float * got, int32_t i) {
    const Shape & s = d.shape;
    double worst    = 0.0;
    double largest  = 0.0;
    for (int32_t h = 0; h < s.n_head; ++h) {
        const size_t kv = static_cast<size_t>(h / (s.n_head / s.n_head_kv));
        const float * q = d.q.data() + static_cast<size_t>((i * s.n_head + h) * s.dim_k);
        std::vector<double> p;
        double sum = 0.0;
        for (int32_t j = d.first_of(i); j <= i; ++j) {
            const float * k =
                d.k.floats.data() + static_cast<size_t>(j) * d.k.width + kv * static_cast<size_t>(s.dim_k);
            double score = 0.0;
            for (int32_t x = 0; x < s.dim_k; ++x) {
                score += static_cast<double>(q[x]) * static_cast<double>(k[x]);
            }
            score *= static_cast<double>(d.scale());
            if (s.softcap != 0.0f) {
                score = static_cast<double>(s.softcap) * std::tanh(score / static_cast<double>(s.softcap));
            }
            p.push_back(std::exp(score));
            sum += p.back();
        }
        if (s.sinks) {
            sum += std::exp(static_cast<double>(sink_of(h)));
        }
        for (int32_t x = 0; x < s.dim_v; ++x) {
            double value = 0.0;
            for (int32_t j = d.first_of(i); j <= i; ++j) {
                value += p[static_cast<size_t>(j - d.first_of(i))] / sum *
                         static_cast<double>(d.v.floats[static_cast<size_t>(j) * d.v.width +
                                                        kv * static_cast<size_t>(s.dim_v) + static_cast<size_t>(x)]);
            }
            worst   = std::max(worst, std::fabs(value - static_cast<double>(got[h * s.dim_v + x])));
            largest = std::max(largest, std::fabs(value));
        }
    }
    return worst / largest;
}

void check_shape(const Shape & s, ggml_type type_k, ggml_type type_v, const TileSet & set) {
    Data d(s, type_k, type_v);
    const size_t row = static_cast<size_t>(s.dim_v * s.n_head);
    // A long prompt in one piece is the reference for every other way to cut it.
    constexpr int32_t n_all        = 700;
    const std::vector<float> whole = compute(d, set, 0, n_all, 768, 1);
    for (const int32_t i : {0, 1, 63, 64, 255, 256, 300, n_all - 1}) {
        CHECK(error_of(d, whole.data() + row * static_cast<size_t>(i), i) < 2e-6);
    }
    const auto same = [&](const std::vector<float> & part, int32_t first) {
        return std::memcmp(part.data(), whole.data() + row * static_cast<size_t>(first), part.size() * sizeof(float)) ==
               0;
    };
    for (const int32_t first : {0, 40, 200, 250, 500, 511, 640}) {
        for (const int32_t n : {1, 2, 3, 5, 8, 17, 33, 60}) {
            if (check::sanitized && (n + first / 10) % 3 != 0) {
                continue;
            }
            const int32_t n_seen = (first + n + 255) / 256 * 256;
            // Later cells and cells that left the window: whatever lies there.
            Data spoiled = d;
            spoiled.k.spoil(first + n, n_cells);
            spoiled.v.spoil(first + n, n_cells);
            spoiled.k.spoil(0, d.first_of(first));
            spoiled.v.spoil(0, d.first_of(first));
            CHECK(same(compute(spoiled, set, first, n, n_seen, 1 + n % 3), first));
            CHECK(same(compute(d, set, first, n, n_cells, 2), first)); // a larger context
        }
    }
}

} // namespace

int main() {
    ggml_cpu_init();
    const Shape shapes[] = {
        {64, 64, 9, 3, 0.0f, 0},  {128, 128, 12, 2, 0.0f, 0},      {256, 256, 4, 1, 0.0f, 96},
        {32, 48, 4, 4, 0.0f, 0},  {20, 24, 2, 1, 15.0f, 300},      {64, 64, 2, 2, 30.0f, 0},
        {16, 16, 80, 1, 0.0f, 0}, {64, 64, 8, 2, 0.0f, 128, true},
    };
    for (const TileSet * set : available_tile_sets()) {
        std::printf("%s\n", set->name);
        const bool all = set == available_tile_sets().front();
        for (const Shape & s : shapes) {
            if (!all && s.n_head > 9) {
                continue; // the slower sets: fewer shapes
            }
            check_shape(s, GGML_TYPE_F16, GGML_TYPE_F16, *set);
        }
        check_shape(shapes[0], GGML_TYPE_F32, GGML_TYPE_BF16, *set);
        check_shape(shapes[0], GGML_TYPE_Q8_0, GGML_TYPE_F32, *set);
        check_shape(shapes[0], GGML_TYPE_BF16, GGML_TYPE_Q8_0, *set);
        if (check::thread_sanitized) {
            break;
        }
    }
    return check_report();
}
