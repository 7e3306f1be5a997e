// A GGUF model on disk, checked: metadata, tensor table over all parts of a split file, and access to the tensor bytes.
#pragma once

#include "support/job.h"
#include "support/mapped_file.h"

#include "ggml.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pyspec {

// Value types of the GGUF container; the numbers are the file's.
enum class MetaType : int32_t {
    u8      = 0,
    i8      = 1,
    u16     = 2,
    i16     = 3,
    u32     = 4,
    i32     = 5,
    f32     = 6,
    boolean = 7,
    string  = 8,
    array   = 9,
    u64     = 10,
    i64     = 11,
    f64     = 12,
};

const char * meta_type_name(MetaType type);

// One metadata value. Scalars sit in `bytes` as stored (little endian); strings and arrays are views into the mapped or
// owned header bytes of the file, which live as long as the ModelFile.
struct MetaValue {
    MetaType type;
    MetaType element;                      // for arrays
    uint64_t count = 1;                    // elements of an array, else 1
    std::string_view bytes;                // scalar or numeric array payload, or the string's bytes
    std::vector<std::string_view> strings; // elements of a string array
};

struct TensorInfo {
    std::string name;
    ggml_type type;
    int64_t ne[4];
    int n_dims;
    int part;        // which file
    uint64_t offset; // from the start of that file
    uint64_t bytes;
};

class ModelFile {
public:
    // Opens and checks the file and, for a split model, all its parts. Reads no tensor data. Throws Error.
    static std::unique_ptr<ModelFile> open(const std::string & path);
    virtual ~ModelFile() = default;

    virtual const std::string & path() const = 0;
    virtual uint64_t file_bytes() const      = 0; // all parts
    virtual uint64_t weight_bytes() const    = 0; // tensor data of all parts

    virtual const std::map<std::string, MetaValue, std::less<>> & metadata() const = 0; // of the first part
    virtual const std::vector<TensorInfo> & tensors() const                        = 0; // file order, all parts
    virtual const TensorInfo * find_tensor(std::string_view name) const            = 0;

    // Typed access. The strict ones throw FILE_FORMAT naming the key, what was found and what was expected; the stored
    // type must match exactly as llama.cpp demands (counts u32, epsilons f32, flags bool).
    virtual uint32_t get_u32(std::string_view key) const                 = 0;
    virtual float get_f32(std::string_view key) const                    = 0;
    virtual std::string_view get_str(std::string_view key) const         = 0;
    virtual std::optional<uint32_t> find_u32(std::string_view key) const = 0; // absent -> nullopt, wrong type -> throws
    virtual std::optional<float> find_f32(std::string_view key) const    = 0;
    virtual std::optional<bool> find_bool(std::string_view key) const    = 0;
    virtual std::optional<std::string_view> find_str(std::string_view key) const = 0;
    // Scalar or array of n entries (u32/i32): scalar is broadcast; another length throws. absent -> nullopt.
    virtual std::optional<std::vector<uint32_t>> find_u32_per_layer(std::string_view key, uint32_t n) const = 0;
    // bool / u32 / i32 array as flags; absent or a scalar -> nullopt. Length is not checked here.
    virtual std::optional<std::vector<bool>> find_flags(std::string_view key) const = 0;

    // Makes the bytes of these tensors available at their addresses: maps the parts and touches the tensors' pages
    // (use_mmap), or reads them into memory aligned to 64 bytes. Other tensors take no memory. May be called once.
    // Throws FILE_FORMAT when the data has shrunk since open, OUT_OF_MEMORY, CANCELLED through progress.
    virtual void load_data(bool use_mmap, const std::vector<const TensorInfo *> & tensors, LoadProgress & progress) = 0;
    // The same for all tensors; job may be null.
    void load_data(bool use_mmap, Job * job);
    // Reads n bytes of a tensor, from its byte `first` on, straight from the file. From any thread. Throws FILE_FORMAT.
    virtual void read(const TensorInfo & tensor, uint64_t first, void * dst, size_t n) const = 0;
    // Address of a tensor's bytes after load_data.
    virtual const void * data(const TensorInfo & tensor) const = 0;
    // Mapped or owned regions (for ggml_backend_cpu_buffer_from_ptr): one per part, [base, base + size).
    struct Region {
        void * base;
        size_t size;
    };
    virtual std::vector<Region> regions() const = 0;
    // Throws FILE_FORMAT when a mapped file has become shorter since load_data (a later access would be a bus error).
    // Cheap.
    virtual void check_backing() const = 0;
};

// {"metadata": …, "tensors": …} as pyspec_core.h documents it.
std::string describe_json(const ModelFile & file);

} // namespace pyspec
