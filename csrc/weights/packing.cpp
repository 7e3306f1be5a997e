#include "weights/packing.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace pyspec {

namespace {

constexpr uint64_t chunk_bytes = 1u << 20; // of the file, about; small enough to notice a cancel at once
constexpr uint64_t small_bytes = 1u << 20; // of a tensor that is copied as it is

uint64_t row_bytes(const TensorInfo & info) {
    return ggml_row_size(info.type, info.ne[0]);
}

} // namespace

PackedWeights::PackedWeights(const TensorLoader & tensors, const TileSet & set) {
    for (const TensorLoader::Entry & e : tensors.entries()) {
        const TensorInfo & info = *e.info;
        std::unique_ptr<PackedMatrix> matrix;
        uint64_t bytes = info.bytes;
        if (e.linear && !e.ggml && ggml_n_dims(e.tensor) <= 3 && is_packable(info.type, info.ne[0])) {
            matrix          = std::make_unique<PackedMatrix>(info.type, info.ne[0], info.ne[1], info.ne[2], set);
            e.tensor->extra = matrix.get();
            bytes           = matrix->bytes();
            matrix_bytes_ += bytes;
        } else if (bytes > small_bytes) {
            continue;
        }
        items_.push_back({e.tensor, e.info, std::move(matrix), bytes_});
        bytes_ += (bytes + 63) / 64 * 64;
    }
}

bool PackedWeights::holds(const ggml_tensor * tensor) const {
    return std::any_of(items_.begin(), items_.end(), [&](const Item & item) { return item.tensor == tensor; });
}

void PackedWeights::pack(const ModelFile & file, const Chunk & chunk, std::vector<uint8_t> & scratch) const {
    const TensorInfo & info   = *chunk.item->info;
    PackedMatrix & m          = *chunk.item->matrix;
    const uint64_t row        = row_bytes(info);
    const int64_t first_row   = chunk.first_panel * panel_rows;
    const int64_t last_row    = std::min(chunk.last_panel * panel_rows, m.n_out);
    const int64_t rows_before = chunk.matrix * m.n_out; // of the other matrices of a stack
    const uint64_t n          = static_cast<uint64_t>(last_row - first_row) * row;
    scratch.resize(std::max<size_t>(scratch.size(), static_cast<size_t>(n)));
    file.read(info, static_cast<uint64_t>(rows_before + first_row) * row, scratch.data(), static_cast<size_t>(n));
    uint8_t * panels = const_cast<uint8_t *>(m.matrix(chunk.matrix));
    for (int64_t panel = chunk.first_panel; panel < chunk.last_panel; ++panel) {
        const int64_t from = panel * panel_rows;
        pack_panel(info.type, m.n_in,
                   scratch.data() + static_cast<size_t>(static_cast<uint64_t>(from - first_row) * row),
                   std::min(panel_rows, m.n_out - from), panels + static_cast<size_t>(panel) * m.layout.bytes);
    }
}

void PackedWeights::load(const ModelFile & file, int n_threads, LoadProgress & progress) {
    space_ = AlignedBuffer(static_cast<size_t>(bytes_));
    std::vector<Chunk> chunks;
    for (const Item & item : items_) {
        uint8_t * data    = static_cast<uint8_t *>(space_.data()) + item.at;
        item.tensor->data = data;
        if (item.matrix == nullptr) {
            file.read(*item.info, 0, data, static_cast<size_t>(item.info->bytes));
            progress.advance(item.info->bytes);
            continue;
        }
        item.matrix->data     = data;
        const uint64_t panel  = row_bytes(*item.info) * static_cast<uint64_t>(panel_rows);
        const int64_t at_once = static_cast<int64_t>(std::max<uint64_t>(1, chunk_bytes / panel));
        const int64_t n_panel = n_panels(item.matrix->n_out);
        for (int64_t matrix = 0; matrix < item.matrix->n_matrices; ++matrix) {
            for (int64_t first = 0; first < n_panel; first += at_once) {
                chunks.push_back({&item, matrix, first, std::min(n_panel, first + at_once)});
            }
        }
    }

    std::atomic<size_t> next{0};
    std::atomic<uint64_t> done{0}; // bytes of the file
    std::atomic<bool> stop{false};
    std::mutex mutex;
    std::exception_ptr failure;
    uint64_t reported = 0; // by the caller
    const auto work   = [&](LoadProgress * report) {
        std::vector<uint8_t> scratch;
        try {
            for (size_t i = next++; i < chunks.size() && !stop; i = next++) {
                pack(file, chunks[i], scratch);
                const int64_t n_out = chunks[i].item->matrix->n_out;
                const int64_t rows =
                    std::min(n_out, chunks[i].last_panel * panel_rows) - chunks[i].first_panel * panel_rows;
                done += static_cast<uint64_t>(rows) * row_bytes(*chunks[i].item->info);
                if (report != nullptr) {
                    const uint64_t now = done;
                    report->advance(now - reported);
                    reported = now;
                }
            }
        } catch (...) {
            stop = true;
            const std::lock_guard<std::mutex> lock(mutex);
            if (failure == nullptr) {
                failure = std::current_exception();
            }
        }
    };
    std::vector<std::thread> helpers;
    helpers.reserve(static_cast<size_t>(n_threads));
    try {
        for (int i = 1; i < n_threads; ++i) {
            helpers.emplace_back(work, nullptr);
        }
    } catch (const std::exception &) {
        // No more threads, or no memory for them: those that run do the work.
    }
    work(&progress);
    for (std::thread & helper : helpers) {
        helper.join();
    }
    if (failure != nullptr) {
        std::rethrow_exception(failure);
    }
    progress.advance(done - reported); // what the helpers did last
}

} // namespace pyspec
