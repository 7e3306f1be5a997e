// Damaged files in bulk: every cut and every flipped bit of a header is either read or refused with an Error; memory is
// never reserved on the word of a count. Meant to run under the sanitizers too.
// Case C100 (download cut short): oobabooga/textgen#6080.
#include "check.h"
#include "gguf_bytes.h"

#include "weights/vocabulary.h"

#include <atomic>
#include <new>

#include <fcntl.h>
#include <unistd.h>

using namespace pyspec;
using namespace gguf_bytes;

// ------------------------------------------------------------------------------------ largest allocation of one
// attempt

namespace {
std::atomic<size_t> largest_allocation{0};

void * allocate(size_t n) {
    size_t seen = largest_allocation.load();
    while (n > seen && !largest_allocation.compare_exchange_weak(seen, n)) {
    }
    if (void * p = std::malloc(n > 0 ? n : 1)) return p;
    throw std::bad_alloc();
}
} // namespace

void * operator new(size_t n) {
    return allocate(n);
}
void * operator new[](size_t n) {
    return allocate(n);
}
void operator delete(void * p) noexcept {
    std::free(p);
}
void operator delete[](void * p) noexcept {
    std::free(p);
}
void operator delete(void * p, size_t) noexcept {
    std::free(p);
}
void operator delete[](void * p, size_t) noexcept {
    std::free(p);
}

namespace {

constexpr size_t MANY_BYTES = 3u << 20; // above the reading window and the arena blocks, far below any lying count

// A file with every kind of value, a small vocabulary and three tensors.
File model() {
    File f;
    f.str("general.architecture", "llama").u32("general.alignment", 32).u32("general.quantization_version", 2);
    f.key("k.u8", MetaType::u8, "\1")
        .key("k.i16", MetaType::i16, raw<int16_t>(-2))
        .flag("k.bool", true)
        .f32("k.f32", 0.5f);
    f.key("k.u64", MetaType::u64, raw<uint64_t>(5)).key("k.f64", MetaType::f64, raw(0.25));
    f.numbers<int32_t>("k.list", MetaType::i32, {1, 2, 3});
    f.str("tokenizer.ggml.model", "gpt2").str("tokenizer.ggml.pre", "qwen2");
    f.strings("tokenizer.ggml.tokens", {"a", "b", "ab", "<|im_end|>", "", "\xc4\xa0x"});
    f.numbers<int32_t>("tokenizer.ggml.token_type", MetaType::i32, {1, 1, 1, 3, 5, 1});
    f.numbers<float>("tokenizer.ggml.scores", MetaType::f32, {0, 0, 0, 0, 0, 0});
    f.strings("tokenizer.ggml.merges", {"a b"}).u32("tokenizer.ggml.eos_token_id", 3);
    f.tensor("token_embd.weight", {32, 6}, GGML_TYPE_Q8_0, pattern(204));
    f.tensor("output_norm.weight", {32}, GGML_TYPE_F32, pattern(128));
    f.tensor("blk.0.ffn.weight", {32, 4, 2}, GGML_TYPE_F16, pattern(512));
    return f;
}

unsigned sum = 0; // keeps the reads alive

// Opens the file and looks at everything in it. True: read; false: refused with one of the two statuses for files.
bool use(const std::string & path) {
    try {
        const auto m = ModelFile::open(path);
        sum += static_cast<unsigned>(describe_json(*m).size());
        for (const auto & [key, value] : m->metadata()) {
            try {
                sum += m->find_u32(key).value_or(1);
            } catch (const Error & error) {
                if (error.status() != PYSPEC_FILE_FORMAT) throw;
            }
        }
        if (const auto vocab = read_vocabulary(*m)) {
            for (int32_t id = 0; id < vocab->n_tokens; ++id) {
                sum += static_cast<unsigned>(vocab->piece(id, id % 2 == 0).size()) + vocab->is_eog(id);
            }
        }
        for (const bool use_mmap : {true, false}) {
            const auto again = ModelFile::open(path);
            again->load_data(use_mmap, nullptr);
            for (const TensorInfo & t : again->tensors()) {
                const auto * bytes = static_cast<const unsigned char *>(again->data(t));
                for (uint64_t i = 0; i < t.bytes; ++i) sum += bytes[i];
            }
        }
        return true;
    } catch (const Error & error) {
        CHECK(error.status() == PYSPEC_FILE_FORMAT || error.status() == PYSPEC_UNSUPPORTED);
        CHECK(error.message().rfind(path + ": ", 0) == 0 && error.message().size() > path.size() + 10);
        return false;
    }
}

void test_every_cut(const Scratch & dir) {
    const File f            = model();
    const std::string bytes = f.build();
    const std::string path  = dir.write("cut.gguf", bytes);
    CHECK(use(path));
    for (size_t size = bytes.size(); size-- > 0;) {
        std::filesystem::resize_file(path, size);
        CHECK(!use(path));
    }
    // Only padding after the last tensor may be missing.
    const std::string padded = bytes + std::string(20, '\0');
    dir.write("cut.gguf", padded);
    for (size_t size = padded.size(); size >= bytes.size(); --size) {
        std::filesystem::resize_file(path, size);
        CHECK(use(path));
    }
}

void test_large_cuts(const Scratch & dir) {
    File f = model();
    for (int i = 0; i < 4; ++i)
        f.tensor("big." + std::to_string(i), {1024, 300}, GGML_TYPE_F32, pattern(1024 * 300 * 4));
    const std::string bytes = f.build();
    const std::string path  = dir.write("large.gguf", bytes);
    CHECK(use(path));
    for (const size_t size : {bytes.size() - 1, bytes.size() * 9 / 10, bytes.size() / 2, bytes.size() / 10}) {
        std::filesystem::resize_file(path, size);
        CHECK_ERROR(ModelFile::open(path), PYSPEC_FILE_FORMAT, "the download is incomplete");
    }
}

// A file changed in place: making thousands of files would take most of the time.
class Patched {
public:
    Patched(std::string path, const std::string & bytes)
        : path_(std::move(path)), bytes_(bytes), fd_(open(path_.c_str(), O_WRONLY)) {
        CHECK(fd_ >= 0);
    }
    Patched(const Patched &)             = delete;
    Patched & operator=(const Patched &) = delete;
    ~Patched() { close(fd_); }

