#include "weights/split.h"

#include "support/log.h"
#include "support/text.h"

#include <cstring>

namespace pyspec {

namespace {

using ull = unsigned long long;

std::string base_name(const std::string & path) {
    const size_t slash = path.rfind('/');
    return slash == path.npos ? path : path.substr(slash + 1);
}

// Value of an optional key of exactly this type.
template <typename T> std::optional<T> find_key(const ModelPart & part, const char * key, MetaType type) {
    const auto it = part.header.metadata.find(key);
    if (it == part.header.metadata.end()) return std::nullopt;
    if (it->second.type != type) {
        throw Error(PYSPEC_FILE_FORMAT, format("%s: key '%s' has type %s, expected %s", part.file.path().c_str(), key,
                                               meta_type_name(it->second.type), meta_type_name(type)));
    }
    T value;
    std::memcpy(&value, it->second.bytes.data(), sizeof value);
    return value;
}

// A GGUF header right after the last tensor means that somebody joined the parts of a split model with cat. The offsets
// of the later parts are then wrong, and without this check their tensors would just seem to be missing.
void check_tail(const ModelPart & part) {
    const GgufHeader & h = part.header;
    const uint64_t size  = part.file.size();
    const uint64_t pad   = (h.data_end + h.alignment - 1) / h.alignment * h.alignment;
    for (const uint64_t at : {h.data_end, pad}) {
        char magic[4];
        if (size < 4 || at > size - 4) continue;
        if (part.file.read_some(at, magic, 4) == 4 && std::memcmp(magic, "GGUF", 4) == 0) {
            throw Error(
                PYSPEC_FILE_FORMAT,
                format(
                    "%s: a second GGUF file begins at byte %llu: parts of a split model were joined with cat or copy, "
                    "which does not work for GGUF parts. Keep the parts as separate files and open the first one "
                    "(-00001-of-), or merge them with a GGUF merge tool (llama-gguf-split --merge)",
                    part.file.path().c_str(), static_cast<ull>(at)));
        }
    }
    if (size > pad) {
        log_message(PYSPEC_LOG_WARN, format("%s: %llu bytes after the last tensor are ignored",
                                            part.file.path().c_str(), static_cast<ull>(size - pad)));
    }
}

ModelPart open_part(const std::string & path, int number) {
    InputFile file    = InputFile::open(path);
    GgufHeader header = read_gguf(file, number);
    ModelPart part{std::move(file), std::move(header)};
    check_tail(part);
    return part;
}

bool exists(const std::string & path) {
    try {
        InputFile::open(path);
        return true;
    } catch (const Error &) {
        return false;
    }
}

[[noreturn]] void throw_not_first(const std::string & path, int number, int count) {
    const auto name  = parse_split_name(path);
    std::string hint = "open its first part (the file whose name ends in -00001-of-" + format("%05d.gguf)", count);
    if (name && name->count == count) {
        const std::string first = split_part_path(name->prefix, 1, count);
        hint                    = "open its first part, " + first;
        if (!exists(first)) hint += " (which is missing)";
    }
    throw Error(PYSPEC_FILE_FORMAT,
                format("%s: is part %d of %d of a split model; %s", path.c_str(), number, count, hint.c_str()));
}

void check_total(const std::vector<ModelPart> & parts, std::optional<int32_t> total) {
    uint64_t found = 0;
    for (const ModelPart & part : parts) found += part.header.tensors.size();
    if (!total) {
        throw Error(PYSPEC_FILE_FORMAT,
                    parts[0].file.path() + ": key 'split.tensors.count' (i32) is missing in a split model");
    }
    if (*total < 0 || static_cast<uint64_t>(*total) != found) {
        throw Error(
            PYSPEC_FILE_FORMAT,
            format(
                "%s: the %zu parts hold %llu tensors, but key 'split.tensors.count' says %d; the parts do not belong "
                "together or are damaged",
                parts[0].file.path().c_str(), parts.size(), static_cast<ull>(found), *total));
    }
}

} // namespace

std::optional<SplitName> parse_split_name(const std::string & path) {
    // "-00001-of-00003.gguf"
    constexpr size_t tail = 1 + 5 + 4 + 5 + 5;
    if (path.size() <= tail) return std::nullopt;
    const std::string_view s = std::string_view(path).substr(path.size() - tail);
    const auto digits        = [&](size_t at) {
        int value = 0;
        for (size_t i = at; i < at + 5; i++) {
            if (s[i] < '0' || s[i] > '9') return -1;
            value = value * 10 + (s[i] - '0');
        }
        return value;
    };
    if (s[0] != '-' || s.substr(6, 4) != "-of-" || s.substr(15) != ".gguf") return std::nullopt;
    const int number = digits(1);
    const int count  = digits(10);
    if (number < 1 || count < 1 || number > count) return std::nullopt;
    return SplitName{path.substr(0, path.size() - tail), number, count};
}

std::string split_part_path(const std::string & prefix, int number, int count) {
    return prefix + format("-%05d-of-%05d.gguf", number, count);
}

std::vector<ModelPart> open_parts(const std::string & path) {
    std::vector<ModelPart> parts;
    parts.push_back(open_part(path, 0));
    const auto count = find_key<uint16_t>(parts[0], "split.count", MetaType::u16);
    if (!count || *count <= 1) return parts;

    const auto no = find_key<uint16_t>(parts[0], "split.no", MetaType::u16);
    if (!no) throw Error(PYSPEC_FILE_FORMAT, path + ": key 'split.no' (u16) is missing in a split model");
    if (*no != 0) throw_not_first(path, *no + 1, *count);
    const auto total = find_key<int32_t>(parts[0], "split.tensors.count", MetaType::i32);

    const auto name = parse_split_name(path);
    if (!name || name->number != 1 || name->count != *count) {
        throw Error(
            PYSPEC_FILE_FORMAT,
            format("%s: is the first of %d parts of a split model, but is not named like one, so the others cannot be "
                   "found; rename the parts to <name>-00001-of-%05d.gguf and so on",
                   path.c_str(), *count, *count));
    }
    std::string missing;
    int n_missing = 0;
    for (int i = 2; i <= *count; i++) {
        const std::string part_path = split_part_path(name->prefix, i, *count);
        if (exists(part_path)) continue;
        if (++n_missing <= 3)
            missing += (n_missing > 1 ? ", " : "") + (n_missing == 1 ? part_path : base_name(part_path));
    }
    if (n_missing > 0) {
        throw Error(PYSPEC_FILE_FORMAT,
                    format("%s: %d of the %d parts of this split model are missing or unreadable: %s%s", path.c_str(),
                           n_missing, *count, missing.c_str(), n_missing > 3 ? ", ..." : ""));
    }
    for (int i = 2; i <= *count; i++) {
        parts.push_back(open_part(split_part_path(name->prefix, i, *count), i - 1));
        const ModelPart & part = parts.back();
        const auto part_no     = find_key<uint16_t>(part, "split.no", MetaType::u16);
        const auto part_count  = find_key<uint16_t>(part, "split.count", MetaType::u16);
        if (!part_no || !part_count || *part_no != i - 1 || *part_count != *count) {
            throw Error(PYSPEC_FILE_FORMAT,
                        format("%s: is not part %d of %d of this split model: it says split.no %d and split.count %d "
                               "(-1 = missing), expected %d and %d",
                               part.file.path().c_str(), i, *count, part_no ? *part_no : -1,
                               part_count ? *part_count : -1, i - 1, *count));
        }
        const auto part_total = find_key<int32_t>(part, "split.tensors.count", MetaType::i32);
        if (part_total && part_total != total) {
            throw Error(PYSPEC_FILE_FORMAT,
                        format("%s: belongs to another split model: key 'split.tensors.count' is %d, in the "
                               "first part it is %d",
                               part.file.path().c_str(), *part_total, total.value_or(-1)));
        }
    }
    check_total(parts, total);
    return parts;
}

} // namespace pyspec
