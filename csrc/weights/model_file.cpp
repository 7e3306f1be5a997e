#include "weights/model_file.h"

#include "support/log.h"
#include "support/mapped_file.h"
#include "support/system.h"
#include "support/text.h"
#include "weights/split.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace pyspec {

namespace {

using ull = unsigned long long;

template <typename T> T load(std::string_view bytes, uint64_t index = 0) {
    T value;
    std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof value);
    return value;
}

std::string describe_type(const MetaValue & value) {
    if (value.type != MetaType::array) return meta_type_name(value.type);
    return format("array of %llu %s", static_cast<ull>(value.count), meta_type_name(value.element));
}

class GgufModelFile final : public ModelFile {
public:
    explicit GgufModelFile(const std::string & path) : path_(path), parts_(open_parts(path)) {
        for (ModelPart & part : parts_) {
            file_bytes_ += part.file.size();
            for (TensorInfo & t : part.header.tensors) {
                weight_bytes_ += t.bytes;
                tensors_.push_back(std::move(t));
            }
            part.header.tensors.clear();
        }
        index_.reserve(tensors_.size());
        for (size_t i = 0; i < tensors_.size(); i++) {
            const auto [it, added] = index_.emplace(tensors_[i].name, i);
            if (!added) {
                throw Error(PYSPEC_FILE_FORMAT,
                            format("%s: tensor %s is also in %s", part_path(tensors_[i]).c_str(),
                                   quote_bytes(tensors_[i].name).c_str(), part_path(tensors_[it->second]).c_str()));
            }
        }
    }

    const std::string & path() const override { return path_; }
    uint64_t file_bytes() const override { return file_bytes_; }
    uint64_t weight_bytes() const override { return weight_bytes_; }

    const std::map<std::string, MetaValue, std::less<>> & metadata() const override {
        return parts_[0].header.metadata;
    }
    const std::vector<TensorInfo> & tensors() const override { return tensors_; }

    const TensorInfo * find_tensor(std::string_view name) const override {
        const auto it = index_.find(name);
        return it == index_.end() ? nullptr : &tensors_[it->second];
    }

    uint32_t get_u32(std::string_view key) const override { return load<uint32_t>(require(key, MetaType::u32).bytes); }
    float get_f32(std::string_view key) const override { return load<float>(require(key, MetaType::f32).bytes); }
    std::string_view get_str(std::string_view key) const override { return require(key, MetaType::string).bytes; }

    std::optional<uint32_t> find_u32(std::string_view key) const override {
        const MetaValue * value = find(key, MetaType::u32);
        return value ? std::optional(load<uint32_t>(value->bytes)) : std::nullopt;
    }
    std::optional<float> find_f32(std::string_view key) const override {
        const MetaValue * value = find(key, MetaType::f32);
        return value ? std::optional(load<float>(value->bytes)) : std::nullopt;
    }
    std::optional<bool> find_bool(std::string_view key) const override {
        const MetaValue * value = find(key, MetaType::boolean);
        if (value == nullptr) return std::nullopt;
        const auto byte = load<uint8_t>(value->bytes);
        if (byte > 1) {
            throw Error(PYSPEC_FILE_FORMAT, format("%s: damaged: key %s of type bool holds %d", path_.c_str(),
                                                   quote_bytes(key).c_str(), byte));
        }
        return byte == 1;
    }
    std::optional<std::string_view> find_str(std::string_view key) const override {
        const MetaValue * value = find(key, MetaType::string);
        return value ? std::optional(value->bytes) : std::nullopt;
    }

    std::optional<std::vector<uint32_t>> find_u32_per_layer(std::string_view key, uint32_t n) const override {
        const MetaValue * value = find(key);
        if (value == nullptr) return std::nullopt;
        const bool is_array = value->type == MetaType::array;
        const MetaType type = is_array ? value->element : value->type;
        if (type != MetaType::u32 && type != MetaType::i32) throw_type(key, *value, "u32, i32 or an array of them");
        if (is_array && value->count != n) {
            throw Error(PYSPEC_FILE_FORMAT,
                        format("%s: key %s has %llu entries, expected %u (one per block)", path_.c_str(),
                               quote_bytes(key).c_str(), static_cast<ull>(value->count), n));
        }
        std::vector<uint32_t> result(n);
        for (uint32_t i = 0; i < n; i++) {
            result[i] = load<uint32_t>(value->bytes, is_array ? i : 0);
            if (type == MetaType::i32 && result[i] > INT32_MAX) {
                throw Error(PYSPEC_FILE_FORMAT,
                            format("%s: key %s is negative for block %u", path_.c_str(), quote_bytes(key).c_str(), i));
            }
        }
        return result;
    }

