// Helpers for showing bytes from files in messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pyspec {

// The bytes in single quotes; everything outside printable ASCII becomes \xNN, and long values are cut with "...".
// Bytes of a damaged file may be anything, and a message must stay one readable line.
std::string quote_bytes(std::string_view bytes, size_t max_bytes = 80);

// "12 bytes", "4.0 MiB (4194304 bytes)".
std::string byte_size(uint64_t bytes);

} // namespace pyspec
