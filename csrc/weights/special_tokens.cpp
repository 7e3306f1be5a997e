#include "weights/special_tokens.h"

#include <algorithm>
#include <initializer_list>
#include <set>

namespace pyspec {

namespace {

using Texts = std::initializer_list<std::string_view>;

// Bars are U+FF5C and blanks U+2581 in DeepSeek's names.
constexpr std::string_view DEEPSEEK_END = "<｜end▁of▁sentence｜>";

const Texts EOT_TEXTS = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",     "<|end_of_text|>",
                         "<EOT>",      "_<EOT>",     "[EOT]",   DEEPSEEK_END,    "<end_of_utterance>"};
const Texts EOM_TEXTS = {"<|eom_id|>"};
const Texts FIM_PRE_TEXTS = {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",    "<｜fim▁begin｜>",
                             "<PRE>",          "▁<PRE>",       "<|code_prefix|>", "<|prefix|>"};
const Texts FIM_SUF_TEXTS = {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",    "<｜fim▁hole｜>",
                             "<SUF>",          "▁<SUF>",       "<|code_suffix|>", "<|suffix|>"};
const Texts FIM_MID_TEXTS = {"<|fim_middle|>", "<fim-middle>", "<fim_middle>",    "<｜fim▁end｜>",
                             "<MID>",          "▁<MID>",       "<|code_middle|>", "<|middle|>"};
const Texts FIM_PAD_TEXTS = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"};
const Texts FIM_REP_TEXTS = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"};
const Texts FIM_SEP_TEXTS = {"<|file_sep|>"};

const Texts EOG_TEXTS = {"<|eot_id|>",
                         "<|im_end|>",
                         "<|end|>",
                         "<|return|>",
                         "<|call|>",
                         "<|flush|>",
                         "<|calls|>",
                         "<end_of_turn>",
                         "<turn|>",
                         "<|tool_response>",
                         "<|endoftext|>",
                         "</s>",
                         "<|eom_id|>",
                         "<EOT>",
                         "_<EOT>",
                         "[EOT]",
                         "[EOS]",
                         "<|end_of_text|>",
                         "<end_of_utterance>",
                         "<eos>",
                         "[e~[",
                         DEEPSEEK_END};

// Channel marks of the harmony chat format, which have to be visible to the program that reads the answer.
const Texts HARMONY_TEXTS = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};

bool contains(Texts list, std::string_view text) {
    return std::find(list.begin(), list.end(), text) != list.end();
}

void set_kind_defaults(Vocabulary & v) {
    if (v.kind == "llama") { // SPM
        v.bos              = 1;
        v.eos              = 2;
        v.unk              = 0;
        v.add_bos          = true;
        v.add_space_prefix = true;
    } else if (v.kind == "gpt2") { // byte-level BPE
        v.bos     = 11;
        v.eos     = 11;
        v.add_bos = contains({"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
                              "jina-v5-nano", "tekken"},
                             v.pre);
        if (contains({"chatglm-bpe", "glm4", "glm5"}, v.pre)) v.bos = -1;
    } else if (v.kind == "gemma4") {
        v.add_bos = true;
    } else if (v.kind == "bert") { // WPM
        v.bos     = 101;
        v.unk     = 100;
        v.sep     = 102;
        v.pad     = 0;
        v.mask    = 103;
        v.add_bos = true;
    } else if (v.kind == "t5") { // UGM
        v.eos              = 1;
        v.unk              = 2;
        v.pad              = 0;
        v.add_eos          = true;
        v.add_space_prefix = true;
    }
}

class Resolver {
public:
    Resolver(const ModelFile & file, const TokenIndex & index, Vocabulary & vocab)
        : file_(file), index_(index), v_(vocab) {}

    void run() {
        set_kind_defaults(v_);
        read_ids();
        read_flags();
        guess_ids();
        build_eog();
    }

private:
    // A key with an id outside the vocabulary counts as absent, as does a default that the vocabulary is too small for.
    void read_id(int32_t & id, std::initializer_list<const char *> names) {
        bool found = false;
        for (const char * name : names) {
            if (const auto value = file_.find_u32(std::string("tokenizer.ggml.") + name); value && !found) {
                found = *value < static_cast<uint32_t>(v_.n_tokens);
                if (found) id = static_cast<int32_t>(*value);
            }
        }
        if (id >= v_.n_tokens) id = -1;
    }

