// DRY, "don't repeat yourself" (p-e-w, text-generation-webui): a token that would continue a repetition is made less
// likely, exponentially in the length of the repetition so far. Breakers (line ends, quotes) end repetitions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace pyspec {

// Token sequences that no repetition reaches across. Immutable and shared: tens of thousands of tokens may contain a
// line end, and samplers are copied often.
class DryBreakers {
public:
    using Sequences = std::vector<std::vector<int32_t>>;

    DryBreakers() = default; // none
    // Errors: OPTION for a sequence without tokens or with one outside 0 .. n_vocab-1.
    DryBreakers(Sequences sequences, int32_t n_vocab);

    // The token alone is a breaker.
    bool is_breaker(int32_t token) const noexcept;
    // Tokens behind the last breaker in `newest_first` (its last token counts as part of it); n when there is none.
    size_t n_since(const int32_t * newest_first, size_t n) const noexcept;

    bool operator==(const DryBreakers & other) const {
        return data_ == other.data_ || sequences() == other.sequences();
    }
    const Sequences & sequences() const noexcept;
    int32_t n_vocab() const noexcept { return data_ == nullptr ? 0 : data_->n_vocab; } // 0: none were given

private:
    struct Data {
        Sequences sequences; // sorted, each once
        int32_t n_vocab;
        std::vector<bool> single;                                 // by token
        std::unordered_map<int32_t, std::vector<size_t>> by_last; // sequences of two and more, by their last token
    };
    std::shared_ptr<const Data> data_;
};

struct Repetition {
    int32_t token;  // would continue it
    int32_t length; // tokens that are repeated already, at least allowed_length
};

// Tokens that would continue a repetition of at least `allowed_length` tokens, each once with its longest, in no
// particular order; breakers are left out. newest_first: the last n tokens of the history, the newest first.
// Linear in n. work: space that is reused.
void find_repetitions(const int32_t * newest_first, size_t n, const DryBreakers & breakers, int32_t allowed_length,
                      std::vector<int32_t> & work, std::vector<Repetition> & found);

// logit - multiplier * base ^ (length - allowed_length), never so much that a token is forbidden by it.
float dry_penalised(float logit, int32_t length, float multiplier, float base, int32_t allowed_length) noexcept;

} // namespace pyspec
