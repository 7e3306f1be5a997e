#include "weights/gguf_reader.h"

#include "support/text.h"
#include "weights/header_stream.h"
#include "weights/not_gguf.h"
#include "weights/tensor_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

// The file is little endian and scalars are copied as they are.
static_assert(std::endian::native == std::endian::little, "pyspec reads GGUF on little-endian machines only");

namespace pyspec {

namespace {

constexpr size_t ARENA_BLOCK_BYTES  = 256u << 10;
constexpr uint64_t MAX_KEY_BYTES    = 65535;     // the format's own limit
constexpr uint64_t MAX_STRING_BYTES = 64u << 20; // chat templates are the longest real ones, far below 1 MiB
constexpr uint64_t MAX_ARRAY_BYTES  = 1u << 30;
constexpr uint64_t MIN_KV_BYTES     = 8 + 1 + 4 + 1;

// Bytes of one scalar; 0 for strings, arrays and unknown numbers.
size_t scalar_bytes(int32_t type) {
    switch (static_cast<MetaType>(type)) {
    case MetaType::u8:
    case MetaType::i8:
    case MetaType::boolean:
        return 1;
    case MetaType::u16:
    case MetaType::i16:
        return 2;
    case MetaType::u32:
    case MetaType::i32:
    case MetaType::f32:
        return 4;
    case MetaType::u64:
    case MetaType::i64:
    case MetaType::f64:
        return 8;
    case MetaType::string:
    case MetaType::array:
        break;
    }
    return 0;
}

class Parser {
public:
    Parser(const InputFile & file, int part) : file_(file), stream_(file), part_(part) {}

    GgufHeader parse() {
        read_start();
        for (uint64_t i = 0; i < n_kv_; i++) read_key_value(i);
        read_alignment();
        read_tensor_table(file_, stream_, n_tensors_, part_, header_);
        check_quantization_version();
        return std::move(header_);
    }

private:
    void read_start() {
        char magic[4];
        if (file_.size() < 4 || file_.read_some(0, magic, 4) != 4 || std::memcmp(magic, "GGUF", 4) != 0)
            throw_not_gguf(file_);
        stream_.take_bytes(magic, 4);
        stream_.set_context("the file header");
        header_.version  = stream_.take<uint32_t>();
        const uint32_t v = header_.version;
        if (v != 2 && v != 3) {
            if (v != 0 && (v & 0xffffu) == 0) {
                throw Error(PYSPEC_UNSUPPORTED, file_.path() +
                                                    ": a big-endian GGUF file, made for another kind of machine; "
                                                    "get the little-endian version of the model");
            }
            if (v == 1) {
                throw Error(PYSPEC_UNSUPPORTED, file_.path() +
                                                    ": GGUF version 1 (August 2023) is no longer read; versions 2 "
                                                    "and 3 are. Get a newer file of the model or convert it again");
            }
            throw Error(v == 0 ? PYSPEC_FILE_FORMAT : PYSPEC_UNSUPPORTED,
                        format("%s: GGUF version %u; this build reads versions 2 and 3", file_.path().c_str(), v));
        }
        const auto n_tensors = stream_.take<int64_t>();
        const auto n_kv      = stream_.take<int64_t>();
        if (n_tensors < 0 || n_kv < 0) {
            stream_.fail(format("damaged: %lld tensors and %lld metadata keys are declared",
                                static_cast<long long>(n_tensors), static_cast<long long>(n_kv)));
        }
        n_tensors_ = static_cast<uint64_t>(n_tensors);
        n_kv_      = static_cast<uint64_t>(n_kv);
        stream_.require(n_kv_, MIN_KV_BYTES, "metadata keys");
        stream_.require(n_tensors_, MIN_TENSOR_BYTES, "tensors");
    }

    void read_key_value(uint64_t index) {
        stream_.set_context(format("metadata key %llu of %llu", static_cast<unsigned long long>(index + 1),
                                   static_cast<unsigned long long>(n_kv_)));
        const auto length = stream_.take<uint64_t>();
        if (length == 0 || length > MAX_KEY_BYTES) {
            stream_.fail(format("damaged: key of %llu bytes (1 to %llu are possible)",
                                static_cast<unsigned long long>(length),
                                static_cast<unsigned long long>(MAX_KEY_BYTES)));
        }
        stream_.require(length, 1, "bytes in its name");
        std::string key(static_cast<size_t>(length), '\0');
        stream_.take_bytes(key.data(), key.size());
        if (key.find('\0') != key.npos) stream_.fail("damaged: key " + quote_bytes(key) + " contains a zero byte");
        stream_.set_context("the value of key " + quote_bytes(key));
        const auto type = stream_.take<int32_t>();
        MetaValue value;
        if (scalar_bytes(type) > 0) {
            value.type    = static_cast<MetaType>(type);
            value.element = value.type;
            value.bytes   = take_view(scalar_bytes(type));
        } else if (type == static_cast<int32_t>(MetaType::string)) {
            value.type    = MetaType::string;
            value.element = value.type;
            value.bytes   = take_string();
        } else if (type == static_cast<int32_t>(MetaType::array)) {
            read_array(value);
        } else {
            stream_.fail(format("damaged: value type %d; 0 to 12 exist", type));
        }
        if (!header_.metadata.emplace(key, std::move(value)).second)
            stream_.fail("key " + quote_bytes(key) + " appears twice");
    }

