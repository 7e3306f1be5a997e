// Parser of one GGUF file: header, metadata and tensor table, everything checked before it is used. Reads no tensor
// data.
#pragma once

#include "support/mapped_file.h"
#include "weights/model_file.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace pyspec {

// Owns the bytes that MetaValue views point into; addresses are stable. Each allocation is followed by a NUL byte, so a
// string value can be handed to C as it is.
class HeaderArena {
public:
    char * allocate(size_t n);

private:
    std::vector<std::unique_ptr<char[]>> blocks_;
    size_t left_ = 0; // in the last block
    char * next_ = nullptr;
};

struct GgufHeader {
    uint32_t version     = 0;
    uint32_t alignment   = 32;
    uint64_t data_offset = 0; // of the data section, from the start of the file
    uint64_t data_end    = 0; // end of the last tensor; = data_offset without tensors
    std::map<std::string, MetaValue, std::less<>> metadata;
    std::vector<TensorInfo> tensors; // as listed; offsets from the start of the file
    HeaderArena arena;
};

// Tensors get `part` as their part number. Throws FILE_FORMAT (damaged, incomplete, not GGUF) and UNSUPPORTED
// (container version, byte order, tensor type, quantisation version). No count or length of the file is trusted with an
// allocation before it has been compared with the bytes that are left.
GgufHeader read_gguf(const InputFile & file, int part);

// True for the tensor types that can be the weights of a matrix product. Others (integers, F64) may appear in a file as
// side tables, so the parser lets them through and whoever binds a weight asks here.
bool is_weight_type(ggml_type type);

} // namespace pyspec
