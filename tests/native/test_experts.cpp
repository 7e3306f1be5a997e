// Mixture-of-experts nodes: right for packed and unpacked stacks, and a pair's bits do not depend on the others.
#include "check.h"
#include "kernel_fixtures.h"

#include "kernels/experts.h"
#include "kernels/instruction_set.h"
#include "kernels/packed_matrix.h"

#include "ggml-cpu.h"
#include "ggml.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

using namespace pyspec;

namespace {

constexpr int32_t n_expert = 5;
constexpr int32_t n_used   = 2;
constexpr int64_t n_in     = 256;
constexpr int64_t n_out    = 37; // not whole panels

std::vector<float> random_values(size_t n, unsigned seed) {
    std::mt19937 generator(seed);
    std::vector<float> values(n);
    for (float & v : values) {
        v = static_cast<float>(generator() >> 8) / 8388608.0f - 1.0f;
    }
    return values;
}

struct Stack {
    ggml_type type;
    std::vector<uint8_t> gguf;
    std::vector<float> floats;
    std::vector<uint8_t> space;
    PackedMatrix packed;

    Stack(ggml_type type_, int64_t in, int64_t out, const TileSet & set, unsigned seed)
        : type(type_), packed(is_packable(type_, in) ? type_ : GGML_TYPE_Q8_0, in, out, n_expert, set) {
        const std::vector<float> raw = random_values(static_cast<size_t>(in * out * n_expert), seed);
        const size_t row             = ggml_row_size(type, in);
        gguf.resize(row * static_cast<size_t>(out * n_expert));
        ggml_quantize_chunk(type, raw.data(), gguf.data(), 0, out * n_expert, in, nullptr);
        floats.resize(raw.size());
        if (type == GGML_TYPE_F32) {
            floats = raw;
        } else {
            ggml_get_type_traits(type)->to_float(gguf.data(), floats.data(), in * out * n_expert);
        }
        if (!is_packable(type, in)) {
            return;
        }
        space.assign(packed.bytes() + 64, 0);
        uint8_t * data = space.data();
        while (reinterpret_cast<uintptr_t>(data) % 64 != 0) {
            ++data;
        }
        packed.data = data;
        for (int64_t e = 0; e < n_expert; ++e) {
            for (int64_t panel = 0; panel < n_panels(out); ++panel) {
                const int64_t first = panel * panel_rows;
                pack_panel(type, in, gguf.data() + static_cast<size_t>(e * out + first) * row,
                           std::min(panel_rows, out - first),
                           const_cast<uint8_t *>(packed.matrix(e)) + static_cast<size_t>(panel) * packed.layout.bytes);
            }
        }
    }
    ggml_tensor * tensor(ggml_context * ctx, int64_t in, int64_t out, bool use_packed) {
        ggml_tensor * t = ggml_new_tensor_3d(ctx, type, in, out, n_expert);
        std::memcpy(t->data, gguf.data(), gguf.size());
        t->extra = use_packed ? &packed : nullptr;
        return t;
    }
};

// Which expert a token has at a rank: different ones, and expert 3 for nobody.
int32_t chosen(int64_t token, int32_t rank) {
    const int32_t usable[] = {0, 1, 2, 4};
    return usable[(token * 3 + rank * (1 + token % 3)) % 4];
}
float share_of(int64_t token, int32_t rank) {
    return 0.25f + 0.1f * static_cast<float>(rank) + 0.01f * static_cast<float>(token % 7);
}

// Sum over the ranks of share * (second product of (gate product + up product)); tokens first .. first + n - 1.
std::vector<float> compute(Stack & gate, Stack & up, Stack & down, const std::vector<float> & x, int64_t first,
                           int64_t n, bool packed, int n_threads) {
    static std::vector<uint8_t> arena(32u << 20);
    ggml_context * ctx  = ggml_init({arena.size(), arena.data(), false});
    ggml_tensor * input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n_in, n);
    std::memcpy(input->data, x.data() + first * n_in, static_cast<size_t>(n * n_in) * sizeof(float));
    ggml_tensor * ids    = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, n_used, n);
    ggml_tensor * shares = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n_used, n);
    for (int64_t t = 0; t < n; ++t) {
        for (int32_t r = 0; r < n_used; ++r) {
            static_cast<int32_t *>(ids->data)[t * n_used + r]  = chosen(first + t, r);
            static_cast<float *>(shares->data)[t * n_used + r] = share_of(first + t, r);
        }
    }
    ggml_tensor * stacks[] = {gate.tensor(ctx, n_in, n_out, packed), up.tensor(ctx, n_in, n_out, packed)};
    ggml_tensor * last[]   = {down.tensor(ctx, n_in, n_out, packed)};
    ExpertPlan two{&run_with(n_threads), n_expert, n_used, 2, false};
    ExpertPlan one{&run_with(n_threads), n_expert, n_used, 1, true};
    const size_t bytes =
        std::max<size_t>(1, std::max(expert_scratch_bytes(two, stacks[0], n), expert_scratch_bytes(one, last[0], n)));
    ggml_tensor * scratch = ggml_new_tensor_1d(ctx, GGML_TYPE_I8, static_cast<int64_t>(bytes));
    ggml_tensor * order   = expert_order_node(ctx, &two, ids);
    ggml_tensor * both    = expert_product_node(ctx, &two, stacks, input, order, scratch);
    // Something of the right width that depends on both halves: what stands in for a gate.
    ggml_tensor * middle = ggml_repeat_4d(ctx, ggml_sum_rows(ctx, both), n_in, both->ne[1], 1, 1);
    middle               = ggml_scale(ctx, middle, 0.01f);
    ggml_tensor * y      = expert_product_node(ctx, &one, last, middle, order, scratch);
    ggml_tensor * sum    = expert_sum_node(ctx, &two, y, order, shares);
    ggml_cgraph * graph  = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, sum);
    CHECK(ggml_graph_compute_with_ctx(ctx, graph, 1) == GGML_STATUS_SUCCESS);
    std::vector<float> out(static_cast<size_t>(n * n_out));
    std::memcpy(out.data(), sum->data, out.size() * sizeof(float));
    ggml_free(ctx);
    return out;
}

