// Products of quantised weights: against a double-precision reference, and bit-equal for every width and thread count.
#include "check.h"

#include "kernels/activation_rows.h"
#include "kernels/product.h"

#include "ggml-cpu.h"
#include "ggml.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

using namespace pyspec;

namespace {

std::vector<float> random_values(size_t n, unsigned seed, float scale) {
    std::mt19937 generator(seed);
    std::vector<float> values(n);
    for (float & value : values) {
        // Not std::normal_distribution: its numbers differ between libraries. A sum of uniforms is near enough.
        float sum = 0.0f;
        for (int i = 0; i < 4; ++i) {
            sum += static_cast<float>(generator()) / 4294967296.0f - 0.5f;
        }
        value = scale * sum;
    }
    return values;
}

struct Case {
    ggml_type type;
    int64_t in;
    int64_t out;
};

struct Data {
    std::vector<uint8_t> weights;   // quantised rows
    std::vector<float> dequantised; // the same as floats
    std::vector<float> x;           // {in, columns}
};

Data make_data(const Case & c, int64_t columns) {
    Data data;
    const std::vector<float> raw =
        random_values(static_cast<size_t>(c.in * c.out), 1 + static_cast<unsigned>(c.in), 0.2f);
    data.weights.resize(ggml_row_size(c.type, c.in) * static_cast<size_t>(c.out));
    ggml_quantize_chunk(c.type, raw.data(), data.weights.data(), 0, c.out, c.in, nullptr);
    data.dequantised.resize(raw.size());
    ggml_get_type_traits(c.type)->to_float(data.weights.data(), data.dequantised.data(), c.in * c.out);
    data.x = random_values(static_cast<size_t>(c.in * columns), 77, 3.0f);
    return data;
}

// {out, columns} through a graph; ours or ggml's product.
std::vector<float> compute(const Case & c, Data & data, int64_t first, int64_t columns, int n_threads, bool ours) {
    static std::vector<uint8_t> arena(8u << 20);
    ggml_context * ctx = ggml_init({arena.size(), arena.data(), false});
    ggml_tensor * w    = ggml_new_tensor_2d(ctx, c.type, c.in, c.out);
    ggml_tensor * x    = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, c.in, columns);
    std::memcpy(w->data, data.weights.data(), data.weights.size());
    std::memcpy(x->data, data.x.data() + first * c.in, static_cast<size_t>(columns * c.in) * sizeof(float));
    const ActivationKind kind = activation_kind(w);
    ggml_tensor * y           = ours ? quantised_product(ctx, w, quantise_rows(ctx, x, kind)) : ggml_mul_mat(ctx, w, x);
    ggml_cgraph * graph       = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    CHECK(ggml_graph_compute_with_ctx(ctx, graph, n_threads) == GGML_STATUS_SUCCESS);
    std::vector<float> out(static_cast<size_t>(c.out * columns));
    std::memcpy(out.data(), y->data, out.size() * sizeof(float));
    ggml_free(ctx);
    return out;
}

// Root mean square error relative to the root mean square of the exact result.
double error_of(const std::vector<float> & got, const Case & c, const Data & data, int64_t columns) {
    double wrong = 0.0;
    double whole = 0.0;
    for (int64_t column = 0; column < columns; ++column) {
        for (int64_t row = 0; row < c.out; ++row) {
            double exact = 0.0;
            for (int64_t i = 0; i < c.in; ++i) {
                exact += static_cast<double>(data.dequantised[static_cast<size_t>(row * c.in + i)]) *
                         static_cast<double>(data.x[static_cast<size_t>(column * c.in + i)]);
            }
            const double difference = got[static_cast<size_t>(column * c.out + row)] - exact;
            wrong += difference * difference;
            whole += exact * exact;
        }
    }
    return std::sqrt(wrong / whole);
}

void check_case(const Case & c) {
    constexpr int64_t columns = 33;
    Data data                 = make_data(c, columns);

    const std::vector<float> whole = compute(c, data, 0, columns, 1, true);
    const double ours              = error_of(whole, c, data, columns);
    const double theirs            = error_of(compute(c, data, 0, columns, 1, false), c, data, columns);
    // Both round activations to 8 bits; ours must not be worse than ggml's by more than chance.
    CHECK(ours <= 1.1 * theirs + 1e-6);
    CHECK(ours > 0.0);

    for (int64_t width = 1; width <= columns; ++width) {
        for (const int n_threads : {1, 2, 3}) {
            const int64_t first           = (columns - width) / 2;
            const std::vector<float> part = compute(c, data, first, width, n_threads, true);
            CHECK(std::memcmp(part.data(), whole.data() + first * c.out, part.size() * sizeof(float)) == 0);
        }
    }
}

void odd_values() {
    // A row of zeros, a row with one huge value and the extremes of the byte range.
    const Case c{GGML_TYPE_Q4_1, 64, 3};
    Data data = make_data(c, 2);
    std::vector<float> x(128, 0.0f);
    x[64]                      = 1e30f;
    data.x                     = x;
    const std::vector<float> y = compute(c, data, 0, 2, 1, true);
    for (int i = 0; i < 3; ++i) {
        CHECK(y[static_cast<size_t>(i)] == 0.0f);
        CHECK(std::isfinite(y[static_cast<size_t>(3 + i)]));
    }
}

} // namespace

int main() {
    ggml_cpu_init();
    bool any = false;
    for (const ggml_type type : {GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q8_0}) {
        std::vector<uint8_t> arena(1u << 16);
        ggml_context * ctx = ggml_init({arena.size(), arena.data(), true});
        const bool known   = activation_kind(ggml_new_tensor_2d(ctx, type, 64, 1)) == ActivationKind::blocks32;
        ggml_free(ctx);
        if (known) {
            any = true;
            for (const int64_t in : {32, 64, 96, 576, 1536}) { // one block, pairs, an odd number, real widths
                check_case({type, in, in == 576 ? 100 : 17});
            }
        }
    }
    for (const ggml_type type : {GGML_TYPE_Q4_K, GGML_TYPE_Q6_K}) {
        std::vector<uint8_t> arena(1u << 16);
        ggml_context * ctx = ggml_init({arena.size(), arena.data(), true});
        const bool known   = activation_kind(ggml_new_tensor_2d(ctx, type, 256, 1)) == ActivationKind::blocks256;
        ggml_free(ctx);
        if (known) {
            any = true;
            for (const int64_t in : {256, 768, 1536}) {
                check_case({type, in, 19});
            }
        }
    }
    if (any) {
        odd_values();
    } else {
        CHECK(!any);
        std::puts("this build has no kernels of its own; ggml computes all products");
    }
    return check_report();
}
