// What the kernels do on this machine, and what the machine could do. One JSON object per line on stdout:
//
//   kernels types    [--kernels NAME]                                        what can be packed and multiplied
//   kernels roofline [--kernels NAME] [--threads N] [--span MIB] [--passes N]
//   kernels product  --type T --in N --out N [--columns 1,2,4,8,16] [--kernels NAME] [--threads N] [--cold | --warm]
//                    [--span MIB] [--pairs N] [--visit-ms N]                  a line for every number of columns
//
// --kernels: instruction set, the best by default. --threads 0 (default): physical cores. --span: memory that is read
// before anything is read again (roofline; --cold, for each side), by default more than the caches hold; --warm reads
// one copy of the matrix again and again. Times are nanoseconds, ratios above 1 mean that pyspec is faster. Exit codes:
// 0, 1 it could not be done, 2 wrong arguments; stderr then has one line.
#include "options.h"
#include "product.h"
#include "roofline.h"
#include "timing.h"

#include "kernels/packed_format.h"
#include "support/error.h"
#include "support/system.h"

#include "ggml-cpu.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

using namespace pyspec;
using namespace pyspec::bench;

namespace {

constexpr size_t mib         = size_t{1} << 20;
constexpr int64_t longest    = int64_t{1} << 20; // side of a matrix
constexpr size_t most_memory = 1024 * mib;       // unless more is asked for

// All types that a set multiplies in packed form.
std::vector<ggml_type> types_of(const TileSet & set) {
    std::vector<ggml_type> types;
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const ggml_type type = static_cast<ggml_type>(i);
        const bool has_tile  = set.tile(type) != nullptr || set.floats->tile(type) != nullptr;
        if (ggml_blck_size(type) > 0 && is_packable(type, block_values(type)) && has_tile) {
            types.push_back(type);
        }
    }
    return types;
}

ggml_type find_type(const TileSet & set, const std::string & name) {
    std::string known;
    for (const ggml_type type : types_of(set)) {
        const std::string found = type_name(type);
        if (found == name) {
            return type;
        }
        known += (known.empty() ? "" : ", ") + found;
    }
    throw Error(PYSPEC_OPTION, format("--type is '%s', expected one of %s", name.c_str(), known.c_str()));
}

int threads_of(const Options & options) {
    const int64_t asked = options.whole("--threads", 0, 512, 0);
    return asked == 0 ? physical_cpu_count() : static_cast<int>(asked);
}

// `caches` times what the caches hold, unless --span says something else.
size_t span_of(const Options & options, size_t caches) {
    const int64_t asked = options.whole("--span", 1, 1 << 20, 0);
    return asked == 0 ? std::min(most_memory, caches * cache_bytes()) : static_cast<size_t>(asked) * mib;
}

void types(const std::vector<std::string> & arguments) {
    const Options options(arguments, {"--kernels"});
    const TileSet & set = find_tile_set(options.text("--kernels", ""));
    std::string names;
    for (const ggml_type type : types_of(set)) {
        names += (names.empty() ? "\"" : ", \"") + type_name(type) + "\"";
    }
    std::printf("{\"what\": \"types\", \"kernels\": \"%s\", \"types\": [%s]}\n", set.name, names.c_str());
}

void roofline(const std::vector<std::string> & arguments) {
    const Options options(arguments, {"--kernels", "--threads", "--span", "--passes"});
    const TileSet & set = find_tile_set(options.text("--kernels", ""));
    const size_t span   = span_of(options, 4);
    const int n_passes  = static_cast<int>(options.whole("--passes", 1, 10000, 9));
    Team team(threads_of(options));
    const Roofline found = measure_roofline(team, set, span, n_passes);
    std::printf(
        "{\"what\": \"roofline\", \"kernels\": \"%s\", \"threads\": %d, \"span_bytes\": %zu, \"passes\": %d, "
        "\"read_gb_s\": {\"best\": %.6g, \"median\": %.6g}, \"dot_gmac_s\": {\"best\": %.6g, \"median\": %.6g}}\n",
        set.name, team.size(), span, n_passes, found.read.best, found.read.median, found.dot.best, found.dot.median);
}

void print_side(const char * name, const Side & side, double macs) {
    std::printf(", \"%s\": {\"ns\": %.6g, \"bytes\": %zu, \"gb_s\": %.6g, \"gmac_s\": %.6g}", name, side.ns, side.bytes,
                static_cast<double>(side.bytes) / side.ns, macs / side.ns);
}

void product(const std::vector<std::string> & arguments) {
    const Options options(
        arguments,
        {"--type", "--in", "--out", "--columns", "--kernels", "--threads", "--span", "--pairs", "--visit-ms"},
        {"--cold", "--warm"});
    for (const char * needed : {"--type", "--in", "--out"}) {
        if (!options.has(needed)) {
            throw Error(PYSPEC_OPTION, format("product needs %s", needed));
        }
    }
    if (options.has("--cold") && options.has("--warm")) {
        throw Error(PYSPEC_OPTION, "--cold and --warm contradict each other");
    }
    const TileSet & set = find_tile_set(options.text("--kernels", ""));
    ProductSettings settings;
    settings.type      = find_type(set, options.text("--type", ""));
    settings.n_in      = options.whole("--in", 1, longest, 0);
    settings.n_out     = options.whole("--out", 1, longest, 0);
    settings.columns   = options.wholes("--columns", 1, 2048, "1,2,4,8,16");
    settings.n_threads = threads_of(options);
    settings.cold      = !options.has("--warm");
    settings.span      = span_of(options, 2);
    settings.n_pairs   = static_cast<int>(options.whole("--pairs", 1, 10000, 7));
    settings.visit_ns  = 1e6 * static_cast<double>(options.whole("--visit-ms", 1, 60000, 20));

    measure_product(settings, set, [&](const ProductTimes & times) {
        const double macs = static_cast<double>(settings.n_in) * static_cast<double>(settings.n_out) *
                            static_cast<double>(times.n_columns);
        std::printf("{\"what\": \"product\", \"kernels\": \"%s\", \"threads\": %d, \"type\": \"%s\", \"in\": %lld, "
                    "\"out\": %lld, \"columns\": %lld, \"cold\": %s, \"copies\": %zu, \"pairs\": %d",
                    set.name, settings.n_threads, type_name(settings.type).c_str(),
                    static_cast<long long>(settings.n_in), static_cast<long long>(settings.n_out),
                    static_cast<long long>(times.n_columns), settings.cold ? "true" : "false", times.n_copies,
                    settings.n_pairs);
        print_side("ours", times.ours, macs);
        print_side("ggml", times.ggml, macs);
        std::printf(", \"ratio\": %.6g, \"difference\": %.6g}\n", times.ratio, times.difference);
        std::fflush(stdout);
    });
}

} // namespace

int main(int argc, char ** argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    const std::vector<std::string> arguments(argv + std::min(argc, 2), argv + argc);
    try {
        ggml_cpu_init();
        if (mode == "types") {
            types(arguments);
        } else if (mode == "roofline") {
            roofline(arguments);
        } else if (mode == "product") {
            product(arguments);
        } else {
            throw Error(PYSPEC_OPTION, format("'%s' is no mode; choose types, roofline or product", mode.c_str()));
        }
    } catch (const Error & error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return error.status() == PYSPEC_OPTION ? 2 : 1;
    } catch (const std::exception & error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
    return 0;
}
