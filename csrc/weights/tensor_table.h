// The tensor table of one GGUF file: names, shapes, types, and where the bytes lie.
#pragma once

#include "weights/gguf_reader.h"
#include "weights/header_stream.h"

namespace pyspec {

constexpr uint64_t MIN_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8; // shortest entry: a name of one letter, no dimensions

// Reads n_tensors entries from the stream (which stands at the first), fills header.tensors, data_offset and data_end.
// header.alignment must be set. Throws FILE_FORMAT and UNSUPPORTED.
void read_tensor_table(const InputFile & file, HeaderStream & stream, uint64_t n_tensors, int part,
                       GgufHeader & header);

} // namespace pyspec