    std::optional<std::vector<bool>> find_flags(std::string_view key) const override {
        const MetaValue * value = find(key);
        if (value == nullptr || value->type != MetaType::array) return std::nullopt;
        const bool bytes = value->element == MetaType::boolean;
        if (!bytes && value->element != MetaType::u32 && value->element != MetaType::i32) {
            throw_type(key, *value, "an array of bool, u32 or i32");
        }
        std::vector<bool> result(static_cast<size_t>(value->count));
        for (uint64_t i = 0; i < value->count; i++) {
            result[i] = bytes ? load<uint8_t>(value->bytes, i) != 0 : load<uint32_t>(value->bytes, i) != 0;
        }
        return result;
    }

    using ModelFile::load_data;
    void load_data(bool use_mmap, const std::vector<const TensorInfo *> & tensors, LoadProgress & progress) override {
        if (!loaded_.empty()) throw Error(PYSPEC_INTERNAL, path_ + ": load_data was called twice");
        check_size();
        std::vector<LoadedPart> loaded;
        for (size_t i = 0; i < parts_.size(); ++i) {
            const std::vector<Range> ranges = ranges_of(tensors, static_cast<int>(i));
            if (ranges.empty()) {
                loaded.emplace_back();
                continue;
            }
            loaded.push_back(use_mmap ? map_part(parts_[i], ranges, progress) : read_part(parts_[i], ranges, progress));
        }
        loaded_ = std::move(loaded);
    }

    void read(const TensorInfo & t, uint64_t first, void * dst, size_t n) const override {
        const ModelPart & part = parts_.at(static_cast<size_t>(t.part));
        if (part.file.read_some(t.offset + first, dst, n) != n) {
            check_size(part);
            throw Error(PYSPEC_FILE_FORMAT, part.file.path() + ": the file ended within tensor " + t.name);
        }
    }

    const void * data(const TensorInfo & tensor) const override {
        const LoadedPart & part = loaded_.at(static_cast<size_t>(tensor.part));
        return static_cast<const char *>(part.base()) + (tensor.offset - part.file_offset);
    }

    std::vector<Region> regions() const override {
        std::vector<Region> result;
        for (const LoadedPart & part : loaded_) result.push_back({part.base(), part.size()});
        return result;
    }

    void check_backing() const override {
        for (size_t i = 0; i < loaded_.size(); i++) {
            if (loaded_[i].mapping.valid()) check_size(parts_[i]);
        }
    }

private:
    // Bytes of a part in memory; file_offset is the position in the file of the first of them.
    struct LoadedPart {
        FileMapping mapping;
        AlignedBuffer buffer;
        uint64_t file_offset = 0;

        // Null and 0 for a part that is not used in place.
        void * base() const { return mapping.valid() ? mapping.base() : buffer.data(); }
        size_t size() const { return mapping.valid() ? mapping.size() : buffer.size(); }
    };

    const std::string & part_path(const TensorInfo & t) const {
        return parts_[static_cast<size_t>(t.part)].file.path();
    }

    // nullptr when absent.
    const MetaValue * find(std::string_view key) const {
        const auto it = metadata().find(key);
        return it == metadata().end() ? nullptr : &it->second;
    }
    const MetaValue * find(std::string_view key, MetaType type) const {
        const MetaValue * value = find(key);
        if (value != nullptr && value->type != type) throw_type(key, *value, meta_type_name(type));
        return value;
    }
    const MetaValue & require(std::string_view key, MetaType type) const {
        const MetaValue * value = find(key, type);
        if (value == nullptr) {
            throw Error(PYSPEC_FILE_FORMAT, format("%s: key %s is missing, expected a value of type %s", path_.c_str(),
                                                   quote_bytes(key).c_str(), meta_type_name(type)));
        }
        return *value;
    }
    [[noreturn]] void throw_type(std::string_view key, const MetaValue & value, const char * expected) const {
        throw Error(PYSPEC_FILE_FORMAT, format("%s: key %s has type %s, expected %s", path_.c_str(),
                                               quote_bytes(key).c_str(), describe_type(value).c_str(), expected));
    }

