// Our packed product beside ggml's on the same matrix, columns and threads, in turns.
#pragma once

#include "kernels/instruction_set.h"

#include "ggml.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pyspec::bench {

struct ProductSettings {
    ggml_type type = GGML_TYPE_COUNT;
    int64_t n_in   = 0;
    int64_t n_out  = 0;
    std::vector<int64_t> columns;
    int n_threads   = 1;
    bool cold       = true;
    size_t span     = 0; // bytes of all copies of a side together, when cold: more than the caches hold
    int n_pairs     = 1;
    double visit_ns = 0; // time of one side's turn, about
};

struct Side {
    double ns    = 0.0; // of one product: the median of the turns' medians
    size_t bytes = 0;   // of the weights, in the side's form
};

struct ProductTimes {
    int64_t n_columns = 0;
    size_t n_copies   = 0; // of the matrix, for each side
    Side ours;
    Side ggml;
    double ratio      = 0.0; // ggml's time over ours: the median of the pairs' ratios
    double difference = 0.0; // largest, between our result and ggml's, relative to the root mean square of the result
};

// As users write it: "Q4_K".
std::string type_name(ggml_type type);

// Largest `difference` that is not an error. Both sides round the columns to 8 bits, in blocks of their own; about 0.01
// of the root mean square each, and the largest of some hundred thousand differences is five times that.
constexpr double max_difference = 0.1;

// Calls `report` for every number of columns. The results of both sides are compared once, with the most columns.
// Throws OPTION for a matrix that cannot be packed, INTERNAL when the results differ by more than max_difference,
// OUT_OF_MEMORY.
void measure_product(const ProductSettings & settings, const TileSet & set,
                     const std::function<void(const ProductTimes &)> & report);

} // namespace pyspec::bench
