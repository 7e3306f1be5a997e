#include "product.h"

#include "ggml_product.h"
#include "our_product.h"
#include "team.h"
#include "timing.h"

#include "support/error.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <random>

namespace pyspec::bench {

namespace {

// Values that stay the same everywhere, between -2 and 2 with most of them around 0.
std::vector<float> random_values(int64_t n, unsigned seed) {
    std::mt19937 generator(seed);
    std::vector<float> values(static_cast<size_t>(n));
    for (float & value : values) {
        float sum = 0.0f;
        for (int i = 0; i < 4; ++i) {
            sum += static_cast<float>(generator() >> 8) / 16777216.0f - 0.5f;
        }
        value = sum;
    }
    return values;
}

// A matrix in GGUF form. Its rows repeat after a while: the time is the same, and converting takes less of it.
std::vector<uint8_t> random_matrix(ggml_type type, int64_t n_in, int64_t n_out) {
    constexpr int64_t different  = 128;
    const int64_t n_rows         = std::min(n_out, different);
    const std::vector<float> raw = random_values(n_in * n_rows, 1);
    const size_t row             = ggml_row_size(type, n_in);
    const size_t first           = row * static_cast<size_t>(n_rows);
    std::vector<uint8_t> gguf(row * static_cast<size_t>(n_out));
    ggml_quantize_chunk(type, raw.data(), gguf.data(), 0, n_rows, n_in, nullptr);
    for (size_t at = first; at < gguf.size(); at += first) {
        std::memcpy(gguf.data() + at, gguf.data(), std::min(first, gguf.size() - at));
    }
    return gguf;
}

// Copies of one matrix, taken in turn.
class Copies {
public:
    Copies(const uint8_t * matrix, size_t bytes, size_t n)
        : stride_((bytes + 63) / 64 * 64), n_(n), space_(memory_for(stride_ * n)) {
        for (size_t i = 0; i < n; ++i) {
            std::memcpy(at(i), matrix, bytes);
        }
    }
    const uint8_t * next() { return at(next_++ % n_); }

private:
    uint8_t * at(size_t i) const { return static_cast<uint8_t *>(space_.data()) + i * stride_; }

    size_t stride_;
    size_t n_;
    AlignedBuffer space_;
    size_t next_ = 0;
};

std::vector<uint8_t> packed(const PackedMatrix & m, const std::vector<uint8_t> & gguf) {
    std::vector<uint8_t> data(m.bytes());
    const size_t row = ggml_row_size(m.type, m.n_in);
    for (int64_t panel = 0; panel < n_panels(m.n_out); ++panel) {
        const int64_t first = panel * panel_rows;
        pack_panel(m.type, m.n_in, gguf.data() + static_cast<size_t>(first) * row,
                   std::min(panel_rows, m.n_out - first), data.data() + static_cast<size_t>(panel) * m.layout.bytes);
    }
    return data;
}

double difference_of(const std::vector<float> & ours, const std::vector<float> & ggml) {
    double square  = 0.0;
    double largest = 0.0;
    for (size_t i = 0; i < ggml.size(); ++i) {
        const double apart = std::fabs(static_cast<double>(ours[i]) - static_cast<double>(ggml[i]));
        largest            = apart <= largest ? largest : apart; // a value that is no number stays
        square += static_cast<double>(ggml[i]) * static_cast<double>(ggml[i]);
    }
    return largest / std::sqrt(square / static_cast<double>(ggml.size()));
}

// The median time of one run, of as many as fit; the first one wakes everybody and does not count.
template <typename Run> double visit(double visit_ns, const Run & run) {
    constexpr size_t fewest = 3;
    run();
    std::vector<double> ns;
    for (double sum = 0.0; sum < visit_ns || ns.size() < fewest;) {
        ns.push_back(time_ns(run));
        sum += ns.back();
    }
    return median(ns);
}

} // namespace

std::string type_name(ggml_type type) {
    std::string name = ggml_type_name(type);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
    return name;
}

void measure_product(const ProductSettings & settings, const TileSet & set,
                     const std::function<void(const ProductTimes &)> & report) {
    const ggml_type type = settings.type;
    const int64_t n_in   = settings.n_in;
    const int64_t n_out  = settings.n_out;
    if (!is_packable(type, n_in)) {
        throw Error(PYSPEC_OPTION, format("rows of %lld values of type %s are not packed; their length must be a "
                                          "multiple of %lld",
                                          static_cast<long long>(n_in), type_name(type).c_str(),
                                          static_cast<long long>(ggml_blck_size(type))));
    }
    const int64_t most         = *std::max_element(settings.columns.begin(), settings.columns.end());
    const std::vector<float> x = random_values(n_in * most, 2);

    PackedMatrix matrix(type, n_in, n_out, 1, set);
    const std::vector<uint8_t> gguf  = random_matrix(type, n_in, n_out);
    const std::vector<uint8_t> panel = packed(matrix, gguf);
    const size_t n_copies = settings.cold ? std::max<size_t>(2, (settings.span + gguf.size() - 1) / gguf.size()) : 1;
    Copies our_copies(panel.data(), panel.size(), n_copies);
    Copies ggml_copies(gguf.data(), gguf.size(), n_copies);

    const auto run_ours = [&](OurProduct & ours) {
        matrix.data = our_copies.next();
        ours.run(matrix);
    };

    double difference = 0.0;
    {
        GgmlProduct ggml(type, n_in, n_out, x.data(), most, settings.n_threads);
        OurProduct ours(type, n_in, n_out, x.data(), most, settings.n_threads);
        ggml.run(ggml_copies.next());
        run_ours(ours);
        difference = difference_of(ours.y(), ggml.y());
        if (!(difference <= max_difference)) {
            throw Error(PYSPEC_INTERNAL,
                        format("the results of %s differ from ggml's by %.3g of their root mean square, expected at "
                               "most %.3g: times of a wrong product say nothing",
                               type_name(type).c_str(), difference, max_difference));
        }
    }

    for (const int64_t n_columns : settings.columns) {
        GgmlProduct ggml(type, n_in, n_out, x.data(), n_columns, settings.n_threads);
        OurProduct ours(type, n_in, n_out, x.data(), n_columns, settings.n_threads);
        std::vector<double> ours_ns;
        std::vector<double> ggml_ns;
        std::vector<double> ratios;
        const auto measure_ours = [&] {
            ours_ns.push_back(visit(settings.visit_ns, [&] { run_ours(ours); }));
            Team::rest();
        };
        const auto measure_ggml = [&] {
            ggml.wake();
            ggml_ns.push_back(visit(settings.visit_ns, [&] { ggml.run(ggml_copies.next()); }));
            ggml.rest();
        };
        for (int pair = 0; pair < settings.n_pairs; ++pair) { // who begins alternates
            if (pair % 2 == 0) {
                measure_ours();
                measure_ggml();
            } else {
                measure_ggml();
                measure_ours();
            }
            ratios.push_back(ggml_ns.back() / ours_ns.back());
        }
        report({n_columns,
                n_copies,
                {median(ours_ns), panel.size()},
                {median(ggml_ns), gguf.size()},
                median(ratios),
                difference});
    }
}

} // namespace pyspec::bench
