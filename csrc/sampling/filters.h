// The filters that thin out the candidates for the next token. Each is a pure function from a list to a shorter list
// (or to other logits); none draws random numbers and none ever leaves the list empty.
// min_keep: a filter that would leave fewer keeps this many (0 and 1 are the same).
//
// A filter judges the distribution given by the logits of the candidates it receives, renormalised over them. Sums are
// in double and run in list order, so results are a function of the input alone. All ties go to the lowest id.
#pragma once

#include "sampling/scan.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pyspec {

struct Candidate {
    int32_t token;
    float logit;
    double p; // probability among the candidates as of the last softmax; meaningless before
};

struct WeightedToken {
    int32_t token;
    double p;
};

struct CandidateList {
    std::vector<Candidate> items;
    size_t n_sorted = 0; // items[0 .. n_sorted) are the best of all items, in order (logit descending, id ascending)
};

// Every token of a row that is not forbidden, in id order; sorted only when top_k does it.
// top_k in 1 .. n-1 keeps the best top_k, in order; other values keep all.
// Errors: OPTION for NaN, +infinity, or when all are forbidden.
void gather_candidates(const LogitRow & row, int32_t top_k, CandidateList & list);

// Extends the sorted prefix to at least `count` items.
void sort_prefix(CandidateList & list, size_t count);

// Largest logit of a list that is not empty.
float largest_logit(const CandidateList & list) noexcept;

// p = softmax(logit / temperature) over the list. temperature > 0.
void softmax(CandidateList & list, double temperature = 1.0);

// Keep logits at most n standard deviations (of the logits of the list) below the largest (Tang et al.,
// "Top-n-sigma", ACL 2025). n <= 0 keeps all.
void filter_top_n_sigma(CandidateList & list, float n);

// Keep the `k` best, in order. k <= 0 keeps all.
void filter_top_k(CandidateList & list, int32_t k);

// Locally typical sampling (Meister et al., TACL 2023): candidates ordered by | -ln p - entropy |, kept until their
// probability sum exceeds typical_p. typical_p >= 1 keeps all. The result is in that order.
void filter_typical(CandidateList & list, float typical_p, size_t min_keep = 0);

// Nucleus sampling (Holtzman et al., ICLR 2020): the smallest best prefix with a probability sum of at least top_p.
// top_p >= 1 keeps all.
void filter_top_p(CandidateList & list, float top_p, size_t min_keep = 0);

// Keep candidates with p >= min_p * max p (Nguyen et al., ICLR 2025). min_p <= 0 keeps all.
void filter_min_p(CandidateList & list, float min_p, size_t min_keep = 0);

// "Exclude top choices" (p-e-w, text-generation-webui): of the candidates with p >= threshold all but the least likely
// go. threshold > 0.5 keeps all, and so does a list that would become shorter than min_keep. Whether it happens at all
// is a coin that the caller throws.
void filter_xtc(CandidateList & list, float threshold, size_t min_keep = 0);

// The truncation of mirostat 2.0 (Basu et al., ICLR 2021): keep candidates whose surprise -log2 p, at this temperature,
// is at most mu; the best one in any case.
void filter_mirostat(CandidateList & list, double temperature, double mu);

// Temperature by entropy ("dynamic temperature" of koboldcpp and text-generation-webui): between
// max(0, temperature - range) and temperature + range, by (entropy / largest possible entropy) ^ exponent. range <= 0
// gives the temperature itself. May be 0. Changes nothing but p.
double dynamic_temperature(CandidateList & list, double temperature, double range, double exponent);

} // namespace pyspec
