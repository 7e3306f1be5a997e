#include "history/copy_source.h"

#include <algorithm>

namespace pyspec {
namespace {

// The longest suffix of the match that occurs somewhere with a token after it; length 0: none.
Match longest_continued(const SuffixAutomaton & text, Match end) noexcept {
    for (uint32_t steps = 0; end.state != SuffixAutomaton::root && steps < SuffixAutomaton::chain_budget; ++steps) {
        if (text.continued(end.state) > 0) return end;
        end.state  = text.state(end.state).link;
        end.length = text.state(end.state).length;
    }
    return {};
}

} // namespace

const std::vector<Guess> & CopySource::guess(const SuffixAutomaton & text, Match end, uint64_t n_tokens,
                                             const WalkLimits & limits) {
    const Match anchor = longest_continued(text, end);
    match_length_      = anchor.length;
    guess_.clear();
    if (anchor.length > 0) walk(text, anchor, limits);
    keep_open(n_tokens);
    return guess_;
}

void CopySource::walk(const SuffixAutomaton & text, Match anchor, const WalkLimits & limits) {
    guess_.reserve(limits.max_tokens);
    uint32_t at    = anchor.state;
    double product = 1.0;
    for (uint32_t place = 1; place <= limits.max_tokens; ++place) {
        uint32_t total = text.continued(at);
        if (total == 0) {
            if (!text.at_end(at)) return; // all occurrences end their documents
            at    = anchor.state;
            total = text.continued(at);
        }
        const int32_t token = text.state(at).best;
        if (token < 0) return; // nothing known, or not a token: an id below 0 stands for an image or the like
        const uint32_t next     = text.next(at, token);
        const uint32_t count    = text.state(next).occurrences;
        total                   = std::max(total, count); // counts of short strings may lag behind
        const double logit      = copy_logit({anchor.length, place, count, total, text.degree(at)});
        const auto estimate     = static_cast<float>(sigmoid(logit)); // as `observe` will see it
        const double confidence = calibration_.corrected(logit, Calibration::bin(estimate));
        product *= confidence;
        if (product < limits.min_product) return;
        guess_.push_back({token, estimate, static_cast<float>(confidence)});
        if (std::find(limits.last_ids.begin(), limits.last_ids.end(), token) != limits.last_ids.end()) return;
        at = next;
    }
}

void CopySource::keep_open(uint64_t start) {
    // Asked again at the same place: the newer guess stands for both.
    if (n_open_ > 0 && open_[n_open_ - 1].start == start) --n_open_;
    if (guess_.empty()) return;
    if (n_open_ == max_open) {
        std::rotate(open_.begin(), open_.begin() + 1, open_.begin() + n_open_);
        --n_open_;
    }
    if (open_.size() <= n_open_) open_.resize(n_open_ + 1);
    Open & open = open_[n_open_];
    open.guess  = guess_;
    open.start  = start;
    open.seen   = 0;
    ++n_open_;
}

void CopySource::observe(int32_t token) noexcept {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n_open_; ++i) {
        Open & open         = open_[i];
        const Guess & guess = open.guess[open.seen];
        const bool right    = guess.token == token;
        calibration_.observe(guess.estimate, right);
        ++open.seen;
        if (right && open.seen < open.guess.size()) {
            if (kept != i) std::swap(open_[kept], open);
            ++kept;
        }
    }
    n_open_ = kept;
}

void CopySource::reset() noexcept {
    calibration_.reset();
    forget_open();
    match_length_ = 0;
}

size_t CopySource::memory_bytes() const noexcept {
    size_t bytes = sizeof *this + guess_.capacity() * sizeof(Guess) + open_.capacity() * sizeof(Open);
    for (const Open & open : open_) bytes += open.guess.capacity() * sizeof(Guess);
    return bytes;
}

} // namespace pyspec
