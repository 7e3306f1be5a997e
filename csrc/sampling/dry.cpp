#include "sampling/dry.h"

#include "support/error.h"

#include <algorithm>
#include <cmath>

namespace pyspec {

DryBreakers::DryBreakers(Sequences sequences, int32_t n_vocab) {
    for (const std::vector<int32_t> & sequence : sequences) {
        if (sequence.empty()) throw Error(PYSPEC_OPTION, "a DRY breaker has no tokens; allowed: one or more");
        for (int32_t token : sequence) {
            if (token >= 0 && token < n_vocab) continue;
            throw Error(PYSPEC_OPTION, format("a DRY breaker names token %d; allowed: 0 to %d", token, n_vocab - 1));
        }
    }
    std::sort(sequences.begin(), sequences.end());
    sequences.erase(std::unique(sequences.begin(), sequences.end()), sequences.end());
    if (sequences.empty()) return;
    Data data{std::move(sequences), n_vocab, std::vector<bool>(static_cast<size_t>(n_vocab)), {}};
    for (size_t i = 0; i < data.sequences.size(); ++i) {
        const std::vector<int32_t> & sequence = data.sequences[i];
        if (sequence.size() > 1) {
            data.by_last[sequence.back()].push_back(i);
            continue;
        }
        data.single[static_cast<size_t>(sequence[0])] = true;
    }
    data_ = std::make_shared<const Data>(std::move(data));
}

const DryBreakers::Sequences & DryBreakers::sequences() const noexcept {
    static const Sequences none;
    return data_ == nullptr ? none : data_->sequences;
}

bool DryBreakers::is_breaker(int32_t token) const noexcept {
    const size_t i = static_cast<size_t>(token);
    return data_ != nullptr && i < data_->single.size() && data_->single[i];
}

size_t DryBreakers::n_since(const int32_t * newest_first, size_t n) const noexcept {
    if (data_ == nullptr) return n;
    for (size_t i = 0; i < n; ++i) {
        if (is_breaker(newest_first[i])) return i;
        const auto ending = data_->by_last.find(newest_first[i]);
        if (ending == data_->by_last.end()) continue;
        for (size_t s : ending->second) {
            const std::vector<int32_t> & sequence = data_->sequences[s];
            if (sequence.size() <= n - i && std::equal(sequence.rbegin(), sequence.rend(), newest_first + i)) return i;
        }
    }
    return n;
}

void find_repetitions(const int32_t * newest_first, size_t n, const DryBreakers & breakers, int32_t allowed_length,
                      std::vector<int32_t> & work, std::vector<Repetition> & found) {
    found.clear();
    const size_t least = static_cast<size_t>(allowed_length);
    const size_t limit = breakers.n_since(newest_first, n);
    if (limit < least || n < 2) return;

    // work[k]: how many tokens the history ending k tokens ago has in common with the whole history, both read
    // backwards (the Z function of the reversed history): every token is compared once.
    work.assign(n, 0);
    size_t box_first = 0, box_end = 0; // the match that reaches furthest covers [box_first, box_end)
    for (size_t k = 1; k < n; ++k) {
        size_t length = k < box_end ? std::min(box_end - k, static_cast<size_t>(work[k - box_first])) : 0;
        while (k + length < n && newest_first[length] == newest_first[k + length]) ++length;
        if (k + length > box_end) {
            box_first = k;
            box_end   = k + length;
        }
        work[k] = static_cast<int32_t>(length);
    }
    for (size_t k = 1; k < n; ++k) {
        const size_t length = std::min(static_cast<size_t>(work[k]), limit);
        const int32_t token = newest_first[k - 1]; // what followed the earlier occurrence
        if (length < least || breakers.is_breaker(token)) continue;
        found.push_back({token, static_cast<int32_t>(length)});
    }
    // Each token once, with its longest repetition.
    std::sort(found.begin(), found.end(), [](const Repetition & a, const Repetition & b) {
        return a.token != b.token ? a.token < b.token : a.length > b.length;
    });
    const auto same = [](const Repetition & a, const Repetition & b) { return a.token == b.token; };
    found.erase(std::unique(found.begin(), found.end(), same), found.end());
}

float dry_penalised(float logit, int32_t length, float multiplier, float base, int32_t allowed_length) noexcept {
    constexpr double most = 1e30; // finite also as a float
    const double penalty =
        static_cast<double>(multiplier) * std::pow(static_cast<double>(base), length - allowed_length);
    return static_cast<float>(static_cast<double>(logit) - std::min(penalty, most));
}

} // namespace pyspec
