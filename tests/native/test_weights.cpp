// Reading GGUF files: values, tensors, loading, and a refusal with a clear message for each kind of wrong file.
// Case C097 (not a model at all): abetlen/llama-cpp-python#755, ggml-org/llama.cpp#2629, augmentedmike/miniclaw-os#495.
// Case C100 (cut short): oobabooga/textgen#6080.
#include "check.h"
#include "gguf_bytes.h"

#include "kernels/instruction_set.h"
#include "kernels/packed_format.h"
#include "support/log.h"
#include "weights/gguf_reader.h"
#include "weights/packing.h"

#include <functional>
#include <limits>

#include <sys/stat.h>
#include <unistd.h>

using namespace pyspec;
using namespace gguf_bytes;
namespace fs = std::filesystem;

namespace {

constexpr int32_t F32 = GGML_TYPE_F32, Q4_0 = GGML_TYPE_Q4_0, Q6_K = GGML_TYPE_Q6_K;

// Two tensors, 32 * 4 f32 and 64 * 3 in Q4_0.
File small() {
    File f;
    f.str("general.architecture", "llama").u32("llama.block_count", 2);
    f.tensor("a.weight", {32, 4}, F32, pattern(512)).tensor("b.weight", {64, 3}, Q4_0, pattern(108, 2));
    return f;
}

size_t open_files() {
    return static_cast<size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

void drain_log() {
    while (log_poll()) {
    }
}

// ------------------------------------------------------------------------------------------------------------- values

void test_values(const Scratch & dir) {
    File f;
    f.key("k.u8", MetaType::u8, raw<uint8_t>(200)).key("k.i8", MetaType::i8, raw<int8_t>(-5));
    f.u16("k.u16", 60000)
        .key("k.i16", MetaType::i16, raw<int16_t>(-300))
        .u32("k.u32", 4000000000u)
        .i32("k.i32", -70000);
    f.f32("k.f32", 1e-6f).flag("k.true", true).flag("k.false", false).str("k.str", "a\"b\\c\n\x01 \xc3\xa9");
    f.key("k.u64", MetaType::u64, raw<uint64_t>(1ull << 63)).key("k.i64", MetaType::i64, raw<int64_t>(-1));
    f.key("k.f64", MetaType::f64, raw(0.1)).f32("k.nan", std::numeric_limits<float>::quiet_NaN());
    f.strings("a.str", {"x", "", "zz"}).numbers<int32_t>("a.i32", MetaType::i32, {1, -2, 3});
    f.numbers<uint32_t>("a.u32", MetaType::u32, {4, 5, 6}).numbers<uint8_t>("a.bool", MetaType::boolean, {1, 0, 1});
    f.numbers<float>("a.f32", MetaType::f32, std::vector<float>(65, 0.5f)).numbers<float>("a.none", MetaType::f32, {});
    f.tensor("t", {32, 2}, F32, pattern(256));
    const auto m = ModelFile::open(dir.write("values.gguf", f.build()));

    CHECK_EQ(m->get_u32("k.u32"), 4000000000u);
    CHECK_EQ(m->get_f32("k.f32"), 1e-6f);
    CHECK_EQ(m->get_str("k.str"), "a\"b\\c\n\x01 \xc3\xa9");
    CHECK_EQ(m->get_str("k.str").data()[m->get_str("k.str").size()], '\0');
    CHECK(m->find_u32("k.u32") == 4000000000u);
    CHECK(m->find_f32("k.f32") == 1e-6f);
    CHECK(m->find_bool("k.true") == true);
    CHECK(m->find_bool("k.false") == false);
    CHECK(m->find_str("k.str").has_value());
    CHECK(!m->find_u32("no") && !m->find_f32("no") && !m->find_bool("no") && !m->find_str("no"));
    CHECK(!m->find_u32_per_layer("no", 3) && !m->find_flags("no") && !m->find_flags("k.u32"));
    CHECK(m->find_u32_per_layer("k.u32", 2) == std::vector<uint32_t>(2, 4000000000u));
    CHECK(m->find_u32_per_layer("a.u32", 3) == (std::vector<uint32_t>{4, 5, 6}));
    CHECK(m->find_flags("a.bool") == (std::vector<bool>{true, false, true}));
    CHECK(m->find_flags("a.i32") == (std::vector<bool>{true, true, true}));

    CHECK_ERROR(m->get_u32("no"), PYSPEC_FILE_FORMAT, "key 'no' is missing, expected a value of type u32");
    CHECK_ERROR(m->get_u32("k.i32"), PYSPEC_FILE_FORMAT, "key 'k.i32' has type i32, expected u32");
    CHECK_ERROR(m->get_f32("k.f64"), PYSPEC_FILE_FORMAT, "key 'k.f64' has type f64, expected f32");
    CHECK_ERROR(m->get_str("a.str"), PYSPEC_FILE_FORMAT, "key 'a.str' has type array of 3 string, expected string");
    CHECK_ERROR(m->find_u32("k.u64"), PYSPEC_FILE_FORMAT, "expected u32");
    CHECK_ERROR(m->find_bool("k.u8"), PYSPEC_FILE_FORMAT, "expected bool");
    CHECK_ERROR(m->find_u32_per_layer("a.u32", 4), PYSPEC_FILE_FORMAT, "key 'a.u32' has 3 entries, expected 4");
    CHECK_ERROR(m->find_u32_per_layer("a.i32", 3), PYSPEC_FILE_FORMAT, "key 'a.i32' is negative for block 1");
    CHECK_ERROR(m->find_u32_per_layer("a.f32", 65), PYSPEC_FILE_FORMAT, "expected u32, i32 or an array of them");
    CHECK_ERROR(m->find_flags("a.str"), PYSPEC_FILE_FORMAT, "expected an array of bool, u32 or i32");

    CHECK_EQ(describe_json(*m),
             "{\"metadata\": {\"a.bool\": [true, false, true], \"a.f32\": {\"array\": \"f32\", \"length\": 65}, "
             "\"a.i32\": [1, -2, 3], \"a.none\": [], \"a.str\": [\"x\", \"\", \"zz\"], \"a.u32\": [4, 5, 6], "
             "\"k.f32\": 1e-06, \"k.f64\": 0.1, \"k.false\": false, \"k.i16\": -300, \"k.i32\": -70000, \"k.i64\": -1, "
             "\"k.i8\": -5, \"k.nan\": null, \"k.str\": \"a\\\"b\\\\c\\u000a\\u0001 \xc3\xa9\", \"k.true\": true, "
             "\"k.u16\": 60000, \"k.u32\": 4000000000, \"k.u64\": 9223372036854775808, \"k.u8\": 200}, "
             "\"tensors\": [{\"name\": \"t\", \"type\": \"f32\", \"shape\": [32, 2], \"bytes\": 256, \"part\": 0}]}");

    File odd;
    odd.key("b", MetaType::boolean, "\2");
    const auto bad = ModelFile::open(dir.write("bool.gguf", odd.build()));
    CHECK_ERROR(bad->find_bool("b"), PYSPEC_FILE_FORMAT, "key 'b' of type bool holds 2");
}

// ------------------------------------------------------------------------------------------------------------ tensors

void test_tensors(const Scratch & dir) {
    const std::string path = dir.write("small.gguf", small().build());
    for (const bool use_mmap : {true, false}) {
        const auto m = ModelFile::open(path);
        CHECK_EQ(m->path(), path);
        CHECK_EQ(m->file_bytes(), fs::file_size(path));
        CHECK_EQ(m->weight_bytes(), 512u + 108u);
        CHECK_EQ(m->tensors().size(), 2u);
        const TensorInfo * b = m->find_tensor("b.weight");
        CHECK(b != nullptr && m->find_tensor("c.weight") == nullptr);
        CHECK(b->type == GGML_TYPE_Q4_0 && b->n_dims == 2 && b->ne[0] == 64 && b->ne[1] == 3 && b->ne[2] == 1 &&
              b->ne[3] == 1);
        CHECK_EQ(b->bytes, 108u);
        Job job;
        m->load_data(use_mmap, &job);
        CHECK_EQ(job.progress.load(), 1.0);
        CHECK(std::memcmp(m->data(m->tensors()[0]), pattern(512).data(), 512) == 0);
        CHECK(std::memcmp(m->data(*b), pattern(108, 2).data(), 108) == 0);
        const auto regions = m->regions();
        CHECK_EQ(regions.size(), 1u);
        CHECK_EQ(reinterpret_cast<uintptr_t>(regions[0].base) % 64, 0u);
        CHECK_EQ(regions[0].size, use_mmap ? fs::file_size(path) : 512u + 108u);
        for (const TensorInfo & t : m->tensors()) {
            const auto at = static_cast<const char *>(m->data(t)) - static_cast<const char *>(regions[0].base);
            CHECK(at >= 0 && static_cast<size_t>(at) + t.bytes <= regions[0].size && at % 32 == 0);
        }
        m->check_backing();
        CHECK_ERROR(m->load_data(use_mmap, nullptr), PYSPEC_INTERNAL, "twice");
    }
    File aligned;
    aligned.alignment = 4096;
    aligned.u32("general.alignment", 4096).tensor("x", {8}, F32, pattern(32)).tensor("y", {8}, F32, pattern(32, 3));
    const auto m = ModelFile::open(dir.write("aligned.gguf", aligned.build()));
    m->load_data(true, nullptr);
    CHECK_EQ(reinterpret_cast<uintptr_t>(m->data(m->tensors()[1])) % 4096, 0u);
    CHECK(std::memcmp(m->data(m->tensors()[1]), pattern(32, 3).data(), 32) == 0);

    File version2    = small();
    version2.version = 2;
    CHECK_EQ(ModelFile::open(dir.write("v2.gguf", version2.build()))->tensors().size(), 2u);
    const auto none = ModelFile::open(dir.write("none.gguf", File().str("general.architecture", "x").build()));
    none->load_data(true, nullptr); // a vocabulary-only file has no tensors and no data section
    none->check_backing();
    CHECK_EQ(none->weight_bytes(), 0u);
    File scalar;
    scalar.tensor("s", {}, F32, pattern(4)).tensor("i", {5}, GGML_TYPE_I64, pattern(40));
    const auto side = ModelFile::open(dir.write("scalar.gguf", scalar.build()));
    CHECK_EQ(side->tensors()[0].bytes, 4u);
    CHECK(is_weight_type(GGML_TYPE_Q4_K) && is_weight_type(GGML_TYPE_BF16) && is_weight_type(GGML_TYPE_MXFP4));
    CHECK(!is_weight_type(GGML_TYPE_I32) && !is_weight_type(GGML_TYPE_F64) && !is_weight_type(GGML_TYPE_Q8_K));
}

// ------------------------------------------------------------------------------------------------------ damaged files

struct BadFile {
    const char * what;
    pyspec_status status;
    const char * message;
    std::function<void(File &)> change;
};

const BadFile bad_files[] = {
    {"version 1", PYSPEC_UNSUPPORTED, "GGUF version 1", [](File & f) { f.version = 1; }},
    {"version 4", PYSPEC_UNSUPPORTED, "GGUF version 4; this build reads versions 2 and 3",
     [](File & f) { f.version = 4; }},
    {"version 0", PYSPEC_FILE_FORMAT, "GGUF version 0", [](File & f) { f.version = 0; }},
    {"big endian", PYSPEC_UNSUPPORTED, "big-endian", [](File & f) { f.version = 0x03000000; }},
    {"negative keys", PYSPEC_FILE_FORMAT, "-1 metadata keys", [](File & f) { f.n_keys = -1; }},
    {"negative tensors", PYSPEC_FILE_FORMAT, "-7 tensors", [](File & f) { f.n_tensors = -7; }},
    {"huge keys", PYSPEC_FILE_FORMAT, "9223372036854775807 metadata keys", [](File & f) { f.n_keys = INT64_MAX; }},
    {"huge tensors", PYSPEC_FILE_FORMAT, "4611686018427387904 tensors", [](File & f) { f.n_tensors = 1ll << 62; }},
    {"one key too many", PYSPEC_FILE_FORMAT, "damaged: ", [](File & f) { f.n_keys++; }},
    {"one tensor too many", PYSPEC_FILE_FORMAT, "in tensor 3 of 3", [](File & f) { f.n_tensors++; }},
    {"empty key", PYSPEC_FILE_FORMAT, "key of 0 bytes", [](File & f) { f.u32("", 1); }},
    {"long key", PYSPEC_FILE_FORMAT, "key of 65536 bytes", [](File & f) { f.u32(std::string(65536, 'k'), 1); }},
    {"key with NUL", PYSPEC_FILE_FORMAT, "'a\\x00b' contains a zero byte",
     [](File & f) { f.u32(std::string("a\0b", 3), 1); }},
    {"key twice", PYSPEC_FILE_FORMAT, "key 'llama.block_count' appears twice",
     [](File & f) { f.u32("llama.block_count", 2); }},
    {"value type 13", PYSPEC_FILE_FORMAT, "value type 13",
     [](File & f) { f.key("k", static_cast<MetaType>(13), raw(1)); }},
    {"value type -1", PYSPEC_FILE_FORMAT, "value of key 'k'",
     [](File & f) { f.key("k", static_cast<MetaType>(-1), raw(1)); }},
    {"huge string", PYSPEC_FILE_FORMAT, "bytes of text",
     [](File & f) { f.key("k", MetaType::string, raw(UINT64_MAX)); }},
    {"huge array", PYSPEC_FILE_FORMAT, "18446744073709551615 elements",
     [](File & f) { f.key("k", MetaType::array, type_number(MetaType::f64) + raw(UINT64_MAX)); }},
    {"huge product", PYSPEC_FILE_FORMAT, "2305843009213693953 elements",
     [](File & f) { f.key("k", MetaType::array, type_number(MetaType::u64) + raw((1ull << 61) + 1)); }},
    {"huge string array", PYSPEC_FILE_FORMAT, "1152921504606846976 strings",
     [](File & f) { f.key("k", MetaType::array, type_number(MetaType::string) + raw(1ull << 60)); }},
    {"nested array", PYSPEC_FILE_FORMAT, "arrays of arrays",
     [](File & f) { f.key("k", MetaType::array, type_number(MetaType::array) + raw<uint64_t>(1)); }},
    {"element type 99", PYSPEC_FILE_FORMAT, "element type 99",
     [](File & f) { f.key("k", MetaType::array, type_number(static_cast<MetaType>(99)) + raw<uint64_t>(1)); }},
    {"alignment 0", PYSPEC_FILE_FORMAT, "'general.alignment' is 0", [](File & f) { f.u32("general.alignment", 0); }},
    {"alignment 4", PYSPEC_FILE_FORMAT, "power of two of at least 8", [](File & f) { f.u32("general.alignment", 4); }},
    {"alignment 48", PYSPEC_FILE_FORMAT, "'general.alignment' is 48", [](File & f) { f.u32("general.alignment", 48); }},
    {"alignment 2^31", PYSPEC_FILE_FORMAT, "cut short",
     [](File & f) { f.u32("general.alignment", 1u << 31).table.clear(), f.n_tensors = 0, f.entry("t", {8}, F32, 0); }},
    {"alignment u64", PYSPEC_FILE_FORMAT, "expected u32",
     [](File & f) { f.key("general.alignment", MetaType::u64, raw<uint64_t>(32)); }},
    {"quantization version", PYSPEC_UNSUPPORTED, "block layout version 1",
     [](File & f) { f.u32("general.quantization_version", 1); }},
    {"tensor twice", PYSPEC_FILE_FORMAT, "tensor 'a.weight' appears twice",
     [](File & f) { f.tensor("a.weight", {32}, F32, pattern(128)); }},
    {"empty name", PYSPEC_FILE_FORMAT, "tensor name of 0 bytes",
     [](File & f) { f.tensor("", {32}, F32, pattern(128)); }},
    {"long name", PYSPEC_FILE_FORMAT, "tensor name of 64 bytes",
     [](File & f) { f.tensor(std::string(64, 'n'), {32}, F32, pattern(128)); }},
    {"name with NUL", PYSPEC_FILE_FORMAT, "zero byte",
     [](File & f) { f.tensor(std::string("n\0m", 3), {32}, F32, pattern(128)); }},
    {"five dimensions", PYSPEC_FILE_FORMAT, "tensor of 5 dimensions",
     [](File & f) { f.tensor("t", {2, 2, 2, 2, 2}, F32, pattern(128)); }},
    {"dimension 0", PYSPEC_FILE_FORMAT, "tensor 't' has shape {32, 0}",
     [](File & f) { f.tensor("t", {32, 0}, F32, ""); }},
    {"dimension -32", PYSPEC_FILE_FORMAT, "tensor 't' has shape {-32}",
     [](File & f) { f.tensor("t", {-32}, F32, ""); }},
    {"product 2^64", PYSPEC_FILE_FORMAT, "has shape {4294967296, 4294967296}",
     [](File & f) { f.tensor("t", {1ll << 32, 1ll << 32}, F32, ""); }},
    {"bytes 2^63", PYSPEC_FILE_FORMAT, "more than can be stored",
     [](File & f) { f.tensor("t", {1ll << 61}, F32, ""); }},
    {"four factors", PYSPEC_FILE_FORMAT, "damaged: tensor 't'",
     [](File & f) { f.tensor("t", {65536, 65536, 65536, 65536}, F32, ""); }},
    {"row of 48", PYSPEC_FILE_FORMAT, "rows of 48 elements, expected a multiple of 32",
     [](File & f) { f.tensor("t", {48, 2}, Q4_0, pattern(128)); }},
    {"row of 128", PYSPEC_FILE_FORMAT, "type q6_K has rows of 128 elements, expected a multiple of 256",
     [](File & f) { f.tensor("t", {128, 2}, Q6_K, pattern(512)); }},
    {"offset 1", PYSPEC_FILE_FORMAT, "starts at 1, expected a multiple of 32",
     [](File & f) { f.entry("t", {1}, F32, 1); }},
    {"offset 2^63", PYSPEC_FILE_FORMAT, "starts at 9223372036854775808",
     [](File & f) { f.entry("t", {1}, F32, 1ull << 63); }},
    {"offset 2^64-32", PYSPEC_FILE_FORMAT, "damaged", [](File & f) { f.entry("t", {8}, F32, UINT64_MAX - 31); }},
    {"same place", PYSPEC_FILE_FORMAT, "overlap", [](File & f) { f.entry("t", {32}, F32, 0); }},
    {"half inside", PYSPEC_FILE_FORMAT, "tensors 'a.weight' and 't' overlap",
     [](File & f) { f.entry("t", {8}, F32, 480); }},
    {"beyond the end", PYSPEC_FILE_FORMAT, "cut short", [](File & f) { f.entry("t", {8}, F32, 640); }},
};

void test_bad_files(const Scratch & dir) {
    for (const BadFile & bad : bad_files) {
        File f = small();
        bad.change(f);
        const std::string path = dir.write("bad.gguf", f.build());
        bool ok                = false;
        std::string got        = "no error";
        try {
            ModelFile::open(path);
        } catch (const Error & error) {
            got = error.message();
            ok  = error.status() == bad.status && got.find(bad.message) != got.npos && got.rfind(path, 0) == 0;
        }
        CHECK(ok);
        if (!ok) std::cerr << "  " << bad.what << ": " << got << "\n";
    }
    File unquantised; // the block layout only matters where there are blocks
    unquantised.u32("general.quantization_version", 1).tensor("t", {8}, F32, pattern(32));
    CHECK_EQ(ModelFile::open(dir.write("f32.gguf", unquantised.build()))->tensors().size(), 1u);
}

void test_tensor_types(const Scratch & dir) {
    for (int32_t type = -2; type < 300; type = type == 60 ? 250 : type + 1) {
        File f;
        const bool known   = type >= 0 && type < GGML_TYPE_COUNT && ggml_type_size(static_cast<ggml_type>(type)) > 0;
        const bool allowed = known && type != GGML_TYPE_Q8_1 && type != GGML_TYPE_Q8_K;
        const auto bytes   = known ? ggml_row_size(static_cast<ggml_type>(type), 256) * 2 : 64;
        f.tensor("odd.weight", {256, 2}, type, pattern(bytes));
        const std::string path = dir.write("type.gguf", f.build());
        if (allowed) {
            CHECK_EQ(ModelFile::open(path)->weight_bytes(), bytes);
        } else {
            CHECK_ERROR(ModelFile::open(path), PYSPEC_UNSUPPORTED,
                        "tensor 'odd.weight' has type number " + std::to_string(type));
        }
    }
}

// C097: what people really open by mistake.
void test_not_gguf(const Scratch & dir) {
    using namespace std::string_literals;
    const struct {
        std::string bytes;
        const char * message;
    } files[] = {
        {"", "empty (0 bytes)"},
        {"GGU", "3 bytes, first bytes 'GGU'"},
        {"\n <!DOCTYPE html><html></html>", "web page"},
        {"<html><body>404</body></html>", "web page"},
        {"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"},
        {"lmgg" + pattern(100), "old GGML model"},
        {"tjgg" + pattern(100), "old GGML model"},
        {"PK\x03\x04" + pattern(100), "zip archive"},
        {"\x1f\x8b\x08" + pattern(100), "compressed archive"},
        {"\x50\x10\0\0\0\0\0\0{\"model.embed\":"s, "safetensors"},
        {"{\"error\": \"not found\"}", "JSON"},
        {std::string(4096, '\0'), "starts with zeros"},
        {"\x80\x02}q\0"s + pattern(100), "pickle"},
        {"FUGG" + pattern(100), "first bytes 'FUGG"},
        {pattern(20000, 9), "not a GGUF file: 19.5 KiB (20000 bytes)"},
    };
    const size_t before = open_files();
    for (const auto & file : files) {
        const std::string path = dir.write("page.gguf", file.bytes);
        CHECK_ERROR(ModelFile::open(path), PYSPEC_FILE_FORMAT, file.message);
        CHECK_ERROR(ModelFile::open(path), PYSPEC_FILE_FORMAT, path);
    }
    CHECK_ERROR(ModelFile::open(dir.path("absent.gguf")), PYSPEC_FILE_FORMAT, "absent.gguf: no such file");
    CHECK_ERROR(ModelFile::open(""), PYSPEC_FILE_FORMAT, "path is empty");
    fs::create_directory(dir.path("folder"));
    CHECK_ERROR(ModelFile::open(dir.path("folder")), PYSPEC_FILE_FORMAT, "is a directory");
    fs::create_symlink(dir.path("gone.gguf"), dir.path("link.gguf"));
    CHECK_ERROR(ModelFile::open(dir.path("link.gguf")), PYSPEC_FILE_FORMAT, "link to a file that does not exist");
    CHECK_EQ(mkfifo(dir.path("pipe.gguf").c_str(), 0600), 0);
    CHECK_ERROR(ModelFile::open(dir.path("pipe.gguf")), PYSPEC_FILE_FORMAT, "not a regular file");
    CHECK_ERROR(ModelFile::open("/dev/null"), PYSPEC_FILE_FORMAT, "not a regular file");
    CHECK_ERROR(ModelFile::open(dir.write("plain", "x") + "/model.gguf"), PYSPEC_FILE_FORMAT, "cannot be opened: ");
    CHECK_EQ(open_files(), before);
}

// ------------------------------------------------------------------------------------------------- cut short, cancel

void test_cut_while_open(const Scratch & dir) {
    File big = small();
    big.tensor("c.weight", {1024, 64}, F32, pattern(1024 * 64 * 4));
    const std::string bytes = big.build();
    for (const bool use_mmap : {true, false}) {
        for (const size_t size : {bytes.size() - 1, bytes.size() / 2, size_t{100}, size_t{0}}) {
            const std::string path = dir.write("cut.gguf", bytes);
            auto m                 = ModelFile::open(path);
            fs::resize_file(path, size);
            CHECK_ERROR(m->load_data(use_mmap, nullptr), PYSPEC_FILE_FORMAT, "while it was open");
            dir.write("cut.gguf", bytes);
            m = ModelFile::open(path);
            m->load_data(use_mmap, nullptr);
            m->check_backing();
            fs::resize_file(path, size);
            if (use_mmap) {
                CHECK_ERROR(m->check_backing(), PYSPEC_FILE_FORMAT, "cut to " + std::to_string(size));
            } else { // the bytes were copied
                m->check_backing();
                CHECK(std::memcmp(m->data(m->tensors()[0]), pattern(512).data(), 512) == 0);
            }
        }
    }
    // A replaced file keeps the old content for those who have it open.
    const std::string path = dir.write("replaced.gguf", bytes);
    const auto m           = ModelFile::open(path);
    m->load_data(true, nullptr);
    fs::rename(dir.write("other.gguf", "x"), path);
    m->check_backing();
    CHECK(std::memcmp(m->data(m->tensors()[0]), pattern(512).data(), 512) == 0);
}

void test_cancel(const Scratch & dir) {
    const std::string path = dir.write("cancel.gguf", small().build());
    for (const bool use_mmap : {true, false}) {
        const size_t before = open_files();
        {
            const auto m = ModelFile::open(path);
            Job job;
            job.cancelled = true;
            CHECK_ERROR(m->load_data(use_mmap, &job), PYSPEC_CANCELLED, "loading the model was cancelled");
            m->load_data(use_mmap, nullptr); // a new attempt is fine
            CHECK(std::memcmp(m->data(m->tensors()[0]), pattern(512).data(), 512) == 0);
        }
        CHECK_EQ(open_files(), before);
    }
}

void test_packing(const Scratch & dir) {
    const auto m         = ModelFile::open(dir.write("packing.gguf", small().build()));
    const auto loader    = [&](ggml_context * meta) { return TensorLoader(*m, meta); };
    ggml_context * meta  = ggml_init({8 * ggml_tensor_overhead(), nullptr, true});
    TensorLoader tensors = loader(meta);
    ggml_tensor * a      = tensors.matrix("a.weight", {32, 4});
    ggml_tensor * b      = tensors.linear("b.weight", {64, 3});
    const TileSet & set  = find_tile_set("");
    PackedWeights packed(tensors, set);
    CHECK(packed_of(a) == nullptr && packed_of(b) != nullptr);
    CHECK(packed.holds(a) && packed.holds(b)); // a small tensor lies beside, as it is
    CHECK_EQ(packed.matrix_bytes(), packed_bytes(GGML_TYPE_Q4_0, 64, 3));
    LoadProgress silent(nullptr, 0);
    packed.load(*m, 3, silent);
    CHECK(std::memcmp(a->data, pattern(512).data(), 512) == 0);
    for (int64_t row = 0; row < 3; ++row) {
        for (int64_t block = 0; block < 2; ++block) {
            uint8_t bytes[max_gguf_block];
            unpack_block(GGML_TYPE_Q4_0, packed_of(b)->layout, packed_of(b)->data, row, block, bytes);
            CHECK(std::memcmp(bytes, pattern(108, 2).data() + 36 * row + 18 * block, 18) == 0);
        }
    }

    // Used by ggml's operations too: it stays in the form they know.
    ggml_context * other = ggml_init({8 * ggml_tensor_overhead(), nullptr, true});
    TensorLoader both    = loader(other);
    ggml_tensor * b_both = both.linear("b.weight", {64, 3});
    CHECK(both.matrix("b.weight", {64, 3}) == b_both);
    CHECK_EQ(PackedWeights(both, set).matrix_bytes(), 0u);
    CHECK(packed_of(b_both) == nullptr);

    // Cancelled while it packs, whichever thread takes the work; a new attempt is fine.
    ggml_context * third = ggml_init({8 * ggml_tensor_overhead(), nullptr, true});
    TensorLoader alone   = loader(third);
    alone.linear("b.weight", {64, 3});
    PackedWeights again(alone, set);
    for (const int n_threads : {1, 2}) {
        Job job;
        job.cancelled = true;
        LoadProgress progress(&job, m->weight_bytes());
        CHECK_ERROR(again.load(*m, n_threads, progress), PYSPEC_CANCELLED, "loading the model was cancelled");
        Job whole;
        LoadProgress counted(&whole, 108);
        again.load(*m, n_threads, counted);
        CHECK(whole.progress.load() >= 1.0);
    }
    for (ggml_context * context : {meta, other, third}) {
        ggml_free(context);
    }
}

void test_trailing_bytes(const Scratch & dir) {
    drain_log();
    ModelFile::open(dir.write("padded.gguf", small().build() + std::string(20, '\0'))); // writers pad the last tensor
    CHECK(!log_poll().has_value());
    ModelFile::open(dir.write("junk.gguf", small().build() + std::string(100, 'j')));
    const auto line = log_poll();
    CHECK(line && line->level == PYSPEC_LOG_WARN &&
          line->text.find("80 bytes after the last tensor") != line->text.npos);
}

} // namespace

int main(int argc, char ** argv) {
    const Scratch dir(argc, argv);
    test_values(dir);
    test_tensors(dir);
    test_bad_files(dir);
    test_tensor_types(dir);
    test_not_gguf(dir);
    test_cut_while_open(dir);
    test_cancel(dir);
    test_packing(dir);
    test_trailing_bytes(dir);
    return check_report();
}
