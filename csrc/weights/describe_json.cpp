#include "weights/model_file.h"

#include <charconv>
#include <cmath>
#include <cstring>

namespace pyspec {

namespace {

constexpr uint64_t MAX_LISTED = 64; // longer arrays appear as type and length

void write_string(std::string & out, std::string_view text) {
    static const char hex[] = "0123456789abcdef";
    out += '"';
    for (const char c : text) {
        const auto u = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (u < 0x20) {
            out += "\\u00";
            out += hex[u >> 4];
            out += hex[u & 15];
        } else {
            out += c;
        }
    }
    out += '"';
}

// std::to_chars gives the shortest text that reads back equal, whatever the locale.
template <typename T> void write_number(std::string & out, std::string_view bytes, uint64_t index) {
    T value;
    std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof value);
    if constexpr (std::is_floating_point_v<T>) {
        if (!std::isfinite(value)) { // JSON has no such numbers
            out += "null";
            return;
        }
    }
    char buffer[64];
    const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
    out.append(buffer, result.ptr);
}

void write_scalar(std::string & out, MetaType type, std::string_view bytes, uint64_t index) {
    switch (type) {
    case MetaType::u8:
        return write_number<uint8_t>(out, bytes, index);
    case MetaType::i8:
        return write_number<int8_t>(out, bytes, index);
    case MetaType::u16:
        return write_number<uint16_t>(out, bytes, index);
    case MetaType::i16:
        return write_number<int16_t>(out, bytes, index);
    case MetaType::u32:
        return write_number<uint32_t>(out, bytes, index);
    case MetaType::i32:
        return write_number<int32_t>(out, bytes, index);
    case MetaType::f32:
        return write_number<float>(out, bytes, index);
    case MetaType::u64:
        return write_number<uint64_t>(out, bytes, index);
    case MetaType::i64:
        return write_number<int64_t>(out, bytes, index);
    case MetaType::f64:
        return write_number<double>(out, bytes, index);
    case MetaType::boolean:
        out += bytes[index] != 0 ? "true" : "false";
        return;
    case MetaType::string:
        return write_string(out, bytes);
    case MetaType::array:
        break;
    }
    out += "null";
}

void write_value(std::string & out, const MetaValue & value) {
    if (value.type != MetaType::array) return write_scalar(out, value.type, value.bytes, 0);
    if (value.count > MAX_LISTED) {
        out += "{\"array\": \"";
        out += meta_type_name(value.element);
        out += "\", \"length\": " + std::to_string(value.count) + "}";
        return;
    }
    out += '[';
    for (uint64_t i = 0; i < value.count; i++) {
        if (i > 0) out += ", ";
        if (value.element == MetaType::string) {
            write_string(out, value.strings[i]);
        } else {
            write_scalar(out, value.element, value.bytes, i);
        }
    }
    out += ']';
}

void write_tensor(std::string & out, const TensorInfo & t) {
    out += "{\"name\": ";
    write_string(out, t.name);
    out += ", \"type\": ";
    write_string(out, ggml_type_name(t.type));
    out += ", \"shape\": [";
    for (int i = 0; i < t.n_dims; i++) out += (i > 0 ? ", " : "") + std::to_string(t.ne[i]);
    out += "], \"bytes\": " + std::to_string(t.bytes) + ", \"part\": " + std::to_string(t.part) + "}";
}

} // namespace

std::string describe_json(const ModelFile & file) {
    std::string out = "{\"metadata\": {";
    bool first      = true;
    for (const auto & [key, value] : file.metadata()) {
        if (!first) out += ", ";
        first = false;
        write_string(out, key);
        out += ": ";
        write_value(out, value);
    }
    out += "}, \"tensors\": [";
    first = true;
    for (const TensorInfo & t : file.tensors()) {
        if (!first) out += ", ";
        first = false;
        write_tensor(out, t);
    }
    return out + "]}";
}

} // namespace pyspec
