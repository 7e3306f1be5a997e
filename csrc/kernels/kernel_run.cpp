#include "kernels/kernel_run.h"

namespace pyspec {

std::string kernel_runs_json(const KernelCounters & counters) {
    std::string text;
    const auto add = [&](const std::string & name, int64_t n) {
        if (n != 0) {
            text += (text.empty() ? "\"" : ", \"") + name + "\": " + std::to_string(n);
        }
    };
    const auto add_types = [&](const std::string & name, const KernelCounters::Counts & counts) {
        for (size_t i = 0; i < counts.size(); ++i) {
            if (const int64_t n = counts[i]) {
                add(name + "." + ggml_type_name(static_cast<ggml_type>(i)), n);
            }
        }
    };
    add_types("product", counters.packed);
    add_types("product_unpacked", counters.plain);
    add_types("experts", counters.packed_experts);
    add_types("experts_unpacked", counters.plain_experts);
    add("attention", counters.attention);
    return "{" + text + "}";
}

} // namespace pyspec
