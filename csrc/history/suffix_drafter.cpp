#include "history/suffix_drafter.h"

#include "support/error.h"

#include <algorithm>
#include <utility>

namespace pyspec {
namespace {

void check_tokens(const int32_t * tokens, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        if (tokens[i] <= INT32_MIN + 1) {
            throw Error(PYSPEC_OPTION,
                        format("token %lld is %d, which stands for no token", static_cast<long long>(i), tokens[i]));
        }
    }
}

void check_range(const char * name, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high) {
        throw Error(PYSPEC_OPTION, format("%s is %lld, expected %lld to %lld", name, static_cast<long long>(value),
                                          static_cast<long long>(low), static_cast<long long>(high)));
    }
}

int64_t n_repeated(const std::vector<int32_t> & tokens) {
    return std::min(static_cast<int64_t>(tokens.size()), int64_t{SuffixDrafter::seam_tokens});
}

void append_end(SuffixAutomaton & text, const std::vector<int32_t> & tokens) {
    for (auto it = tokens.end() - n_repeated(tokens); it != tokens.end(); ++it) text.append(*it);
}

} // namespace

void SuffixDrafter::Static::advance(int32_t token) noexcept {
    before[next_before] = match;
    next_before         = (next_before + 1) % SuffixAutomaton::undo_depth;
    n_before            = std::min(n_before + 1, SuffixAutomaton::undo_depth);
    uint32_t next;
    while ((next = text.next(match.state, token)) == SuffixAutomaton::no_state) {
        if (match.state == SuffixAutomaton::root) {
            match = {};
            return;
        }
        match.state  = text.state(match.state).link;
        match.length = text.state(match.state).length;
    }
    match = {next, match.length + 1};
}

void SuffixDrafter::Static::undo(uint32_t n, const std::vector<int32_t> & tokens) noexcept {
    if (n > n_before) {
        restart(tokens);
        return;
    }
    next_before = (next_before + SuffixAutomaton::undo_depth - n) % SuffixAutomaton::undo_depth;
    n_before -= n;
    match = before[next_before];
}

void SuffixDrafter::Static::restart(const std::vector<int32_t> & tokens) noexcept {
    match = {};
    for (auto it = tokens.end() - n_repeated(tokens); it != tokens.end(); ++it) advance(*it);
    n_before = 0; // what was noted above did not see the tokens before them
}

SuffixDrafter::SuffixDrafter(SuffixDrafterParams params) : params_(std::move(params)) {
    check_range("max_draft", params_.max_draft, 1, 1024);
    check_range("memory_tokens", params_.memory_tokens, 1024, int64_t{1} << 28);
}

template <typename F> void SuffixDrafter::for_static(F && f) {
    if (older_ != nullptr) f(*older_);
    for (const auto & corpus : corpora_) f(*corpus);
}

void SuffixDrafter::edited() noexcept {
    recent_source_.forget_open();
    for_static([](Static & s) { s.source.forget_open(); });
}

void SuffixDrafter::follow(int64_t start, const int32_t * tokens, int64_t n) {
    check_range("n", n, 0, INT32_MAX);
    check_range("start", start, 0, n_tokens());
    check_tokens(tokens, n);
    const int64_t n_known = std::min(n, n_tokens() - start);
    const int64_t n_equal = std::mismatch(tokens, tokens + n_known, tokens_.data() + start).first - tokens;
    truncate(start + n_equal);
    const size_t needed = tokens_.size() + static_cast<size_t>(n - n_equal);
    if (needed > tokens_.capacity()) tokens_.reserve(std::max(needed, tokens_.capacity() * 3 / 2));
    for (int64_t i = n_equal; i < n; ++i) append_one(tokens[i]);
}

void SuffixDrafter::append_one(int32_t token) {
    index(token);
    tokens_.push_back(token);
    recent_source_.observe(token);
    for_static([token](Static & s) {
        s.source.observe(token);
        s.advance(token);
    });
}

void SuffixDrafter::index(int32_t token) {
    if (static_cast<int64_t>(recent_.n_tokens()) >= params_.memory_tokens / 2) turn_over(true);
    recent_.append(token);
}

void SuffixDrafter::turn_over(bool repeat_end) {
    SuffixAutomaton fresh;
    if (repeat_end) append_end(fresh, tokens_);
    auto old = std::make_unique<Static>();
    if (older_ != nullptr)
        old->source = older_->source; // its calibration; what it learnt holds for old text in general
    recent_.end_document();
    old->text = std::exchange(recent_, std::move(fresh));
    older_    = std::move(old);
    older_->restart(tokens_);
}

void SuffixDrafter::start_document() {
    if (static_cast<int64_t>(recent_.n_tokens()) + n_repeated(tokens_) > params_.memory_tokens / 2) {
        turn_over(true);
    } else {
        recent_.end_document();
        append_end(recent_, tokens_);
    }
}