    void check_size() const {
        for (const ModelPart & part : parts_) check_size(part);
    }
    static void check_size(const ModelPart & part) {
        if (part.header.data_end == part.header.data_offset) return; // no tensor here
        const uint64_t now = part.file.current_size();
        if (now >= part.header.data_end) return;
        throw Error(
            PYSPEC_FILE_FORMAT,
            format("%s: the file was cut to %llu bytes while it was open; its tensors need %llu. Load it again from an "
                   "intact file",
                   part.file.path().c_str(), static_cast<ull>(now), static_cast<ull>(part.header.data_end)));
    }

    struct Range {
        uint64_t begin;
        uint64_t end;
    };
    // Where the tensors lie in a part, in the order of the file, neighbours joined.
    static std::vector<Range> ranges_of(const std::vector<const TensorInfo *> & tensors, int part) {
        constexpr uint64_t largest_gap = 4096;
        std::vector<Range> ranges;
        for (const TensorInfo * t : tensors) {
            if (t->part == part && t->bytes > 0) ranges.push_back({t->offset, t->offset + t->bytes});
        }
        std::sort(ranges.begin(), ranges.end(), [](const Range & a, const Range & b) { return a.begin < b.begin; });
        std::vector<Range> joined;
        for (const Range & range : ranges) {
            if (!joined.empty() && range.begin <= joined.back().end + largest_gap) {
                joined.back().end = std::max(joined.back().end, range.end);
            } else {
                joined.push_back(range);
            }
        }
        return joined;
    }

    static LoadedPart map_part(const ModelPart & part, const std::vector<Range> & ranges, LoadProgress & progress) {
        LoadedPart loaded;
        loaded.mapping = FileMapping::map(part.file);
        if (!loaded.mapping.valid()) {
            log_message(PYSPEC_LOG_WARN,
                        part.file.path() + ": this file system cannot map files; reading into memory instead");
            return read_part(part, ranges, progress);
        }
        for (const Range & range : ranges) loaded.mapping.populate(part.file, range.begin, range.end, progress);
        return loaded;
    }

    static LoadedPart read_part(const ModelPart & part, const std::vector<Range> & ranges, LoadProgress & progress) {
        LoadedPart loaded;
        uint64_t bytes = 0;
        for (const Range & range : ranges) bytes += range.end - range.begin;
        const uint64_t available = available_memory_bytes();
        // The kernel would promise the memory and end the process later.
        if (available > 0 && bytes > available) {
            throw Error(PYSPEC_OUT_OF_MEMORY,
                        format("%s: reading the weights needs %s, available are %s; use mmap or a smaller "
                               "model",
                               part.file.path().c_str(), byte_size(bytes).c_str(), byte_size(available).c_str()));
        }
        // Room for the whole part, so that places in the file are places in memory; what is not read is not resident.
        loaded.buffer      = AlignedBuffer(static_cast<size_t>(part.header.data_end - part.header.data_offset));
        loaded.file_offset = part.header.data_offset;
        for (const Range & range : ranges) {
            part.file.read_exactly(range.begin,
                                   static_cast<char *>(loaded.buffer.data()) + (range.begin - loaded.file_offset),
                                   static_cast<size_t>(range.end - range.begin), progress);
        }
        return loaded;
    }

    std::string path_;
    std::vector<ModelPart> parts_;
    std::vector<TensorInfo> tensors_;
    std::unordered_map<std::string_view, size_t> index_; // names live in tensors_
    uint64_t file_bytes_   = 0;
    uint64_t weight_bytes_ = 0;
    std::vector<LoadedPart> loaded_;
};

} // namespace

void ModelFile::load_data(bool use_mmap, Job * job) {
    std::vector<const TensorInfo *> all;
    for (const TensorInfo & t : tensors()) all.push_back(&t);
    LoadProgress progress(job, weight_bytes());
    load_data(use_mmap, all, progress);
    if (job != nullptr) job->progress.store(1.0, std::memory_order_relaxed);
}

std::unique_ptr<ModelFile> ModelFile::open(const std::string & path) {
    return std::make_unique<GgufModelFile>(path);
}

} // namespace pyspec
