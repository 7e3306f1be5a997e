#include "weights/vocabulary.h"

#include "support/log.h"
#include "support/text.h"
#include "weights/special_tokens.h"

#include <cmath>
#include <cstring>

namespace pyspec {

namespace {

using ull = unsigned long long;

constexpr const char * TOKENS = "tokenizer.ggml.tokens";
constexpr const char * SCORES = "tokenizer.ggml.scores";
constexpr const char * TYPES  = "tokenizer.ggml.token_type";
constexpr const char * MERGES = "tokenizer.ggml.merges";

class VocabularyReader {
public:
    explicit VocabularyReader(const ModelFile & file) : file_(file), v_(std::make_unique<Vocabulary>()) {}

    std::unique_ptr<Vocabulary> read() {
        const auto kind   = file_.find_str("tokenizer.ggml.model");
        const bool tokens = file_.metadata().find(TOKENS) != file_.metadata().end();
        if (!kind && !tokens) return nullptr;
        if (kind && (*kind == "none" || *kind == "no_vocab")) return nullptr;
        if (!kind) fail("key 'tokenizer.ggml.model' is missing, although there are tokens");
        v_->kind = *kind;
        v_->pre  = file_.find_str("tokenizer.ggml.pre").value_or("");
        read_tokens();
        read_types();
        read_scores();
        read_merges();
        resolve_special_tokens(file_, *index_, *v_);
        return std::move(v_);
    }

private:
    [[noreturn]] void fail(const std::string & text) const {
        throw Error(PYSPEC_FILE_FORMAT, file_.path() + ": " + text);
    }

    const MetaValue * find_array(const char * key, std::initializer_list<MetaType> elements,
                                 const char * expected) const {
        const auto it = file_.metadata().find(key);
        if (it == file_.metadata().end()) return nullptr;
        const MetaValue & value = it->second;
        for (const MetaType element : elements) {
            if (value.type == MetaType::array && value.element == element) return &value;
        }
        const bool is_array = value.type == MetaType::array;
        fail(format("key '%s' has type %s%s, expected %s", key, is_array ? "array of " : "",
                    meta_type_name(is_array ? value.element : value.type), expected));
    }

    void check_length(const char * key, const MetaValue & value) const {
        if (value.count == static_cast<uint64_t>(v_->n_tokens)) return;
        fail(format("key '%s' has %llu entries, expected %d (one per token)", key, static_cast<ull>(value.count),
                    v_->n_tokens));
    }

    void read_tokens() {
        const MetaValue * tokens = find_array(TOKENS, {MetaType::string}, "an array of strings");
        if (tokens == nullptr)
            fail(format("key '%s' is missing, although key 'tokenizer.ggml.model' is there", TOKENS));
        if (tokens->count == 0 || tokens->count > INT32_MAX) {
            fail(format("key '%s' has %llu entries", TOKENS, static_cast<ull>(tokens->count)));
        }
        v_->n_tokens = static_cast<int32_t>(tokens->count);
        pack(tokens->strings, v_->text, v_->text_offset, true);
        index_.emplace(*v_);
        for (int32_t id = 0; id < v_->n_tokens; id++) {
            const int32_t same = index_->add(id);
            if (same < 0) continue;
            // Text to id would depend on luck, and with it what a prompt means.
            fail(format("key '%s': tokens %d and %d have the same text %s", TOKENS, same, id,
                        quote_bytes(v_->token_text(id)).c_str()));
        }
    }

    static void pack(const std::vector<std::string_view> & strings, std::string & text, std::vector<uint64_t> & offset,
                     bool name_empty) {
        size_t total = 0;
        for (const std::string_view s : strings) total += s.size() + (s.empty() && name_empty ? 24 : 0);
        text.reserve(total);
        offset.reserve(strings.size() + 1);
        for (size_t i = 0; i < strings.size(); i++) {
            offset.push_back(text.size());
            if (strings[i].empty() && name_empty) {
                text += "[EMPTY_" + std::to_string(i) + "]";
            } else {
                text += strings[i];
            }
        }
        offset.push_back(text.size());
    }

    void read_types() {
        const auto n = static_cast<size_t>(v_->n_tokens);
        v_->types.assign(n, PYSPEC_TOKEN_NORMAL);
        const MetaValue * types = find_array(TYPES, {MetaType::i32, MetaType::u32}, "an array of i32");
        if (types == nullptr) return;
        check_length(TYPES, *types);
        std::memcpy(v_->types.data(), types->bytes.data(), n * sizeof(int32_t));
        int n_unknown = 0;
        for (int32_t & type : v_->types) {
            if (type >= PYSPEC_TOKEN_UNDEFINED && type <= PYSPEC_TOKEN_BYTE) continue;
            type = PYSPEC_TOKEN_UNDEFINED;
            n_unknown++;
        }
        if (n_unknown > 0) {
            log_message(PYSPEC_LOG_WARN,
                        format("%s: %d tokens have a type this build does not know; they are never printed",
                               file_.path().c_str(), n_unknown));
        }
    }

    void read_scores() {
        const auto n = static_cast<size_t>(v_->n_tokens);
        v_->scores.assign(n, 0.0f);
        const MetaValue * scores = find_array(SCORES, {MetaType::f32, MetaType::i32}, "an array of f32");
        if (scores == nullptr) return;
        check_length(SCORES, *scores);
        for (size_t i = 0; i < n; i++) {
            if (scores->element == MetaType::f32) {
                std::memcpy(&v_->scores[i], scores->bytes.data() + i * sizeof(float), sizeof(float));
                if (std::isnan(v_->scores[i]))
                    fail(format("key '%s': the score of token %zu is not a number", SCORES, i));
            } else {
                int32_t value;
                std::memcpy(&value, scores->bytes.data() + i * sizeof value, sizeof value);
                v_->scores[i] = static_cast<float>(value);
            }
        }
    }

    void read_merges() {
        v_->merges_offset.push_back(0);
        const MetaValue * merges = find_array(MERGES, {MetaType::string}, "an array of strings");
        const bool is_bpe        = v_->kind == "gpt2" || v_->kind == "gemma4";
        if (merges == nullptr) {
            // Kimi's vocabulary ranks by id and has no list.
            if (is_bpe && v_->pre != "kimi-k2") fail(format("key '%s' is missing in a BPE vocabulary", MERGES));
            return;
        }
        if (!is_bpe) return;
        if (merges->count > INT32_MAX)
            fail(format("key '%s' has %llu entries", MERGES, static_cast<ull>(merges->count)));
        for (size_t i = 0; i < merges->strings.size(); i++) {
            const std::string_view merge = merges->strings[i];
            const size_t space           = merge.find(' ', 1); // the left side is never empty and may be a space itself
            if (merge.empty() || space == merge.npos || space + 1 == merge.size()) {
                fail(format("key '%s': entry %zu is %s, expected two symbols with a space between", MERGES, i,
                            quote_bytes(merge).c_str()));
            }
        }
        v_->n_merges = static_cast<int32_t>(merges->count);
        v_->merges_offset.clear();
        pack(merges->strings, v_->merges, v_->merges_offset, false);
    }

    const ModelFile & file_;
    std::unique_ptr<Vocabulary> v_;
    std::optional<TokenIndex> index_;
};

} // namespace

std::unique_ptr<Vocabulary> read_vocabulary(const ModelFile & file) {
    return VocabularyReader(file).read();
}

} // namespace pyspec