    void read_array(MetaValue & value) {
        value.type         = MetaType::array;
        const auto element = stream_.take<int32_t>();
        const auto count   = stream_.take<uint64_t>();
        const auto bytes   = scalar_bytes(element);
        value.element      = static_cast<MetaType>(element);
        value.count        = count;
        if (bytes > 0) {
            stream_.require(count, bytes, "elements");
            if (count * bytes > MAX_ARRAY_BYTES) stream_.fail("array of " + byte_size(count * bytes) + " is too long");
            value.bytes = take_view(static_cast<size_t>(count * bytes));
        } else if (element == static_cast<int32_t>(MetaType::string)) {
            stream_.require(count, sizeof(uint64_t), "strings");
            // The count is only bounded by the file so far, which may be large: grow with what is really there.
            value.strings.reserve(static_cast<size_t>(std::min<uint64_t>(count, 1u << 18)));
            for (uint64_t i = 0; i < count; i++) value.strings.push_back(take_string());
        } else if (element == static_cast<int32_t>(MetaType::array)) {
            stream_.fail("arrays of arrays are not part of the format");
        } else {
            stream_.fail(format("damaged: element type %d; 0 to 12 exist", element));
        }
    }

    std::string_view take_string() {
        const auto length = stream_.take<uint64_t>();
        stream_.require(length, 1, "bytes of text");
        if (length > MAX_STRING_BYTES) stream_.fail("damaged: string of " + byte_size(length));
        return take_view(static_cast<size_t>(length));
    }

    std::string_view take_view(size_t n) {
        char * bytes = header_.arena.allocate(n);
        stream_.take_bytes(bytes, n);
        return {bytes, n};
    }

    // Value of an optional u32 key.
    const MetaValue * find_u32(std::string_view key) const {
        const auto it = header_.metadata.find(key);
        if (it == header_.metadata.end()) return nullptr;
        if (it->second.type != MetaType::u32) {
            throw Error(PYSPEC_FILE_FORMAT, format("%s: key %s has type %s, expected u32", file_.path().c_str(),
                                                   quote_bytes(key).c_str(), meta_type_name(it->second.type)));
        }
        return &it->second;
    }

    void read_alignment() {
        const MetaValue * value = find_u32("general.alignment");
        if (value == nullptr) return;
        std::memcpy(&header_.alignment, value->bytes.data(), sizeof header_.alignment);
        // The format demands a multiple of 8; the tensors' own element access relies on it too.
        if (header_.alignment < 8 || !std::has_single_bit(header_.alignment)) {
            throw Error(PYSPEC_FILE_FORMAT,
                        format("%s: key 'general.alignment' is %u, expected a power of two of at least 8",
                               file_.path().c_str(), header_.alignment));
        }
    }

    // Block layouts changed in the days before GGUF; a file that says so would load and compute nonsense.
    void check_quantization_version() const {
        const MetaValue * value = find_u32("general.quantization_version");
        if (value == nullptr) return;
        uint32_t version;
        std::memcpy(&version, value->bytes.data(), sizeof version);
        const bool quantized = std::any_of(header_.tensors.begin(), header_.tensors.end(),
                                           [](const TensorInfo & t) { return ggml_is_quantized(t.type); });
        if (quantized && version != GGML_QNT_VERSION) {
            throw Error(PYSPEC_UNSUPPORTED,
                        format("%s: quantised with block layout version %u; this build reads version %d",
                               file_.path().c_str(), version, GGML_QNT_VERSION));
        }
    }

    const InputFile & file_;
    HeaderStream stream_;
    int part_;
    GgufHeader header_;
    uint64_t n_tensors_ = 0;
    uint64_t n_kv_      = 0;
};

} // namespace

char * HeaderArena::allocate(size_t n) {
    // Numeric arrays stay aligned to 8 bytes.
    const size_t need = (n + 1 + 7) / 8 * 8;
    if (need > left_) {
        const size_t block = std::max(need, ARENA_BLOCK_BYTES);
        blocks_.push_back(std::unique_ptr<char[]>(new char[block]));
        next_ = blocks_.back().get();
        left_ = block;
    }
    char * result = next_;
    next_ += need;
    left_ -= need;
    result[n] = '\0';
    return result;
}

GgufHeader read_gguf(const InputFile & file, int part) {
    return Parser(file, part).parse();
}

const char * meta_type_name(MetaType type) {
    switch (type) {
    case MetaType::u8:
        return "u8";
    case MetaType::i8:
        return "i8";
    case MetaType::u16:
        return "u16";
    case MetaType::i16:
        return "i16";
    case MetaType::u32:
        return "u32";
    case MetaType::i32:
        return "i32";
    case MetaType::f32:
        return "f32";
    case MetaType::boolean:
        return "bool";
    case MetaType::string:
        return "string";
    case MetaType::array:
        return "array";
    case MetaType::u64:
        return "u64";
    case MetaType::i64:
        return "i64";
    case MetaType::f64:
        return "f64";
    }
    return "unknown";
}

} // namespace pyspec
