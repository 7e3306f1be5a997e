// The vocabulary of a model file: packed texts, types, special ids, end-of-generation set, token pieces.
#pragma once

#include "weights/model_file.h"

#include <memory>
#include <string>
#include <vector>

namespace pyspec {

struct Vocabulary {
    std::string kind; // tokenizer.ggml.model
    std::string pre;  // tokenizer.ggml.pre or ""
    int32_t n_tokens = 0;
    std::string text; // packed
    std::vector<uint64_t> text_offset;
    std::vector<float> scores;
    std::vector<int32_t> types;
    int32_t n_merges = 0;
    std::string merges; // packed
    std::vector<uint64_t> merges_offset;
    int32_t bos = -1, eos = -1, eot = -1, eom = -1, unk = -1, sep = -1, pad = -1, mask = -1;
    int32_t fim_pre = -1, fim_suf = -1, fim_mid = -1, fim_pad = -1, fim_rep = -1, fim_sep = -1;
    bool add_bos = false, add_eos = false, add_space_prefix = false;
    std::vector<int32_t> eog; // ascending

    std::string_view token_text(int32_t id) const;
    bool is_eog(int32_t id) const;
    // Bytes of the token as text; see pyspec_token_piece. id must be in range.
    std::string piece(int32_t id, bool special) const;
};

// Reads and checks tokenizer.ggml.*; nullptr when the file has no vocabulary. Throws FILE_FORMAT.
std::unique_ptr<Vocabulary> read_vocabulary(const ModelFile & file);

} // namespace pyspec
