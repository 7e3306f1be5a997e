// Contiguous key/value cache of one sequence.
//
// Cell i holds the i-th kept token; its position is stored beside it. Cells 0..n_used-1 are in use and positions grow
// with the cell index, so "cell j is not after cell i" is causality. Removing a tail only lowers n_used. Removing a
// range in the middle moves the later cells down and keeps their positions.
//
// Layout per layer (ggml order): K {n_embd_k, n_cells} and V {n_embd_v, n_cells}, one row per cell.
#pragma once

#include "memory/memory.h"

#include "ggml-backend.h"
#include "ggml.h"

#include <vector>

namespace pyspec {

struct KvLayout {
    int32_t n_layer;
    int32_t n_cells; // multiple of 256
    ggml_type type_k;
    ggml_type type_v;
    std::vector<int32_t> n_embd_k; // per layer
    std::vector<int32_t> n_embd_v;
};

class KvCache : public Memory {
public:
    // Describes the tensors; memory is reserved by allocate(). Throws OPTION when a row is not a multiple of the type's
    // block.
    explicit KvCache(const KvLayout & layout);
    ~KvCache() override;

    // Reserves and zeroes the tensors, so that memory that is promised is there. Throws OUT_OF_MEMORY.
    void allocate();
    // Gives the tensors addresses that must never be read, so that graphs can be measured without memory.
    void pretend_allocated();
    uint64_t bytes() const; // computed from the layout

    ggml_tensor * k(int32_t layer) const { return k_[static_cast<size_t>(layer)]; }
    ggml_tensor * v(int32_t layer) const { return v_[static_cast<size_t>(layer)]; }
    int32_t n_cells() const { return layout_.n_cells; }

    const std::vector<int32_t> & positions() const { return positions_; } // of the cells in use

    // Take n more cells at the end for tokens at these positions (already checked to increase).
    void append(const int32_t * positions, int32_t n);
    // Give back the last cells until n are in use; for undoing an append whose computation failed.
    void shorten(int32_t n_used);

    int32_t n_used() const override { return static_cast<int32_t>(positions_.size()); }
    int32_t pos_min() const override { return positions_.empty() ? -1 : positions_.front(); }
    int32_t pos_max() const override { return positions_.empty() ? -1 : positions_.back(); }
    bool can_remove(int32_t p0, int32_t p1) const override;
    bool remove(int32_t p0, int32_t p1) override;
    void clear() override;
    Move check_move(int32_t p0, int32_t p1, int32_t delta) const override;

    struct Cells {
        int32_t first;
        int32_t last; // one past
    };
    Cells cells(int32_t p0, int32_t p1) const; // those with positions in the range
    // Changes the positions of these cells, as check_move allows. Their rows are the caller's to adapt.
    void move(int32_t first, int32_t last, int32_t delta);

    // Bytes of the cells in use, layer after layer (see state.cpp).
    uint64_t state_bytes(int32_t n) const;
    void state_write(uint8_t * out) const;
    void state_read(const uint8_t * in, const std::vector<int32_t> & positions);

private:
    void move_cells(int32_t from, int32_t to, int32_t n);
    // First cell whose position is >= p.
    int32_t lower_cell(int32_t p) const;

    KvLayout layout_;
    ggml_context * meta_          = nullptr;
    ggml_backend_buffer_t buffer_ = nullptr;
    std::vector<ggml_tensor *> k_;
    std::vector<ggml_tensor *> v_;
    std::vector<int32_t> positions_;
};

} // namespace pyspec
