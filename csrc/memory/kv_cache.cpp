#include "memory/kv_cache.h"

#include "support/error.h"

#include "ggml-cpu.h"

#include <algorithm>
#include <climits>
#include <cstring>

namespace pyspec {

namespace {

// An address that is aligned, not null and never dereferenced.
void * const unreadable_address = reinterpret_cast<void *>(uintptr_t{1} << 46); // NOLINT

uint64_t tensor_bytes(ggml_type type, int64_t n) {
    return ggml_row_size(type, n);
}

} // namespace

KvCache::KvCache(const KvLayout & layout) : layout_(layout) {
    for (int32_t il = 0; il < layout_.n_layer; ++il) {
        const size_t i = static_cast<size_t>(il);
        if (layout_.n_embd_k[i] % ggml_blck_size(layout_.type_k) != 0 ||
            layout_.n_embd_v[i] % ggml_blck_size(layout_.type_v) != 0) {
            throw Error(
                PYSPEC_OPTION,
                format("cache type %s/%s needs head sizes that are multiples of %d; layer %d has "
                       "rows of %d (K) and %d (V)",
                       ggml_type_name(layout_.type_k), ggml_type_name(layout_.type_v),
                       static_cast<int>(std::max(ggml_blck_size(layout_.type_k), ggml_blck_size(layout_.type_v))), il,
                       layout_.n_embd_k[i], layout_.n_embd_v[i]));
        }
    }
    ggml_init_params params{ggml_tensor_overhead() * (2 * static_cast<size_t>(layout_.n_layer) + 1), nullptr, true};
    meta_ = ggml_init(params);
    if (meta_ == nullptr) {
        throw Error(PYSPEC_OUT_OF_MEMORY, "cannot reserve the tensor table of the KV cache");
    }
    for (int32_t il = 0; il < layout_.n_layer; ++il) {
        const size_t i = static_cast<size_t>(il);
        k_.push_back(ggml_new_tensor_2d(meta_, layout_.type_k, layout_.n_embd_k[i], layout_.n_cells));
        v_.push_back(ggml_new_tensor_2d(meta_, layout_.type_v, layout_.n_embd_v[i], layout_.n_cells));
        ggml_format_name(k_.back(), "cache_k_%d", il);
        ggml_format_name(v_.back(), "cache_v_%d", il);
    }
}

KvCache::~KvCache() {
    ggml_backend_buffer_free(buffer_);
    ggml_free(meta_);
}

uint64_t KvCache::bytes() const {
    uint64_t total = 0;
    for (int32_t il = 0; il < layout_.n_layer; ++il) {
        const size_t i = static_cast<size_t>(il);
        total += tensor_bytes(layout_.type_k, int64_t{layout_.n_embd_k[i]} * layout_.n_cells);
        total += tensor_bytes(layout_.type_v, int64_t{layout_.n_embd_v[i]} * layout_.n_cells);
    }
    return total;
}

void KvCache::allocate() {
    buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(meta_, ggml_backend_cpu_buffer_type());
    if (buffer_ == nullptr) {
        throw Error(PYSPEC_OUT_OF_MEMORY, format("cannot reserve %.1f MB for the KV cache of %d cells",
                                                 static_cast<double>(bytes()) / 1e6, layout_.n_cells));
    }
    ggml_backend_buffer_clear(buffer_, 0);
    positions_.reserve(static_cast<size_t>(layout_.n_cells));
}

void KvCache::pretend_allocated() {
    for (size_t i = 0; i < k_.size(); ++i) {
        k_[i]->data = unreadable_address;
        v_[i]->data = unreadable_address;
    }
}

void KvCache::append(const int32_t * positions, int32_t n) {
    positions_.insert(positions_.end(), positions, positions + n);
}

void KvCache::shorten(int32_t n_used) {
    positions_.resize(static_cast<size_t>(n_used));
}

int32_t KvCache::lower_cell(int32_t p) const {
    return static_cast<int32_t>(std::lower_bound(positions_.begin(), positions_.end(), p) - positions_.begin());
}

KvCache::Cells KvCache::cells(int32_t p0, int32_t p1) const {
    return {lower_cell(p0), lower_cell(p1)};
}

bool KvCache::can_remove(int32_t, int32_t) const {
    return true;
}

bool KvCache::remove(int32_t p0, int32_t p1) {
    const auto [first, last] = cells(p0, p1);
    if (first == last) {
        return true;
    }
    const int32_t n_behind = n_used() - last;
    if (n_behind > 0) {
        move_cells(last, first, n_behind);
    }
    positions_.erase(positions_.begin() + first, positions_.begin() + last);
    return true;
}

void KvCache::clear() {
    positions_.clear();
}

Move KvCache::check_move(int32_t p0, int32_t p1, int32_t delta) const {
    const auto [first, last] = cells(p0, p1);
    if (first >= last) {
        return Move::possible;
    }
    const auto position = [&](int32_t cell) { return int64_t{positions_[static_cast<size_t>(cell)]}; };
    const int64_t below = first == 0 ? -1 : position(first - 1);
    const int64_t above = last == n_used() ? INT32_MAX : position(last);
    return position(first) + delta > below && position(last - 1) + delta < above ? Move::possible : Move::disordered;
}

void KvCache::move(int32_t first, int32_t last, int32_t delta) {
    for (int32_t cell = first; cell < last; ++cell) {
        positions_[static_cast<size_t>(cell)] += delta;
    }
}

void KvCache::move_cells(int32_t from, int32_t to, int32_t n) {
    for (int32_t il = 0; il < layout_.n_layer; ++il) {
        const auto move_rows = [&](ggml_tensor * t) {
            char * data = static_cast<char *>(t->data);
            std::memmove(data + static_cast<size_t>(to) * t->nb[1], data + static_cast<size_t>(from) * t->nb[1],
                         static_cast<size_t>(n) * t->nb[1]);
        };
        move_rows(k(il));
        move_rows(v(il));
    }
}

uint64_t KvCache::state_bytes(int32_t n) const {
    uint64_t total = 0;
    for (int32_t il = 0; il < layout_.n_layer; ++il) {
        const size_t i = static_cast<size_t>(il);
        total += tensor_bytes(layout_.type_k, int64_t{layout_.n_embd_k[i]} * n);
        total += tensor_bytes(layout_.type_v, int64_t{layout_.n_embd_v[i]} * n);
    }
    return total;
}

void KvCache::state_write(uint8_t * out) const {
    const size_t n = static_cast<size_t>(n_used());
    for (int32_t il = 0; il < layout_.n_layer; ++il) {
        const auto write_rows = [&](const ggml_tensor * t) {
            std::memcpy(out, t->data, n * t->nb[1]);
            out += n * t->nb[1];
        };
        write_rows(k(il));
        write_rows(v(il));
    }
}

void KvCache::state_read(const uint8_t * in, const std::vector<int32_t> & positions) {
    const size_t n = positions.size();
    for (int32_t il = 0; il < layout_.n_layer; ++il) {
        const auto read_rows = [&](ggml_tensor * t) {
            std::memcpy(t->data, in, n * t->nb[1]);
            in += n * t->nb[1];
        };
        read_rows(k(il));
        read_rows(v(il));
    }
    positions_ = positions;
}

} // namespace pyspec
