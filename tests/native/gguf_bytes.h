// Writes GGUF files byte by byte, right or wrong on purpose, and keeps them in a scratch folder.
#pragma once

#include "weights/model_file.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace gguf_bytes {

using pyspec::MetaType;

template <typename T> std::string raw(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

inline std::string text(std::string_view s) {
    return raw<uint64_t>(s.size()) + std::string(s);
}

inline std::string type_number(MetaType type) {
    return raw(static_cast<int32_t>(type));
}

// The parts of a file; build() puts them together. Counts can be overridden to lie.
struct File {
    uint32_t version   = 3;
    uint64_t alignment = 32; // for placing data; the key has to be added by hand
    std::string keys, table, data;
    int64_t n_keys = 0, n_tensors = 0;

    File & key(std::string_view name, MetaType type, const std::string & payload) {
        keys += text(name) + type_number(type) + payload;
        n_keys++;
        return *this;
    }
    File & u16(std::string_view name, uint16_t v) { return key(name, MetaType::u16, raw(v)); }
    File & u32(std::string_view name, uint32_t v) { return key(name, MetaType::u32, raw(v)); }
    File & i32(std::string_view name, int32_t v) { return key(name, MetaType::i32, raw(v)); }
    File & f32(std::string_view name, float v) { return key(name, MetaType::f32, raw(v)); }
    File & flag(std::string_view name, bool v) { return key(name, MetaType::boolean, std::string(1, v ? '\1' : '\0')); }
    File & str(std::string_view name, std::string_view v) { return key(name, MetaType::string, text(v)); }
    File & strings(std::string_view name, const std::vector<std::string> & list) {
        std::string payload = type_number(MetaType::string) + raw<uint64_t>(list.size());
        for (const std::string & s : list) payload += text(s);
        return key(name, MetaType::array, payload);
    }
    template <typename T> File & numbers(std::string_view name, MetaType element, const std::vector<T> & list) {
        std::string payload = type_number(element) + raw<uint64_t>(list.size());
        for (const T v : list) payload += raw(v);
        return key(name, MetaType::array, payload);
    }

    // Table entry only; the offset is taken as it is.
    File & entry(std::string_view name, const std::vector<int64_t> & ne, int32_t type, uint64_t offset) {
        table += text(name) + raw(static_cast<uint32_t>(ne.size()));
        for (const int64_t n : ne) table += raw(n);
        table += raw(type) + raw(offset);
        n_tensors++;
        return *this;
    }
    // Entry with its bytes at the next aligned place.
    File & tensor(std::string_view name, const std::vector<int64_t> & ne, int32_t type, const std::string & bytes) {
        pad(data);
        entry(name, ne, type, data.size());
        data += bytes;
        return *this;
    }

    std::string header() const {
        std::string bytes = "GGUF" + raw(version) + raw(n_tensors) + raw(n_keys) + keys + table;
        return bytes;
    }
    std::string build() const {
        std::string bytes = header();
        if (!data.empty()) pad(bytes);
        return bytes + data;
    }

private:
    void pad(std::string & bytes) const { bytes.resize((bytes.size() + alignment - 1) / alignment * alignment); }
};

// Bytes with a recognisable pattern.
inline std::string pattern(size_t n, unsigned seed = 1) {
    std::string bytes(n, '\0');
    for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<char>((i * 7 + seed * 31) & 0xff);
    return bytes;
}

// A fresh folder under argv[1] or the system's temporary folder, removed at the end.
class Scratch {
public:
    Scratch(int argc, char ** argv) {
        const std::filesystem::path parent = argc > 1 ? argv[1] : std::filesystem::temp_directory_path();
        std::string name                   = (parent / "pyspec-test-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) {
            std::cerr << "cannot make a scratch folder in " << parent << "\n";
            std::exit(2);
        }
        root_ = name;
    }
    Scratch(const Scratch &)             = delete;
    Scratch & operator=(const Scratch &) = delete;
    ~Scratch() { std::filesystem::remove_all(root_); }

    std::string path(const std::string & name) const { return (root_ / name).string(); }
    std::string write(const std::string & name, const std::string & bytes) const {
        std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
        std::ofstream(path(name), std::ios::binary | std::ios::trunc) << bytes;
        return path(name);
    }

private:
    std::filesystem::path root_;
};

} // namespace gguf_bytes
