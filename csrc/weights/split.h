// Split models: the names of the parts and the keys that tie them together.
#pragma once

#include "weights/gguf_reader.h"

#include <optional>
#include <string>
#include <vector>

namespace pyspec {

// Name form "<prefix>-00001-of-00003.gguf".
struct SplitName {
    std::string prefix; // with the directory
    int number;         // from 1
    int count;
};
std::optional<SplitName> parse_split_name(const std::string & path);
std::string split_part_path(const std::string & prefix, int number, int count);

// One opened and checked file of a model.
struct ModelPart {
    InputFile file;
    GgufHeader header;
};

// Opens the file at path and, when it is the first part of a split model, all the others. Checks part numbers, counts
// and the total number of tensors, and refuses files whose parts were joined end to end. Throws FILE_FORMAT,
// UNSUPPORTED.
std::vector<ModelPart> open_parts(const std::string & path);

} // namespace pyspec
