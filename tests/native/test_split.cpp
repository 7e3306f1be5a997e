// Split models: loading all parts, and which part is wrong, missing or joined to another.
// Case C099: lemonade-sdk/lemonade#499, ggml-org/llama.cpp#9613.
#include "check.h"
#include "gguf_bytes.h"

#include "weights/split.h"

using namespace pyspec;
using namespace gguf_bytes;
namespace fs = std::filesystem;

namespace {

constexpr int32_t F32 = GGML_TYPE_F32;

File split_part(int no, int count, int total) {
    File f;
    if (no == 0) f.str("general.architecture", "llama");
    f.u16("split.no", static_cast<uint16_t>(no)).u16("split.count", static_cast<uint16_t>(count));
    f.i32("split.tensors.count", total);
    f.tensor(format("t%d", no), {32}, F32, pattern(128, static_cast<unsigned>(no)));
    f.tensor(format("u%d", no), {8}, F32, pattern(32, static_cast<unsigned>(no + 10)));
    return f;
}

std::string part_name(int number, const char * folder) {
    return format("%s/m-%05d-of-00003.gguf", folder, number);
}

void write_parts(const Scratch & dir, const char * folder) {
    fs::remove_all(dir.path(folder));
    for (int no = 0; no < 3; ++no) dir.write(part_name(no + 1, folder), split_part(no, 3, 6).build());
}

void test_split(const Scratch & dir) {
    write_parts(dir, "s");
    const std::string first = dir.path(part_name(1, "s")), second = dir.path(part_name(2, "s"));
    const std::string third = dir.path(part_name(3, "s"));
    for (const bool use_mmap : {true, false}) {
        const auto m = ModelFile::open(first);
        CHECK_EQ(m->tensors().size(), 6u);
        CHECK_EQ(m->weight_bytes(), 3u * 160);
        CHECK_EQ(m->file_bytes(), fs::file_size(first) + fs::file_size(second) + fs::file_size(third));
        m->load_data(use_mmap, nullptr);
        CHECK_EQ(m->regions().size(), 3u);
        for (int no = 0; no < 3; ++no) {
            const TensorInfo * t = m->find_tensor("t" + std::to_string(no));
            const TensorInfo * u = m->find_tensor("u" + std::to_string(no));
            CHECK(t != nullptr && t->part == no && u != nullptr && u->part == no);
            CHECK(std::memcmp(m->data(*t), pattern(128, static_cast<unsigned>(no)).data(), 128) == 0);
            CHECK(std::memcmp(m->data(*u), pattern(32, static_cast<unsigned>(no + 10)).data(), 32) == 0);
        }
    }
    // C099: another part first, a part missing, parts joined with cat.
    CHECK_ERROR(ModelFile::open(second), PYSPEC_FILE_FORMAT,
                "is part 2 of 3 of a split model; open its first part, " + first);
    CHECK_ERROR(ModelFile::open(third), PYSPEC_FILE_FORMAT,
                "is part 3 of 3 of a split model; open its first part, " + first);
    const std::string joined = split_part(0, 3, 6).build() + split_part(1, 3, 6).build() + split_part(2, 3, 6).build();
    CHECK_ERROR(ModelFile::open(dir.write("joined.gguf", joined)), PYSPEC_FILE_FORMAT, "llama-gguf-split --merge");
    const std::string padded = split_part(0, 3, 6).tensor("odd", {3}, F32, pattern(12)).build() + std::string(20, '\0');
    CHECK_ERROR(ModelFile::open(dir.write("padded.gguf", padded + split_part(1, 3, 6).build())), PYSPEC_FILE_FORMAT,
                "joined with cat");
    fs::remove(third);
    CHECK_ERROR(ModelFile::open(first), PYSPEC_FILE_FORMAT,
                "1 of the 3 parts of this split model are missing or unreadable: " + third);
    fs::remove(second);
    CHECK_ERROR(ModelFile::open(first), PYSPEC_FILE_FORMAT, second + ", m-00003-of-00003.gguf");
    fs::remove(first);
    dir.write(part_name(2, "s"), split_part(1, 3, 6).build());
    CHECK_ERROR(ModelFile::open(second), PYSPEC_FILE_FORMAT, first + " (which is missing)");

    const auto refuse = [&](int number, const File & part, const char * message, int line) {
        write_parts(dir, "r");
        dir.write(part_name(number, "r"), part.build());
        std::string got = "no error";
        try {
            ModelFile::open(dir.path(part_name(1, "r")));
        } catch (const Error & error) {
            got = error.message();
            CHECK(error.status() == PYSPEC_FILE_FORMAT);
        }
        ++check::n_checks;
        if (got.find(message) == got.npos) check::failed(__FILE__, line, got);
    };
    refuse(2, split_part(2, 3, 6), "is not part 2 of 3 of this split model: it says split.no 2", __LINE__);
    refuse(2, split_part(1, 4, 6), "split.count 4", __LINE__);
    refuse(2, File().tensor("t", {8}, F32, pattern(32)), "split.no -1 and split.count -1", __LINE__);
    refuse(3, split_part(2, 3, 9), "belongs to another split model", __LINE__);
    File repeated;
    repeated.u16("split.no", 2).u16("split.count", 3).i32("split.tensors.count", 6);
    repeated.tensor("t0", {8}, F32, pattern(32)).tensor("u2", {8}, F32, pattern(32));
    refuse(3, repeated, "tensor 't0' is also in", __LINE__);
    refuse(3, split_part(2, 3, 6).tensor("extra", {8}, F32, pattern(32)),
           "hold 7 tensors, but key 'split.tensors.count' says 6", __LINE__);
    File no_total;
    no_total.u16("split.no", 0).u16("split.count", 3);
    refuse(1, no_total, "key 'split.tensors.count' is 6, in the first part it is -1", __LINE__);
    File wide;
    wide.u32("split.count", 3);
    refuse(1, wide, "key 'split.count' has type u32, expected u16", __LINE__);
    File no_number;
    no_number.u16("split.count", 3);
    refuse(1, no_number, "key 'split.no' (u16) is missing", __LINE__);
    CHECK_ERROR(ModelFile::open(dir.write("misnamed.gguf", split_part(0, 3, 6).build())), PYSPEC_FILE_FORMAT,
                "rename the parts to <name>-00001-of-00003.gguf");
    CHECK_ERROR(ModelFile::open(dir.write("p-00001-of-65535.gguf", split_part(0, 65535, 6).build())),
                PYSPEC_FILE_FORMAT, "65534 of the 65535 parts");
    File single;
    single.u16("split.no", 0).u16("split.count", 1).tensor("t", {8}, F32, pattern(32));
    CHECK_EQ(ModelFile::open(dir.write("single.gguf", single.build()))->tensors().size(), 1u);

    const auto name = parse_split_name("/a/b-00002-of-00010.gguf");
    CHECK(name && name->prefix == "/a/b" && name->number == 2 && name->count == 10);
    for (const char * other :
         {"", "b.gguf", "-00001-of-00002.gguf", "b-0001-of-00002.gguf", "b-00003-of-00002.gguf",
          "b-00000-of-00002.gguf", "b-00001-of-00002.bin", "b-00001_of-00002.gguf", "b-0000x-of-00002.gguf"}) {
        CHECK(!parse_split_name(other));
    }
}

} // namespace

int main(int argc, char ** argv) {
    const Scratch dir(argc, argv);
    test_split(dir);
    return check_report();
}
