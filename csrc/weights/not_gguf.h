// What a file is that is not GGUF, in words that help the person who has it.
#pragma once

#include "support/mapped_file.h"

namespace pyspec {

// Throws FILE_FORMAT with path, size, first bytes and a guess at what the file is. Call when the magic is missing.
[[noreturn]] void throw_not_gguf(const InputFile & file);

} // namespace pyspec
