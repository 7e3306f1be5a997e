// The vocabulary of a file: checks of its arrays, special ids by kind, key and text, the end-of-generation set, pieces.
#include "check.h"
#include "gguf_bytes.h"

#include "support/log.h"
#include "weights/vocabulary.h"

#include <algorithm>
#include <functional>
#include <limits>

using namespace pyspec;
using namespace gguf_bytes;

namespace {

using Names = std::vector<std::string>;
using Ids   = std::vector<int32_t>;

std::unique_ptr<Vocabulary> read(const Scratch & dir, const File & f) {
    return read_vocabulary(*ModelFile::open(dir.write("vocab.gguf", f.build())));
}

// A BPE file with these texts, all of type normal unless given.
File bpe(const Names & texts, const Ids & types = {}) {
    File f;
    f.str("tokenizer.ggml.model", "gpt2")
        .strings("tokenizer.ggml.tokens", texts)
        .strings("tokenizer.ggml.merges", {"a b"});
    if (!types.empty()) f.numbers<int32_t>("tokenizer.ggml.token_type", MetaType::i32, types);
    return f;
}

File spm(const Names & texts, const Ids & types) {
    File f;
    f.str("tokenizer.ggml.model", "llama").strings("tokenizer.ggml.tokens", texts);
    f.numbers<int32_t>("tokenizer.ggml.token_type", MetaType::i32, types);
    return f;
}

std::string list(const Ids & ids) {
    std::string s;
    for (const int32_t id : ids) s += std::to_string(id) + " ";
    return s;
}

void test_absent(const Scratch & dir) {
    CHECK(read(dir, File().str("general.architecture", "llama")) == nullptr);
    CHECK(read(dir, File().str("tokenizer.ggml.model", "none")) == nullptr);
    CHECK(read(dir, File().str("tokenizer.ggml.model", "no_vocab")) == nullptr);
}

void test_arrays(const Scratch & dir) {
    File f = bpe({"a", "b", "", "ab"}, {1, 4, 5, 1});
    f.numbers<int32_t>("tokenizer.ggml.scores", MetaType::i32, {1, -2, 3, 4}).str("tokenizer.ggml.pre", "qwen2");
    const auto v = read(dir, f);
    CHECK_EQ(v->kind, "gpt2");
    CHECK_EQ(v->pre, "qwen2");
    CHECK_EQ(v->n_tokens, 4);
    CHECK_EQ(v->text_offset.size(), 5u);
    CHECK_EQ(v->token_text(0), "a");
    CHECK_EQ(v->token_text(2), "[EMPTY_2]");
    CHECK_EQ(v->token_text(3), "ab");
    CHECK(v->types == (Ids{1, 4, 5, 1}));
    CHECK(v->scores == (std::vector<float>{1, -2, 3, 4}));
    CHECK_EQ(v->n_merges, 1);
    CHECK_EQ(v->merges, "a b");
    CHECK(v->merges_offset == (std::vector<uint64_t>{0, 3}));
    const auto plain = read(dir, bpe({"a", "b"}));
    CHECK(plain->types == (Ids{1, 1}) && plain->scores == (std::vector<float>{0, 0}) && plain->pre.empty());
    File spaced;
    spaced.str("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", {"a"});
    spaced.strings("tokenizer.ggml.merges", {"  b", "a b c"}); // the left side may be a space, the right may hold one
    CHECK_EQ(read(dir, spaced)->n_merges, 2);

    while (log_poll()) {
    }
    CHECK(read(dir, bpe({"a", "b"}, {1, 77}))->types == (Ids{1, 0}));
    const auto line = log_poll();
    CHECK(line && line->text.find("1 tokens have a type this build does not know") != line->text.npos);
}

void test_bad_arrays(const Scratch & dir) {
    const auto refuse = [&](const File & f, const char * message) {
        CHECK_ERROR(read(dir, f), PYSPEC_FILE_FORMAT, message);
    };
    File no_tokens, no_model, no_merges, numbers, empty;
    refuse(no_tokens.str("tokenizer.ggml.model", "gpt2"), "key 'tokenizer.ggml.tokens' is missing");
    refuse(no_model.strings("tokenizer.ggml.tokens", {"a"}), "key 'tokenizer.ggml.model' is missing");
    refuse(no_merges.str("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", {"a"}),
           "key 'tokenizer.ggml.merges' is missing in a BPE vocabulary");
    refuse(numbers.str("tokenizer.ggml.model", "llama").numbers<int32_t>("tokenizer.ggml.tokens", MetaType::i32, {1}),
           "key 'tokenizer.ggml.tokens' has type array of i32, expected an array of strings");
    refuse(empty.str("tokenizer.ggml.model", "llama").strings("tokenizer.ggml.tokens", {}), "has 0 entries");
    refuse(File().u32("tokenizer.ggml.model", 3).strings("tokenizer.ggml.tokens", {"a"}),
           "has type u32, expected string");
    refuse(bpe({"a", "b", "a"}), "tokens 0 and 2 have the same text 'a'");
    refuse(bpe({"", "[EMPTY_0]"}), "tokens 0 and 1 have the same text '[EMPTY_0]'");
    refuse(bpe({"a", "b"}, {1}), "key 'tokenizer.ggml.token_type' has 1 entries, expected 2 (one per token)");
    refuse(bpe({"a", "b"}).numbers<float>("tokenizer.ggml.scores", MetaType::f32, {1, 2, 3}),
           "has 3 entries, expected 2");
    refuse(bpe({"a", "b"}).numbers<float>("tokenizer.ggml.token_type", MetaType::f32, {1, 2}),
           "array of f32, expected an array");
    refuse(bpe({"a"}).numbers<float>("tokenizer.ggml.scores", MetaType::f32, {std::numeric_limits<float>::quiet_NaN()}),
           "the score of token 0 is not a number");
    refuse(bpe({"a"}).str("tokenizer.ggml.scores", "x"),
           "key 'tokenizer.ggml.scores' has type string, expected an array of f32");
    for (const char * merge : {"", "ab", "ab ", " ", " b"}) {
        File f;
        f.str("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", {"a"});
        refuse(f.strings("tokenizer.ggml.merges", {"a b", merge}), "key 'tokenizer.ggml.merges': entry 1 is '");
    }
    refuse(bpe({"a"}).key("tokenizer.ggml.eos_token_id", MetaType::i32, raw(0)), "has type i32, expected u32");
    refuse(bpe({"a"}).u32("tokenizer.ggml.add_bos_token", 1), "has type u32, expected bool");
    // A vocabulary that ranks by id needs no list.
    File kimi;
    kimi.str("tokenizer.ggml.model", "gpt2")
        .str("tokenizer.ggml.pre", "kimi-k2")
        .strings("tokenizer.ggml.tokens", {"a"});
    CHECK_EQ(read(dir, kimi)->n_merges, 0);
}

void test_kind_defaults(const Scratch & dir) {
    Names many;
    for (int i = 0; i < 120; ++i) many.push_back("t" + std::to_string(i));
    const auto of = [&](const char * kind, const char * pre, size_t n) {
        File f;
        f.str("tokenizer.ggml.model", kind).str("tokenizer.ggml.pre", pre).strings("tokenizer.ggml.merges", {"a b"});
        return read(dir, f.strings("tokenizer.ggml.tokens", Names(many.begin(), many.begin() + static_cast<long>(n))));
    };
    auto v = of("llama", "", 120);
    CHECK(v->bos == 1 && v->eos == 2 && v->unk == 0 && v->pad == -1 && v->add_bos && !v->add_eos &&
          v->add_space_prefix);
    CHECK_EQ(v->n_merges, 0); // not used by this kind
    v = of("gpt2", "qwen2", 120);
    CHECK(v->bos == 11 && v->eos == 11 && v->unk == -1 && !v->add_bos && !v->add_eos && !v->add_space_prefix);
    v = of("gpt2", "qwen2", 11); // the default is not in this vocabulary
    CHECK(v->bos == -1 && v->eos == -1 && v->eog.empty());
    v = of("bert", "", 120);
    CHECK(v->bos == 101 && v->eos == -1 && v->unk == 100 && v->sep == 102 && v->pad == 0 && v->mask == 103 &&
          v->add_bos);
    v = of("t5", "", 120);
    CHECK(v->bos == -1 && v->eos == 1 && v->unk == 2 && v->pad == 0 && !v->add_bos && v->add_eos &&
          v->add_space_prefix);
    v = of("gemma4", "gemma4", 120);
    CHECK(v->bos == -1 && v->eos == -1 && v->add_bos && !v->add_space_prefix);
    v = of("something-new", "", 120);
    CHECK(v->bos == -1 && v->eos == -1 && v->unk == -1 && !v->add_bos);
    for (const char * pre :
         {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken"}) {
        CHECK(of("gpt2", pre, 20)->add_bos);
    }
    for (const char * pre : {"", "default", "gpt-2", "smollm", "gpt-4o", "deepseek-v3", "kimi-k2"})
        CHECK(!of("gpt2", pre, 20)->add_bos);
    CHECK_EQ(of("gpt2", "glm4", 20)->bos, -1);
    CHECK_EQ(of("gpt2", "glm4", 20)->eos, 11);
}

void test_keys(const Scratch & dir) {
    File f               = bpe({"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"});
    const char * names[] = {"bos",  "eos",     "eot",     "eom",     "unknown", "seperator", "padding",
                            "mask", "fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep",   "fim_sep"};
    for (uint32_t i = 0; i < 14; ++i) f.u32(std::string("tokenizer.ggml.") + names[i] + "_token_id", 13 - i);
    f.flag("tokenizer.ggml.add_bos_token", true).flag("tokenizer.ggml.add_eos_token", true);
    f.flag("tokenizer.ggml.add_space_prefix", true);
    const auto v = read(dir, f);
    CHECK_EQ(list({v->bos, v->eos, v->eot, v->eom, v->unk, v->sep, v->pad, v->mask, v->fim_pre, v->fim_suf, v->fim_mid,
                   v->fim_pad, v->fim_rep, v->fim_sep}),
             "13 12 11 10 9 8 7 6 5 4 3 2 1 0 ");
    CHECK(v->add_bos && v->add_eos && v->add_space_prefix);
    CHECK_EQ(list(v->eog), "0 1 2 10 11 12 "); // eos, eot, eom and the three of fill-in-the-middle, ascending
    CHECK(v->is_eog(0) && v->is_eog(12) && !v->is_eog(3) && !v->is_eog(-1) && !v->is_eog(100));
    CHECK(v->types == Ids(14, 1)); // ids given by key leave the type alone

    File old = bpe({"a", "b", "c"});
    old.u32("tokenizer.ggml.prefix_token_id", 0)
        .u32("tokenizer.ggml.suffix_token_id", 1)
        .u32("tokenizer.ggml.middle_token_id", 2);
    const auto w = read(dir, old);
    CHECK(w->fim_pre == 0 && w->fim_suf == 1 && w->fim_mid == 2);
    const auto out = read(
        dir, bpe({"a", "b"}).u32("tokenizer.ggml.eos_token_id", 2).u32("tokenizer.ggml.bos_token_id", 4294967295u));
    CHECK(out->eos == -1 && out->bos == -1);
    File off = spm({"<unk>", "<s>", "</s>"}, {2, 3, 3});
    off.flag("tokenizer.ggml.add_bos_token", false).flag("tokenizer.ggml.add_space_prefix", false);
    const auto x = read(dir, off);
    CHECK(!x->add_bos && !x->add_space_prefix);
    File g;
    g.str("tokenizer.ggml.model", "gemma4")
        .strings("tokenizer.ggml.tokens", {"a"})
        .strings("tokenizer.ggml.merges", {"a b"});
    CHECK(read(dir, g.flag("tokenizer.ggml.add_bos_token", false))->add_bos);
}

void test_guesses(const Scratch & dir) {
    // Fixed order, whatever the order in the file.
    const auto v = read(dir, bpe({"<|endoftext|>", "<|im_end|>", "x"}, {3, 1, 1}));
    CHECK_EQ(v->eot, 1);
    CHECK_EQ(list(v->eog), "0 1 ");
    CHECK(v->types == (Ids{3, 3, 1})); // found by text: control
    const Names eot = {"<|eot_id|>",        "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",
                       "<|end_of_text|>",   "<EOT>",      "_<EOT>",  "[EOT]",         "<｜end▁of▁sentence｜>",
                       "<end_of_utterance>"};
    for (size_t i = 0; i < eot.size(); ++i) {
        CHECK_EQ(read(dir, bpe({"x", eot[i]}))->eot, 1);
        for (size_t later = i + 1; later < eot.size(); ++later) CHECK_EQ(read(dir, bpe({eot[later], eot[i]}))->eot, 1);
    }
    for (const char * text : {"<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<turn|>", "<|tool_response>", "</s>",
                              "[EOS]", "<eos>", "[e~[", "<|eom_id|>"}) {
        const auto w = read(dir, bpe({"x", text}));
        CHECK_EQ(list(w->eog), "1 ");
        CHECK_EQ(w->types[1], 3);
        CHECK_EQ(w->eot, -1);
        CHECK_EQ(w->eom, std::string(text) == "<|eom_id|>" ? 1 : -1);
    }
    CHECK(read(dir, bpe({"<|im_start|>", "<bos>", "eos", "</S>"}))->eog.empty());
    const auto fim =
        read(dir, bpe({"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "[PAD]", "<reponame>", "<|file_sep|>"}));
    CHECK(fim->fim_pre == 0 && fim->fim_suf == 1 && fim->fim_mid == 2 && fim->fim_pad == 3 && fim->fim_rep == 4 &&
          fim->fim_sep == 5);
    CHECK_EQ(list(fim->eog), "3 4 5 ");
    CHECK(fim->types == Ids(6, 3));
    const struct {
        const char *pre, *suf, *mid;
    } forms[] = {{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
                 {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
                 {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
                 {"<PRE>", "<SUF>", "<MID>"},
                 {"▁<PRE>", "▁<SUF>", "▁<MID>"},
                 {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
                 {"<|prefix|>", "<|suffix|>", "<|middle|>"}};
    for (const auto & form : forms) {
        const auto w = read(dir, bpe({form.mid, form.suf, form.pre}));
        CHECK(w->fim_pre == 2 && w->fim_suf == 1 && w->fim_mid == 0 && w->eog.empty());
    }
}

void test_corrections(const Scratch & dir) {
    // Harmony: <|end|> ends a message, not the turn; the marks are shown.
    const Names harmony = {"<|return|>",  "<|call|>",  "<|end|>",      "<|channel|>",
                           "<|message|>", "<|start|>", "<|constrain|>"};
    auto v              = read(dir, bpe(harmony, {3, 3, 3, 3, 3, 3, 3}));
    CHECK_EQ(list(v->eog), "0 1 ");
    CHECK(v->types == (Ids{3, 3, 4, 4, 4, 4, 4}));
    CHECK_EQ(v->piece(3, false), "<|channel|>");
    v = read(dir, bpe({"<|flush|>", "<|calls|>", "<|end|>"}));
    CHECK_EQ(list(v->eog), "0 1 ");
    v = read(dir, bpe({"<|return|>", "<|flush|>", "<|end|>"})); // no call token: an ordinary end
    CHECK_EQ(list(v->eog), "0 1 2 ");
    v = read(dir, bpe({"<|call|>", "<|end|>", "<|channel|>"}, {3, 3, 3}));
    CHECK_EQ(list(v->eog), "0 1 ");
    CHECK(v->types == (Ids{3, 3, 4}));

    v = read(dir, bpe({"</s>", "<|tool_response>"}, {3, 3}));
    CHECK_EQ(list(v->eog), "1 ");
    CHECK(v->types == (Ids{1, 3}));
    v = read(dir, bpe({"</s>", "<|plamo:eos|>"}, {3, 3})); // its text alone does not make it an end
    CHECK_EQ(list(v->eog), "0 ");
    v = read(dir, bpe({"</s>", "<|plamo:eos|>"}, {3, 3}).u32("tokenizer.ggml.eos_token_id", 1));
    CHECK_EQ(list(v->eog), "1 ");
    CHECK_EQ(v->types[0], 1);
}

void test_pieces(const Scratch & dir) {
    auto v =
        read(dir, bpe({"Ġhi", "Ċ", "ð", "Ł", "Ń", "a\xe2\x96\x81", "<ctl>", "Ġud", "unusedĠ", "é", "<0x41>", "\xff"},
                      {1, 1, 1, 1, 1, 1, 3, 4, 5, 1, 6, 1}));
    CHECK_EQ(v->piece(0, false), " hi");
    CHECK_EQ(v->piece(1, false), "\n");
    CHECK_EQ(v->piece(2, false), "\xf0");
    CHECK_EQ(v->piece(3, false), "\x9f");
    CHECK_EQ(v->piece(4, false), "\xad");
    CHECK_EQ(v->piece(5, false), "a\xe2\x96\x81"); // outside the alphabet: as it is
    CHECK_EQ(v->piece(6, false), "");
    CHECK_EQ(v->piece(6, true), "<ctl>");
    CHECK_EQ(v->piece(7, false), "Ġud"); // user-defined texts are not written in the alphabet
    CHECK_EQ(v->piece(8, true), "");
    CHECK_EQ(v->piece(9, false), "\xe9");
    CHECK_EQ(v->piece(10, false), "A");
    CHECK_EQ(v->piece(11, false), "\xff");
    v = read(dir, spm({"<unk>", "\xe2\x96\x81the", "\xe2\x96\x81\xe2\x96\x81", "<0x0A>", "<0xfF>", "<0xG1>",
                       "\xe2\x96\x81ud", "<0x41>"},
                      {2, 1, 1, 6, 6, 6, 4, 1}));
    CHECK_EQ(v->piece(0, false), "");
    CHECK_EQ(v->piece(0, true), "<unk>");
    CHECK_EQ(v->piece(1, false), " the");
    CHECK_EQ(v->piece(2, true), "  ");
    CHECK_EQ(v->piece(3, false), "\n");
    CHECK_EQ(v->piece(4, false), "\xff");
    CHECK_EQ(v->piece(5, false), "<0xG1>");
    CHECK_EQ(v->piece(6, false), "\xe2\x96\x81ud");
    CHECK_EQ(v->piece(7, false), "<0x41>"); // the type decides, not the text

    // Every byte has exactly one character of the alphabet.
    Names alphabet;
    int next = 0x100;
    for (int b = 0; b < 256; ++b) {
        const bool self = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        const int code  = self ? b : next++;
        alphabet.push_back(
            code < 0x80 ? std::string(1, static_cast<char>(code))
                        : std::string{static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))});
    }
    v = read(dir, bpe(alphabet));
    for (int b = 0; b < 256; ++b) CHECK_EQ(v->piece(b, false), std::string(1, static_cast<char>(b)));
}

void test_large(const Scratch & dir) {
    Names many;
    for (int i = 0; i < 20000; ++i) many.push_back("w" + std::to_string(i));
    const auto v = read(dir, bpe(many));
    for (int i = 0; i < 20000; i += 997) CHECK_EQ(v->token_text(i), many[static_cast<size_t>(i)]);
    many.push_back("w12345");
    CHECK_ERROR(read(dir, bpe(many)), PYSPEC_FILE_FORMAT, "tokens 12345 and 20000 have the same text");
}

} // namespace

int main(int argc, char ** argv) {
    const Scratch dir(argc, argv);
    test_absent(dir);
    test_arrays(dir);
    test_bad_arrays(dir);
    test_kind_defaults(dir);
    test_keys(dir);
    test_guesses(dir);
    test_corrections(dir);
    test_pieces(dir);
    test_large(dir);
    return check_report();
}
