// ngram-cache: the token that most often followed the last 1 to 4 tokens, by counts of this text and of files.
#pragma once

#include "history/ngram_counts.h"
#include "history/ngram_drafter.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace pyspec {

// Three tables. Context: exact counts of n-grams of 1 to 4 tokens in the committed history, whatever was done to it.
// Dynamic: a file's counts, which a learning drafter enlarges by text that leaves the history. Static: a file's counts,
// of which those of 2 tokens are used; made once from a large collection.
//
// Each token of a draft is the first of these: from the context, with lax thresholds; from the dynamic table, with
// strict ones; the static table's best. The longest n-gram is tried first; the candidate is the token with the largest
// count, a count being multiplied by a hundred times that of the static table where it knows the token too. Thresholds
// (number of samples, share of the candidate) are llama.cpp's. Drafts of fewer than four tokens of text are not made.
//
// Where llama.cpp's drafter of this name differs: there n-grams that cross from one call to the next are never counted,
// a shorter new prompt is not counted at all, the old one's counts stay, and files are never written.
//
// Cost per committed token: eight table lookups; per drafted token: at most four, and as many as the static table has
// tokens. Memory: at most 424 bytes per token of the longest history (half of it is usual) and what the files' tables
// need (ngram_counts.h).
class NgramCache final : public NgramDrafter {
public:
    // From this many n-grams on (about 100 MB) the dynamic table takes in no more.
    static constexpr size_t max_learnt = size_t{1} << 20;

    // learn: the dynamic table takes in the text that leaves the history by begin, truncate and remove.
    NgramCache(size_t n_max, int32_t n_vocab, bool learn)
        : NgramDrafter(n_max, n_evidence), n_vocab_(n_vocab), learn_(learn) {}
    size_t memory_bytes() const override;

    // Replace a table by a file's content. Throws FILE_FORMAT and changes nothing when it is not one.
    void load_dynamic(std::string_view bytes, const std::string & name);
    void load_static(std::string_view bytes, const std::string & name);
    // The dynamic table with the context's counts added, as the content of a file; changes nothing.
    std::string save_dynamic() const;

    const NgramCounts & context_counts() const { return context_; }
    const NgramCounts & dynamic_counts() const { return dynamic_; }
    const NgramCounts & static_counts() const { return static_; }

protected:
    void grown(size_t from) override;
    void cutting(size_t n, bool withdrawn) override;
    void make_draft(int32_t last, size_t limit, NgramDraft & draft) override;

private:
    static constexpr size_t max_size   = 4;
    static constexpr size_t n_evidence = 2 * max_size + 1; // context by size, dynamic by size, static

    struct Thresholds {
        std::array<int32_t, max_size> samples;
        std::array<int32_t, max_size> percent;
    };
    static constexpr Thresholds lax    = {{2, 2, 1, 1}, {66, 50, 50, 50}};
    static constexpr Thresholds strict = {{4, 3, 2, 2}, {75, 66, 66, 66}};

    template <typename F> void each_ngram(size_t i, F && f) const;
    bool add_from(const NgramCounts & counts, const Thresholds & thresholds, const int32_t * text_end,
                  const NgramCounts::Entry * known, uint8_t evidence, NgramDraft & draft) const;

    int32_t n_vocab_;
    bool learn_;
    NgramCounts context_, dynamic_, static_;
    std::vector<std::array<int32_t, max_size>> best_before_; // by place and size, to take counts back
    std::vector<int32_t> window_;
};

} // namespace pyspec