std::vector<double> reference(const Stack & gate, const Stack & up, const Stack & down, const std::vector<float> & x,
                              int64_t token) {
    std::vector<double> result(n_out, 0.0);
    for (int32_t r = 0; r < n_used; ++r) {
        const size_t at = static_cast<size_t>(chosen(token, r)) * n_in * n_out;
        double middle   = 0.0;
        for (const Stack * s : {&gate, &up}) {
            for (int64_t i = 0; i < n_in * n_out; ++i) {
                middle += static_cast<double>(s->floats[at + static_cast<size_t>(i)]) *
                          static_cast<double>(x[static_cast<size_t>(token * n_in + i % n_in)]);
            }
        }
        for (int64_t row = 0; row < n_out; ++row) {
            double value = 0.0;
            for (int64_t i = 0; i < n_in; ++i) {
                value += static_cast<double>(down.floats[at + static_cast<size_t>(row * n_in + i)]) * 0.01 * middle;
            }
            result[static_cast<size_t>(row)] += static_cast<double>(share_of(token, r)) * value;
        }
    }
    return result;
}

void check_types(ggml_type a, ggml_type b, const TileSet & set) {
    Stack gate(a, n_in, n_out, set, 1);
    Stack up(a, n_in, n_out, set, 2);
    Stack down(b, n_in, n_out, set, 3);
    constexpr int64_t n_all    = 29;
    const std::vector<float> x = random_values(static_cast<size_t>(n_all * n_in), 4);
    const bool can_pack        = is_packable(a, n_in) && is_packable(b, n_in);
    for (const bool packed : {false, true}) {
        if (packed && !can_pack) {
            continue;
        }
        const std::vector<float> whole = compute(gate, up, down, x, 0, n_all, packed, 1);
        double error                   = 0.0;
        double size                    = 0.0;
        for (int64_t t = 0; t < n_all; ++t) {
            const std::vector<double> exact = reference(gate, up, down, x, t);
            for (int64_t i = 0; i < n_out; ++i) {
                const double d =
                    exact[static_cast<size_t>(i)] - static_cast<double>(whole[static_cast<size_t>(t * n_out + i)]);
                error += d * d;
                size += exact[static_cast<size_t>(i)] * exact[static_cast<size_t>(i)];
            }
        }
        CHECK(std::sqrt(error / size) < 0.03); // 8-bit activations, twice
        for (const int64_t first : {0, 3, 11}) {
            for (const int64_t n : {1, 2, 5, 17}) {
                for (const int n_threads : {1, 2, 3}) {
                    const std::vector<float> part = compute(gate, up, down, x, first, n, packed, n_threads);
                    CHECK(std::memcmp(part.data(), whole.data() + first * n_out, part.size() * sizeof(float)) == 0);
                }
            }
        }
    }
}

} // namespace

int main() {
    ggml_cpu_init();
    for (const TileSet * set : available_tile_sets()) {
        check_types(GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, *set);
        check_types(GGML_TYPE_Q8_0, GGML_TYPE_Q5_1, *set);
        check_types(GGML_TYPE_F16, GGML_TYPE_F32, *set);
    }
    check_types(GGML_TYPE_IQ4_NL, GGML_TYPE_IQ4_XS, *available_tile_sets().front());
    return check_report();
}
