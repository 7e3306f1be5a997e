// The packed form of a model's matrices (kernels/packed_format.h): read from the file, rearranged by all threads, owned
// here. Nothing else keeps the original. Small tensors (norms, biases) lie beside them as they are, so that most models
// need no mapping of their file.
#pragma once

#include "kernels/packed_matrix.h"
#include "support/mapped_file.h"
#include "weights/tensor_loader.h"

#include <memory>
#include <vector>

namespace pyspec {

class PackedWeights {
public:
    // Chooses the matrices that only graph/linear and graph/experts touch and whose type can be packed, and hangs their
    // (still empty) packed form on their tensors; and the small tensors.
    PackedWeights(const TensorLoader & tensors, const TileSet & set);

    uint64_t matrix_bytes() const { return matrix_bytes_; } // of the packed form; 0: nothing could be packed
    uint64_t bytes() const { return bytes_; }               // with the small tensors
    void * base() const { return space_.data(); }
    bool holds(const ggml_tensor * tensor) const;

    // Reads and packs with n_threads threads (the caller is one of them) and gives the tensors their addresses. Throws
    // FILE_FORMAT, OUT_OF_MEMORY, CANCELLED through progress, which is advanced by the caller only.
    void load(const ModelFile & file, int n_threads, LoadProgress & progress);

private:
    struct Item {
        ggml_tensor * tensor;
        const TensorInfo * info;
        std::unique_ptr<PackedMatrix> matrix; // null: as it is
        uint64_t at;                          // in space_
    };
    // Some panels of one matrix (of a stack): what a thread takes at a time.
    struct Chunk {
        const Item * item;
        int64_t matrix;
        int64_t first_panel;
        int64_t last_panel;
    };
    void pack(const ModelFile & file, const Chunk & chunk, std::vector<uint8_t> & scratch) const;

    std::vector<Item> items_;
    AlignedBuffer space_;
    uint64_t bytes_        = 0;
    uint64_t matrix_bytes_ = 0;
};

} // namespace pyspec