void SuffixDrafter::truncate(int64_t n) {
    check_range("n", n, 0, INT64_MAX);
    const int64_t taken = n_tokens() - n;
    if (taken <= 0) return;
    edited();
    tokens_.resize(static_cast<size_t>(n));
    if (taken <= undoable()) {
        for (int64_t i = 0; i < taken; ++i) recent_.undo();
        for_static([&](Static & s) { s.undo(static_cast<uint32_t>(taken), tokens_); });
    } else {
        for_static([&](Static & s) { s.restart(tokens_); });
        start_document();
    }
}

void SuffixDrafter::undo(int64_t n) {
    check_range("n", n, 0, undoable());
    truncate(n_tokens() - n);
}

void SuffixDrafter::remove(int64_t begin, int64_t end) {
    check_range("begin", begin, 0, n_tokens());
    check_range("end", end, begin, INT64_MAX);
    if (end >= n_tokens()) {
        truncate(begin);
        return;
    }
    if (begin == end) return;
    edited();
    tokens_.erase(tokens_.begin() + begin, tokens_.begin() + end);
    for_static([&](Static & s) { s.restart(tokens_); });
    start_document();
}

void SuffixDrafter::add_document(const int32_t * tokens, int64_t n) {
    check_range("n", n, 0, INT32_MAX);
    check_tokens(tokens, n);
    if (n == 0) return;
    recent_.end_document();
    for (int64_t i = 0; i < n; ++i) {
        if (static_cast<int64_t>(recent_.n_tokens()) >= params_.memory_tokens / 2) turn_over(false);
        recent_.append(tokens[i]);
    }
    start_document();
}

void SuffixDrafter::add_corpus(const int32_t * tokens, const int64_t * ends, int64_t n_documents) {
    check_range("n_documents", n_documents, 0, INT32_MAX);
    int64_t begin = 0;
    for (int64_t i = 0; i < n_documents; ++i) {
        check_range("the end of a document", ends[i], begin, max_corpus_tokens);
        begin = ends[i];
    }
    check_tokens(tokens, begin);
    auto corpus = std::make_unique<Static>();
    begin       = 0;
    for (int64_t i = 0; i < n_documents; ++i) {
        for (; begin < ends[i]; ++begin) corpus->text.append(tokens[begin]);
        corpus->text.end_document();
    }
    corpus->restart(tokens_);
    corpora_.push_back(std::move(corpus));
}

void SuffixDrafter::reset() {
    SuffixAutomaton fresh;
    recent_ = std::move(fresh);
    recent_source_.reset();
    older_.reset();
    std::vector<int32_t>().swap(tokens_);
    for_static([&](Static & s) {
        s.source.reset();
        s.restart(tokens_);
    });
}

const std::vector<Guess> & SuffixDrafter::draft(int32_t limit, double min_product) {
    draft_.clear();
    const WalkLimits limits{static_cast<uint32_t>(params_.max_draft), std::min(min_product, least_product),
                            params_.end_tokens};
    const auto n       = static_cast<uint64_t>(n_tokens());
    double best_length = 0.0;
    const auto weigh   = [&](const std::vector<Guess> & guess) {
        double length = 0.0, product = 1.0;
        size_t kept = 0;
        while (kept < guess.size() && static_cast<int32_t>(kept) < limit) {
            product *= guess[kept].confidence;
            if (product < min_product) break;
            length += product;
            ++kept;
        }
        if (length <= best_length) return;
        best_length = length;
        draft_.assign(guess.begin(), guess.begin() + static_cast<std::ptrdiff_t>(kept));
    };
    const uint32_t last = recent_.last();
    weigh(recent_source_.guess(recent_, {last, recent_.state(last).length}, n, limits));
    for_static([&](Static & s) { weigh(s.source.guess(s.text, s.match, n, limits)); });
    return draft_;
}

int64_t SuffixDrafter::n_indexed() const noexcept {
    return static_cast<int64_t>(recent_.n_tokens() + (older_ == nullptr ? 0 : older_->text.n_tokens()));
}

int64_t SuffixDrafter::n_states() const noexcept {
    return static_cast<int64_t>(recent_.n_states() + (older_ == nullptr ? 0 : older_->text.n_states()));
}

int64_t SuffixDrafter::n_transitions() const noexcept {
    return static_cast<int64_t>(recent_.n_transitions() + (older_ == nullptr ? 0 : older_->text.n_transitions()));
}

uint64_t SuffixDrafter::memory_bytes() const noexcept {
    size_t bytes   = sizeof *this + tokens_.capacity() * sizeof(int32_t) + recent_.memory_bytes() +
                     recent_source_.memory_bytes() + draft_.capacity() * sizeof(Guess) +
                     params_.end_tokens.capacity() * sizeof(int32_t) + corpora_.capacity() * sizeof(corpora_[0]);
    const auto add = [&bytes](const Static & s) {
        bytes += sizeof s - sizeof s.text - sizeof s.source + s.text.memory_bytes() + s.source.memory_bytes();
    };
    if (older_ != nullptr) add(*older_);
    for (const auto & corpus : corpora_) add(*corpus);
    return bytes;
}

} // namespace pyspec
