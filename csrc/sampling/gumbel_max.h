// Drawing by Gumbel-max (Gumbel 1954; Maddison, Tarlow, Minka, NeurIPS 2014): argmax over v of log p(v) + noise(v) is
// distributed as p. Whoever has the same noise and nearly the same p makes nearly always the same choice: that is what
// coupled drafting is (Daliri, Musco, Suresh, "Coupling without communication", 2024).
#pragma once

#include "sampling/filters.h"
#include "sampling/philox.h"

#include <cstdint>
#include <vector>

namespace pyspec {

// A token of a list that is not empty, p = softmax(logit / temperature), temperature > 0. Independent of the order of
// the list; equal scores go to the lowest id.
int32_t gumbel_max(const CandidateList & list, double temperature, const Noise & noise);

// A token by its weight (any positive multiple of a probability); -1 when all weights are 0. Lowest id on ties if ids
// ascend.
int32_t gumbel_max(const std::vector<WeightedToken> & weights, const Noise & noise) noexcept;

} // namespace pyspec
