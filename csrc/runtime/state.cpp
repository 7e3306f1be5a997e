// Saving and restoring the memory of a context as bytes.
//
// Layout: StateHeader, positions (int32 each), then for every layer the K rows and V rows of the cells in use, as
// they lie in the cache. Everything is checked against the context before anything is written to it.
#include "runtime/context.h"

#include <cstring>

namespace pyspec {

namespace {

constexpr uint32_t state_version = 2; // 1 had columns of V
constexpr char state_magic[8]    = {'P', 'Y', 'S', 'P', 'E', 'C', 'K', 'V'};

struct StateHeader {
    char magic[8];
    uint32_t version;
    int32_t type_k;
    int32_t type_v;
    int32_t cache_variant;
    uint64_t model; // fingerprint of the file
    int32_t n_cells;
    int32_t reserved;
};

// FNV-1a over the metadata and tensor table: cheap, and different files practically never agree.
uint64_t fingerprint(const Model & model) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : model.json()) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    }
    return hash ^ model.file().file_bytes();
}

} // namespace

size_t Context::state_size() const {
    const size_t n = static_cast<size_t>(cache_->n_used());
    return sizeof(StateHeader) + n * sizeof(int32_t) + cache_->state_bytes(static_cast<int32_t>(n));
}

void Context::state_save(uint8_t * out) const {
    StateHeader header{};
    std::memcpy(header.magic, state_magic, sizeof state_magic);
    header.version       = state_version;
    header.type_k        = options_.type_k;
    header.type_v        = options_.type_v;
    header.cache_variant = model_->family().cache_variant(options_.n_ctx);
    header.model         = fingerprint(*model_);
    header.n_cells       = cache_->n_used();
    std::memcpy(out, &header, sizeof header);
    out += sizeof header;
    std::memcpy(out, cache_->positions().data(), cache_->positions().size() * sizeof(int32_t));
    out += cache_->positions().size() * sizeof(int32_t);
    cache_->state_write(out);
}

void Context::state_restore(const uint8_t * in, size_t size) {
    StateHeader header;
    if (size < sizeof header) {
        throw Error(PYSPEC_FILE_FORMAT, format("the state has %zu bytes, too few for its header", size));
    }
    std::memcpy(&header, in, sizeof header);
    if (std::memcmp(header.magic, state_magic, sizeof state_magic) != 0 || header.version != state_version) {
        throw Error(PYSPEC_FILE_FORMAT, "these bytes are not a saved state of this version of pyspec");
    }
    if (header.model != fingerprint(*model_)) {
        throw Error(PYSPEC_OPTION, "the state was saved with another model file");
    }
    if (header.type_k != options_.type_k || header.type_v != options_.type_v) {
        throw Error(PYSPEC_OPTION, format("the state was saved with cache types %d/%d, this context has %d/%d",
                                          header.type_k, header.type_v, options_.type_k, options_.type_v));
    }
    if (header.cache_variant != model_->family().cache_variant(options_.n_ctx)) {
        throw Error(PYSPEC_OPTION, "the state was saved with another rope variant (short and long contexts differ)");
    }
    if (header.n_cells < 0 || header.n_cells > options_.n_ctx) {
        throw Error(PYSPEC_OPTION,
                    format("the state holds %d tokens, more than n_ctx %d", header.n_cells, options_.n_ctx));
    }
    const size_t n    = static_cast<size_t>(header.n_cells);
    const size_t want = sizeof header + n * sizeof(int32_t) + cache_->state_bytes(header.n_cells);
    if (size != want) {
        throw Error(PYSPEC_FILE_FORMAT, format("the state has %zu bytes, expected %zu", size, want));
    }
    std::vector<int32_t> positions(n);
    if (n > 0) {
        std::memcpy(positions.data(), in + sizeof header, n * sizeof(int32_t));
    }
    for (size_t i = 0; i < n; ++i) {
        if (positions[i] < 0 || (i > 0 && positions[i] <= positions[i - 1])) {
            throw Error(PYSPEC_FILE_FORMAT, "the state's positions do not grow");
        }
    }
    cache_->state_read(in + sizeof header + n * sizeof(int32_t), positions);
    n_output_rows_ = 0;
    tap_layers_of_rows_.clear();
}

} // namespace pyspec