    void read_ids() {
        read_id(v_.bos, {"bos_token_id"});
        read_id(v_.eos, {"eos_token_id"});
        read_id(v_.eot, {"eot_token_id"});
        read_id(v_.eom, {"eom_token_id"});
        read_id(v_.unk, {"unknown_token_id"});
        read_id(v_.sep, {"seperator_token_id"}); // the format's own spelling
        read_id(v_.pad, {"padding_token_id"});
        read_id(v_.mask, {"mask_token_id"});
        read_id(v_.fim_pre, {"fim_pre_token_id", "prefix_token_id"});
        read_id(v_.fim_suf, {"fim_suf_token_id", "suffix_token_id"});
        read_id(v_.fim_mid, {"fim_mid_token_id", "middle_token_id"});
        read_id(v_.fim_pad, {"fim_pad_token_id"});
        read_id(v_.fim_rep, {"fim_rep_token_id"});
        read_id(v_.fim_sep, {"fim_sep_token_id"});
    }

    void read_flags() {
        const auto add_bos = file_.find_bool("tokenizer.ggml.add_bos_token");
        // Early gemma4 files say false by mistake; the model needs it.
        if (add_bos && v_.kind != "gemma4") v_.add_bos = *add_bos;
        v_.add_eos          = file_.find_bool("tokenizer.ggml.add_eos_token").value_or(v_.add_eos);
        v_.add_space_prefix = file_.find_bool("tokenizer.ggml.add_space_prefix").value_or(v_.add_space_prefix);
    }

    int32_t find(std::string_view text) const { return index_.find(text); }

    void make_control(int32_t id) { v_.types[static_cast<size_t>(id)] = PYSPEC_TOKEN_CONTROL; }
    void make_user_defined(int32_t id) { v_.types[static_cast<size_t>(id)] = PYSPEC_TOKEN_USER_DEFINED; }

    void guess_id(int32_t & id, Texts texts) {
        if (id >= 0) return;
        for (const std::string_view text : texts) {
            id = find(text);
            if (id < 0) continue;
            make_control(id);
            return;
        }
    }

    void guess_ids() {
        guess_id(v_.eot, EOT_TEXTS);
        guess_id(v_.eom, EOM_TEXTS);
        guess_id(v_.fim_pre, FIM_PRE_TEXTS);
        guess_id(v_.fim_suf, FIM_SUF_TEXTS);
        guess_id(v_.fim_mid, FIM_MID_TEXTS);
        guess_id(v_.fim_pad, FIM_PAD_TEXTS);
        guess_id(v_.fim_rep, FIM_REP_TEXTS);
        guess_id(v_.fim_sep, FIM_SEP_TEXTS);
    }

    void build_eog() {
        std::set<int32_t> eog;
        for (const std::string_view text : EOG_TEXTS) {
            const int32_t id = find(text);
            if (id < 0) continue;
            eog.insert(id);
            make_control(id);
        }
        for (const std::string_view text : HARMONY_TEXTS) {
            const int32_t id = find(text);
            if (id >= 0) make_user_defined(id);
        }
        for (const int32_t id : {v_.fim_pad, v_.fim_rep, v_.fim_sep, v_.eos, v_.eot, v_.eom}) {
            if (id >= 0) eog.insert(id);
        }
        const auto has = [&](std::string_view text) { return eog.count(find(text)) > 0; };
        // Harmony and its relatives end every message of a turn with <|end|>; only the others end the turn.
        if ((has("<|return|>") || has("<|flush|>")) && (has("<|call|>") || has("<|calls|>")) && has("<|end|>")) {
            const int32_t end = find("<|end|>");
            eog.erase(end);
            make_user_defined(end);
        }
        // Here </s> is ordinary text (HTML), although it looks like SPM's end token.
        if ((has("<|tool_response>") || has("<|plamo:eos|>")) && has("</s>")) {
            const int32_t end = find("</s>");
            eog.erase(end);
            v_.types[static_cast<size_t>(end)] = PYSPEC_TOKEN_NORMAL;
        }
        v_.eog.assign(eog.begin(), eog.end());
    }

    const ModelFile & file_;
    const TokenIndex & index_;
    Vocabulary & v_;
};

} // namespace

void resolve_special_tokens(const ModelFile & file, const TokenIndex & index, Vocabulary & vocab) {
    Resolver(file, index, vocab).run();
}

} // namespace pyspec