    // use() with these bytes at this place; afterwards the file is as before.
    bool use_with(size_t at, std::string_view patch) const {
        put(at, patch);
        largest_allocation = 0;
        const bool read    = use(path_);
        CHECK(largest_allocation < MANY_BYTES);
        put(at, std::string_view(bytes_).substr(at, patch.size()));
        return read;
    }

private:
    void put(size_t at, std::string_view patch) const {
        CHECK(pwrite(fd_, patch.data(), patch.size(), static_cast<off_t>(at)) == static_cast<ssize_t>(patch.size()));
    }

    std::string path_;
    const std::string & bytes_;
    int fd_;
};

// One bit at a time, over header, keys, table and the padding after it.
void test_every_bit(const Scratch & dir) {
    const File f            = model();
    const std::string bytes = f.build();
    const size_t header     = bytes.size() - f.data.size();
    const std::string path  = dir.write("bits.gguf", bytes);
    const Patched file(path, bytes);
    int n_read = 0;
    for (size_t i = 0; i < header; ++i) {
        for (int bit = 0; bit < 8; ++bit)
            n_read += file.use_with(i, std::string(1, static_cast<char>(bytes[i] ^ (1 << bit))));
    }
    CHECK(use(path));
    std::printf("bit flips: %zu tried, %d harmless\n", header * 8, n_read);
    CHECK(n_read > 100); // texts and numbers that mean nothing here
}

// All bytes of a count or length set to values that lie, one field at a time, wherever the file has eight bytes in a
// row.
void test_wild_numbers(const Scratch & dir) {
    const File f            = model();
    const std::string bytes = f.build();
    const size_t header     = bytes.size() - f.data.size();
    const Patched file(dir.write("wild.gguf", bytes), bytes);
    for (const uint64_t wild : {UINT64_MAX, uint64_t{1} << 63, uint64_t{1} << 62, (uint64_t{1} << 61) + 1,
                                uint64_t{1} << 40, uint64_t{0xffffffff}, uint64_t{0x80000000}, uint64_t{0}}) {
        for (size_t i = 4; i + 8 <= header; ++i) file.use_with(i, raw(wild));
    }
}

// Counts that the size of a larger file cannot refute at once must still not reserve more than a few times the file.
void test_plausible_counts(const Scratch & dir) {
    const std::string filler(6u << 20, '\xff');
    for (const uint64_t count : {filler.size() / 8, filler.size() / 25, filler.size() / 14}) {
        const std::string files[] = {
            File().key("k", MetaType::array, type_number(MetaType::string) + raw<uint64_t>(count) + filler).build(),
            "GGUF" + raw<uint32_t>(3) + raw<int64_t>(0) + raw<uint64_t>(count) + filler,
            "GGUF" + raw<uint32_t>(3) + raw<uint64_t>(count) + raw<int64_t>(0) + filler,
        };
        for (const std::string & bytes : files) {
            const std::string path = dir.write("plausible.gguf", bytes);
            largest_allocation     = 0;
            CHECK(!use(path));
            CHECK(largest_allocation < 2 * filler.size());
        }
    }
}

} // namespace

int main(int argc, char ** argv) {
    const Scratch dir(argc, argv);
    test_every_cut(dir);
    test_large_cuts(dir);
    test_every_bit(dir);
    test_wild_numbers(dir);
    test_plausible_counts(dir);
    std::printf("checksum %u\n", sum);
    return check_report();
}
