// Hyper-parameters that every transformer family shares, read and checked in one place.
#pragma once

#include "graph/rope_params.h"
#include "weights/model_file.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pyspec {

struct Hparams {
    std::string arch;
    int32_t n_vocab     = 0;
    int32_t n_ctx_train = 0;
    int32_t n_embd      = 0;
    int32_t n_layer     = 0; // layers of the trunk
    int32_t n_layer_all = 0; // with trailing prediction blocks
    float eps           = 0.0f;

    std::vector<int32_t> n_head; // per layer
    std::vector<int32_t> n_head_kv;
    std::vector<int32_t> n_ff;
    int32_t head_dim_k = 0;
    int32_t head_dim_v = 0;

    int32_t n_swa = 0;        // sliding window, 0 = none
    std::vector<bool> is_swa; // per layer

    int32_t n_expert      = 0;
    int32_t n_expert_used = 0;

    RopeParams rope; // pairing is the family's; scaling is resolved

    std::string key(const char * suffix) const { return arch + "." + suffix; }
};

// Reads the common keys of `arch`. Throws FILE_FORMAT / UNSUPPORTED naming the key. vocabulary size comes from the
// embedding tensor. The family adds what is its own.
Hparams read_hparams(const ModelFile & file, const std::string & arch);

// Throws FILE_FORMAT "…: key is X, expected Y" unless condition.
void require(bool condition, const ModelFile & file, const std::string & key, const std::string & found,
             const std::string & expected);

} // namespace pyspec
