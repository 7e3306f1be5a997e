// The filters that thin out the candidates for the next token. Each is a pure function from a list to a shorter list
// (or to other logits); none draws random numbers and none ever leaves the list empty.
//
// A filter judges the distribution given by the logits of the candidates it receives, renormalised over them. Sums are
// in double and run in list order, so results are a function of the input alone. All ties go to the lowest id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pyspec {

struct Candidate {
    int32_t token;
    float logit;
    double p; // probability among the candidates as of the last softmax; meaningless before
};

struct CandidateList {
    std::vector<Candidate> items;
    size_t n_sorted = 0; // items[0 .. n_sorted) are the best of all items, in order (logit descending, id ascending)
};

// Every token of a row that is not forbidden (-infinity), in id order; sorted only when top_k does it.
// top_k in 1 .. n-1 keeps the best top_k, in order; other values keep all.
// Errors: OPTION for NaN, +infinity, or when all are forbidden.
// maxima: see scan.h.
void gather_candidates(const float * logits, int32_t n, int32_t top_k, CandidateList & list,
                       const float * maxima = nullptr);

// Extends the sorted prefix to at least `count` items.
void sort_prefix(CandidateList & list, size_t count);

// Largest logit of a list that is not empty.
float largest_logit(const CandidateList & list) noexcept;

// p = softmax(logit / temperature) over the list. temperature > 0.
void softmax(CandidateList & list, double temperature = 1.0);

// Keep the `k` best, in order. k <= 0 keeps all.
void filter_top_k(CandidateList & list, int32_t k);

// Locally typical sampling (Meister et al., TACL 2023): candidates ordered by | -ln p - entropy |, kept until their
// probability sum exceeds typical_p. typical_p >= 1 keeps all. The result is in that order.
void filter_typical(CandidateList & list, float typical_p);

// Nucleus sampling (Holtzman et al., ICLR 2020): the smallest best prefix with a probability sum of at least top_p.
// top_p >= 1 keeps all.
void filter_top_p(CandidateList & list, float top_p);

// Keep candidates with p >= min_p * max p (Nguyen et al., ICLR 2025). min_p <= 0 keeps all.
void filter_min_p(CandidateList & list, float min_p);

} // namespace pyspec
