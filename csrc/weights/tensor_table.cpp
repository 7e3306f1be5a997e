#include "weights/tensor_table.h"

#include "support/text.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_set>

namespace pyspec {

namespace {

constexpr uint64_t MAX_NAME_BYTES = GGML_MAX_NAME - 1; // longer ones would be cut by the tensor library

using ull = unsigned long long;

std::string shape_text(const TensorInfo & t) {
    std::string text = "{";
    for (int i = 0; i < t.n_dims; i++) text += (i > 0 ? ", " : "") + std::to_string(t.ne[i]);
    return text + "}";
}

[[noreturn]] void throw_type(const InputFile & file, const std::string & name, int32_t type, const char * why) {
    throw Error(PYSPEC_UNSUPPORTED, format("%s: tensor %s has type number %d: %s", file.path().c_str(),
                                           quote_bytes(name).c_str(), type, why));
}

void check_type(const InputFile & file, const std::string & name, int32_t type) {
    if (type < 0 || type >= GGML_TYPE_COUNT) {
        throw_type(file, name, type, "unknown to this build (the file is newer than it, or damaged)");
    }
    const auto known = static_cast<ggml_type>(type);
    if (ggml_type_size(known) == 0 || ggml_blck_size(known) == 0) {
        throw_type(file, name, type, "a layout that was removed from the format; get a newer file of the model");
    }
    if (known == GGML_TYPE_Q8_1 || known == GGML_TYPE_Q8_K) {
        throw_type(file, name, type, "an internal format of activations, which cannot hold weights");
    }
}

// Shape and size; every product is checked against what fits into a signed 64-bit number, which ggml calculates with.
void check_shape(const InputFile & file, TensorInfo & t) {
    constexpr int64_t max = std::numeric_limits<int64_t>::max();
    int64_t elements      = 1;
    for (int i = 0; i < 4; i++) {
        if (t.ne[i] <= 0 || t.ne[i] > max / elements) {
            throw Error(PYSPEC_FILE_FORMAT, format("%s: damaged: tensor %s has shape %s", file.path().c_str(),
                                                   quote_bytes(t.name).c_str(), shape_text(t).c_str()));
        }
        elements *= t.ne[i];
    }
    const int64_t block = ggml_blck_size(t.type);
    if (t.ne[0] % block != 0) {
        throw Error(PYSPEC_FILE_FORMAT,
                    format("%s: tensor %s of type %s has rows of %lld elements, expected a multiple of %lld",
                           file.path().c_str(), quote_bytes(t.name).c_str(), ggml_type_name(t.type),
                           static_cast<long long>(t.ne[0]), static_cast<long long>(block)));
    }
    // ggml_row_size multiplies before it divides, so the product has to fit as well.
    if (elements > max / static_cast<int64_t>(ggml_type_size(t.type))) {
        throw Error(PYSPEC_FILE_FORMAT,
                    format("%s: damaged: tensor %s has shape %s, more than can be stored", file.path().c_str(),
                           quote_bytes(t.name).c_str(), shape_text(t).c_str()));
    }
    t.bytes = static_cast<uint64_t>(ggml_row_size(t.type, t.ne[0])) * static_cast<uint64_t>(elements / t.ne[0]);
}

TensorInfo read_entry(const InputFile & file, HeaderStream & stream, int part) {
    TensorInfo t;
    t.part            = part;
    const auto length = stream.take<uint64_t>();
    if (length == 0 || length > MAX_NAME_BYTES) {
        stream.fail(format("damaged: tensor name of %llu bytes (1 to %llu are possible)", static_cast<ull>(length),
                           static_cast<ull>(MAX_NAME_BYTES)));
    }
    t.name.resize(static_cast<size_t>(length));
    stream.take_bytes(t.name.data(), t.name.size());
    if (t.name.find('\0') != t.name.npos)
        stream.fail("damaged: tensor name " + quote_bytes(t.name) + " contains a zero byte");
    stream.set_context("the entry of tensor " + quote_bytes(t.name));
    const auto n_dims = stream.take<uint32_t>();
    if (n_dims > 4) stream.fail(format("damaged: tensor of %u dimensions (at most 4 are possible)", n_dims));
    t.n_dims = static_cast<int>(n_dims);
    for (int i = 0; i < 4; i++) t.ne[i] = i < t.n_dims ? stream.take<int64_t>() : 1;
    const auto type = stream.take<int32_t>();
    check_type(file, t.name, type);
    t.type   = static_cast<ggml_type>(type);
    t.offset = stream.take<uint64_t>(); // from the data section for now
    check_shape(file, t);
    return t;
}

// Aligned, inside the file, and no byte used twice. Offsets become absolute.
void place_tensors(const InputFile & file, GgufHeader & header) {
    for (TensorInfo & t : header.tensors) {
        if (t.offset % header.alignment != 0) {
            throw Error(PYSPEC_FILE_FORMAT,
                        format("%s: damaged: tensor %s starts at %llu, expected a multiple of %u", file.path().c_str(),
                               quote_bytes(t.name).c_str(), static_cast<ull>(t.offset), header.alignment));
        }
        if (t.offset > std::numeric_limits<uint64_t>::max() / 4 || t.bytes > std::numeric_limits<uint64_t>::max() / 4) {
            throw Error(PYSPEC_FILE_FORMAT,
                        format("%s: damaged: tensor %s starts at %llu and has %llu bytes", file.path().c_str(),
                               quote_bytes(t.name).c_str(), static_cast<ull>(t.offset), static_cast<ull>(t.bytes)));
        }
        t.offset += header.data_offset;
        header.data_end = std::max(header.data_end, t.offset + t.bytes);
    }
    std::vector<const TensorInfo *> order;
    order.reserve(header.tensors.size());
    for (const TensorInfo & t : header.tensors) order.push_back(&t);
    std::sort(order.begin(), order.end(),
              [](const TensorInfo * a, const TensorInfo * b) { return a->offset < b->offset; });
    for (size_t i = 0; i < order.size(); i++) {
        const TensorInfo & t = *order[i];
        if (t.offset + t.bytes > file.size()) {
            throw Error(
                PYSPEC_FILE_FORMAT,
                format("%s: the file is cut short: it has %s, but tensor %s ends at byte %llu and the last one at byte "
                       "%llu (%.1f %% of the file is there); the download is incomplete",
                       file.path().c_str(), byte_size(file.size()).c_str(), quote_bytes(t.name).c_str(),
                       static_cast<ull>(t.offset + t.bytes), static_cast<ull>(header.data_end),
                       100.0 * static_cast<double>(file.size()) / static_cast<double>(header.data_end)));
        }
        if (i + 1 < order.size() && t.offset + t.bytes > order[i + 1]->offset) {
            throw Error(PYSPEC_FILE_FORMAT,
                        format("%s: damaged: tensors %s and %s overlap", file.path().c_str(),
                               quote_bytes(t.name).c_str(), quote_bytes(order[i + 1]->name).c_str()));
        }
    }
}

} // namespace

void read_tensor_table(const InputFile & file, HeaderStream & stream, uint64_t n_tensors, int part,
                       GgufHeader & header) {
    stream.set_context("the tensor table");
    stream.require(n_tensors, MIN_TENSOR_BYTES, "tensors");
    std::unordered_set<std::string> names;
    for (uint64_t i = 0; i < n_tensors; i++) {
        stream.set_context(format("tensor %llu of %llu", static_cast<ull>(i + 1), static_cast<ull>(n_tensors)));
        TensorInfo t = read_entry(file, stream, part);
        if (!names.insert(t.name).second) stream.fail("tensor " + quote_bytes(t.name) + " appears twice");
        header.tensors.push_back(std::move(t));
    }
    const uint64_t table_end = stream.position();
    header.data_offset       = (table_end + header.alignment - 1) / header.alignment * header.alignment;
    header.data_end          = header.data_offset;
    place_tensors(file, header);
}

bool is_weight_type(ggml_type type) {
    switch (type) {
    case GGML_TYPE_I8:
    case GGML_TYPE_I16:
    case GGML_TYPE_I32:
    case GGML_TYPE_I64:
    case GGML_TYPE_F64:
    case GGML_TYPE_Q8_1:
    case GGML_TYPE_Q8_K:
        return false;
    default:
        return ggml_type_size(type) > 0;
    }
}

} // namespace pyspec
