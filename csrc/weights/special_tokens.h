// Special token ids of a vocabulary: defaults of the tokenizer kind, the file's keys, guesses by text, and the set of
// tokens that end a generation.
#pragma once

#include "weights/token_index.h"
#include "weights/vocabulary.h"

namespace pyspec {

// Fills the special ids, add_* flags and eog of a vocabulary whose kind, pre, text and types are set, and corrects
// types (tokens known to end a generation become control and so on). The rules follow llama.cpp, so that the same file
// stops at the same tokens there and here; where llama.cpp depends on hash order the first text of a fixed list wins.
void resolve_special_tokens(const ModelFile & file, const TokenIndex & index, Vocabulary & vocab);

} // namespace pyspec
