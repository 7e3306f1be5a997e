// Giving tokens in memory other positions (context shift): their rows of K are turned further by the difference, layer
// by layer with the layer's own rotation. Rows of V do not depend on positions.
#include "graph/rope_frequencies.h"
#include "kernels/rotation.h"
#include "runtime/context.h"
#include "support/float_environment.h"

#include <algorithm>
#include <climits>

namespace pyspec {

namespace {

constexpr int64_t rotation_cost = 60; // of an element, in multiply-accumulates

} // namespace

Move Context::check_shift(int32_t p0, int32_t p1, int32_t delta) const {
    return cache_->check_move(p0 < 0 ? 0 : p0, p1 < 0 ? INT32_MAX : p1, delta);
}

void Context::shift(int32_t p0, int32_t p1, int32_t delta) {
    const Move check = check_shift(p0, p1, delta);
    if (check == Move::unsupported) {
        throw Error(PYSPEC_UNSUPPORTED, "this memory cannot move tokens to other positions");
    }
    if (check == Move::disordered) {
        throw Error(PYSPEC_OPTION,
                    format("moving positions [%d, %d) by %d would make them negative, too large, or not follow their "
                           "neighbours; the memory holds %d to %d",
                           p0, p1, delta, cache_->pos_min(), cache_->pos_max()));
    }
    const auto [first, last] = cache_->cells(p0 < 0 ? 0 : p0, p1 < 0 ? INT32_MAX : p1);
    if (first >= last || delta == 0) {
        return;
    }
    model_->file().check_backing(); // the factors of frequencies may lie there

    const DefaultFloatEnvironment environment;
    const Hparams & h = model_->hparams();
    std::vector<RowRotation> rotations;
    int64_t cell_cost = 0;
    for (int32_t il = 0; il < h.n_layer; ++il) {
        const RopeParams rope      = model_->family().cache_rope(il, options_.n_ctx);
        std::vector<double> angles = rope_frequencies(rope);
        for (double & angle : angles) {
            angle *= delta;
        }
        RowRotation rotation;
        rotation.type     = options_.type_k;
        rotation.head_dim = h.head_dim_k;
        rotation.n_head   = h.n_head_kv[static_cast<size_t>(il)];
        rotation.adjacent = rope.pairing == RopePairing::adjacent;
        rotation.table    = rotation_table(angles, rotation.adjacent);
        cell_cost += rotation_cost * rotation.n_head * static_cast<int64_t>(rotation.table.size());
        rotations.push_back(std::move(rotation));
    }
    std::vector<std::vector<float>> scratch(static_cast<size_t>(threads_->n_threads()),
                                            std::vector<float>(static_cast<size_t>(h.head_dim_k)));
    // From here on nothing fails. A cell by itself, whoever takes it: threads make no difference.
    const ThreadPool::Turn turn(*threads_, nullptr);
    run_.for_each(last - first, cell_cost, [&, first = first](int64_t i, int thread) {
        for (int32_t il = 0; il < h.n_layer; ++il) {
            const ggml_tensor * k = cache_->k(il);
            rotate_row(rotations[static_cast<size_t>(il)],
                       static_cast<char *>(k->data) + static_cast<size_t>(first + i) * k->nb[1],
                       scratch[static_cast<size_t>(thread)].data());
        }
    });
    cache_->move(first, last, delta);
}

} // namespace pyspec
