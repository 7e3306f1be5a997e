// The suffix automaton against direct search through its documents: every count of every substring, after any mix of
// appends, document ends and undo; undo is exact to the byte; work and memory stay within their bounds.
#include "check.h"

#include "history/suffix_automaton.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

using namespace pyspec;

namespace {

using Tokens = std::vector<int32_t>;

// The same documents as plain lists.
struct Documents {
    std::vector<Tokens> done;
    Tokens current;

    struct Facts { // of one string
        uint32_t occurrences = 0, ends = 0, last_position = 0, continued = 0;
        std::map<int32_t, std::pair<uint32_t, uint32_t>> next; // token -> count, newest position
    };

    Facts search(const Tokens & string) const {
        Facts facts;
        uint32_t base = 0;
        for (size_t d = 0; d <= done.size(); ++d) {
            const Tokens & text = d < done.size() ? done[d] : current;
            for (size_t i = 0; i + string.size() <= text.size(); ++i) {
                if (!std::equal(string.begin(), string.end(), text.begin() + static_cast<std::ptrdiff_t>(i))) continue;
                const size_t end = i + string.size();
                ++facts.occurrences;
                facts.last_position = base + static_cast<uint32_t>(end) - 1;
                if (end < text.size()) {
                    auto & [count, newest] = facts.next[text[end]];
                    ++count;
                    newest = base + static_cast<uint32_t>(end);
                    ++facts.continued;
                } else if (d < done.size()) {
                    ++facts.ends;
                }
            }
            base += static_cast<uint32_t>(text.size()) + 1;
        }
        return facts;
    }

    std::set<Tokens> substrings() const {
        std::set<Tokens> found;
        for (size_t d = 0; d <= done.size(); ++d) {
            const Tokens & text = d < done.size() ? done[d] : current;
            for (auto a = text.begin(); a != text.end(); ++a) {
                for (auto b = a + 1; b <= text.end(); ++b) found.insert(Tokens(a, b));
                if (found.size() > 4000) return found;
            }
        }
        return found;
    }

    void end() {
        if (!current.empty()) done.push_back(current);
        current.clear();
    }
};

uint32_t state_of(const SuffixAutomaton & automaton, const Tokens & string) {
    uint32_t at = SuffixAutomaton::root;
    for (const int32_t token : string) {
        at = automaton.next(at, token);
        if (at == SuffixAutomaton::no_state) break;
    }
    return at;
}

int32_t majority(const Documents::Facts & facts) {
    int32_t best = SuffixAutomaton::no_token;
    std::pair<uint32_t, uint32_t> most{0, 0};
    for (const auto & [token, evidence] : facts.next) {
        if (evidence > most) {
            most = evidence;
            best = token;
        }
    }
    return best;
}

void check_against_search(const SuffixAutomaton & automaton, const Documents & documents) {
    size_t n = documents.current.size();
    for (const Tokens & text : documents.done) n += text.size();
    CHECK_EQ(automaton.n_tokens(), n);
    CHECK(automaton.n_states() <= std::max<size_t>(2, 2 * n));
    CHECK(automaton.n_transitions() <= std::max<size_t>(3, 3 * n));
    std::set<uint32_t> reached;
    for (const Tokens & string : documents.substrings()) {
        const uint32_t at = state_of(automaton, string);
        CHECK(at != SuffixAutomaton::no_state);
        if (at == SuffixAutomaton::no_state) continue;
        reached.insert(at);
        const SuffixAutomaton::State & s = automaton.state(at);
        const Documents::Facts facts     = documents.search(string);
        CHECK_EQ(s.occurrences, facts.occurrences);
        CHECK_EQ(s.ends, facts.ends);
        CHECK_EQ(s.last_position, facts.last_position);
        CHECK_EQ(automaton.continued(at), facts.continued);
        CHECK_EQ(automaton.degree(at), facts.next.size());
        CHECK_EQ(s.best, majority(facts));
        for (const auto & [token, evidence] : facts.next) {
            const uint32_t next = automaton.next(at, token);
            CHECK(next != SuffixAutomaton::no_state && automaton.state(next).occurrences == evidence.first);
        }
        // A state's strings are those between its link's and its own length.
        CHECK(string.size() <= s.length && string.size() > automaton.state(s.link).length);
    }
    if (reached.size() + 1 < automaton.n_states()) CHECK(documents.substrings().size() > 4000);
    CHECK_EQ(automaton.state(automaton.last()).length, documents.current.size());
    CHECK_EQ(state_of(automaton, documents.current), automaton.last());
}

struct Snapshot { // everything that counts, in the order in which it is stored
    std::vector<SuffixAutomaton::State> states;
    std::vector<TransitionTable::Entry> slots;
    std::vector<std::array<uint32_t, 3>> transitions;
    uint32_t last;
    size_t n_transitions;

    explicit Snapshot(const SuffixAutomaton & a)
        : states(a.states()), slots(a.table().slots()), last(a.last()), n_transitions(a.n_transitions()) {
        for (uint32_t state = 0; state < states.size(); ++state) {
            a.for_transitions(state, [&](int32_t token, uint32_t target) {
                transitions.push_back({state, static_cast<uint32_t>(token), target});
            });
        }
    }
};

template <typename T> bool same_bytes(const std::vector<T> & a, const std::vector<T> & b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Sorted, without free slots.
std::vector<TransitionTable::Entry> contents(std::vector<TransitionTable::Entry> slots) {
    std::erase_if(slots, [](const auto & entry) { return entry.state == TransitionTable::no_state; });
    std::sort(slots.begin(), slots.end(),
              [](const auto & a, const auto & b) { return std::pair(a.state, a.token) < std::pair(b.state, b.token); });
    return slots;
}

void check_same(const Snapshot & a, const Snapshot & b) {
    CHECK(same_bytes(a.states, b.states));
    CHECK(same_bytes(a.transitions, b.transitions));
    CHECK(same_bytes(contents(a.slots), contents(b.slots)));
    if (a.slots.size() == b.slots.size()) CHECK(same_bytes(a.slots, b.slots)); // the table did not grow in between
    CHECK_EQ(a.last, b.last);
    CHECK_EQ(a.n_transitions, b.n_transitions);
}

void test_random_texts() {
    std::mt19937 random(1);
    const int rounds = check::sanitized ? 40 : 150;
    for (const int32_t alphabet : {2, 3, 6}) {
        for (int round = 0; round < rounds; ++round) {
            SuffixAutomaton automaton;
            Documents documents;
            std::vector<Snapshot> before;
            const uint32_t n_operations = 5 + random() % 60;
            for (uint32_t i = 0; i < n_operations; ++i) {
                const uint32_t dice = random() % 20;
                if (dice == 0) {
                    automaton.end_document();
                    documents.end();
                    before.clear();
                } else if (dice == 1) {
                    CHECK_EQ(automaton.undoable(), std::min<size_t>(before.size(), SuffixAutomaton::undo_depth));
                    for (uint32_t n = random() % (automaton.undoable() + 1); n > 0; --n) {
                        automaton.undo();
                        documents.current.pop_back();
                        check_same(Snapshot(automaton), before.back());
                        before.pop_back();
                    }
                } else {
                    before.emplace_back(automaton);
                    const auto token = static_cast<int32_t>(random() % static_cast<uint32_t>(alphabet));
                    automaton.append(token);
                    documents.current.push_back(token);
                }
            }
            check_against_search(automaton, documents);
        }
    }
}

// Long enough for the table to grow, with undo as deep as it goes.
void test_undo_at_length() {
    std::mt19937 random(2);
    for (const int32_t alphabet : {2, 3, 6, 200}) {
        SuffixAutomaton automaton, straight;
        Tokens text;
        for (int i = 0; i < 600; ++i) {
            const Snapshot before(automaton);
            const uint32_t n = 1 + random() % SuffixAutomaton::undo_depth;
            for (uint32_t k = 0; k < n; ++k) automaton.append(static_cast<int32_t>(random() % 200) % alphabet);
            for (uint32_t k = 0; k < n; ++k) automaton.undo();
            check_same(Snapshot(automaton), before);
            text.push_back(static_cast<int32_t>(random() % 200) % alphabet);
            automaton.append(text.back());
        }
        for (const int32_t token : text) straight.append(token);
        // The same as if nothing had ever been undone, the capacity of the table aside.
        CHECK(same_bytes(automaton.states(), straight.states()));
        CHECK(same_bytes(contents(automaton.table().slots()), contents(straight.table().slots())));
        CHECK(automaton.undoable() > 0 && automaton.undoable() <= SuffixAutomaton::undo_depth);
    }
}

void test_end_of_document() {
    SuffixAutomaton automaton;
    automaton.end_document(); // empty: nothing happens
    automaton.end_document();
    CHECK_EQ(automaton.n_states(), 1u);
    for (const int32_t token : {7, 8}) automaton.append(token);
    automaton.end_document();
    CHECK_EQ(automaton.undoable(), 0u);
    automaton.append(9); // a document of one token
    automaton.end_document();
    for (const int32_t token : {8, 9}) automaton.append(token);
    CHECK_EQ(automaton.n_tokens(), 5u);
    const uint32_t nine = state_of(automaton, {9});
    CHECK_EQ(automaton.state(nine).occurrences, 2u);
    CHECK_EQ(automaton.state(nine).ends, 1u);
    CHECK_EQ(automaton.continued(nine), 0u);
    CHECK_EQ(state_of(automaton, {7, 8, 9}), SuffixAutomaton::no_state); // no string spans two documents
    // A document that is read again creates states only where it differs.
    const size_t before = automaton.n_states();
    automaton.end_document();
    for (const int32_t token : {7, 8}) automaton.append(token);
    CHECK_EQ(automaton.n_states(), before);
    CHECK_EQ(automaton.state(automaton.last()).occurrences, 2u);
}

void test_extreme_tokens() {
    SuffixAutomaton automaton;
    const Tokens text = {0, INT32_MAX, -1, 0, INT32_MAX, INT32_MIN + 2, 0};
    for (const int32_t token : text) automaton.append(token);
    check_against_search(automaton, {{}, text});
    CHECK_EQ(automaton.degree(state_of(automaton, {INT32_MAX})), 2u);
}

// All counts are exact while the chain is shorter than the budget; beyond it the work per token is bounded.
void test_one_token_repeated() {
    const uint32_t budget = SuffixAutomaton::chain_budget;
    const uint32_t n      = check::sanitized ? 3 * budget : 32768;
    SuffixAutomaton automaton;
    for (uint32_t i = 1; i <= n; ++i) {
        const uint64_t before = automaton.n_steps();
        automaton.append(5);
        CHECK(automaton.n_steps() - before <= 2 * budget + 2);
        if (i == budget) {
            for (uint32_t k = 1, at = automaton.last(); at != SuffixAutomaton::root;
                 ++k, at            = automaton.state(at).link) {
                CHECK_EQ(automaton.state(at).occurrences, k);
            }
        }
    }
    CHECK_EQ(automaton.n_states(), n + 1);
    CHECK_EQ(automaton.state(automaton.state(automaton.last()).link).occurrences, 2u);
    // Every state gets its second transition now, and loses it again.
    const Snapshot run(automaton);
    automaton.append(6);
    CHECK_EQ(automaton.n_transitions(), run.n_transitions + n + 1);
    automaton.undo();
    const Snapshot undone(automaton);
    check_same(undone, run);
    automaton.append(6); // the table has grown already: now the bytes must come back, too
    automaton.undo();
    check_same(Snapshot(automaton), undone);
    for (uint32_t i = 1; i < SuffixAutomaton::undo_depth; ++i)
        automaton.undo(); // 64 with the 6, which took one's place
    CHECK_EQ(automaton.undoable(), 0u);
    CHECK_EQ(automaton.n_states(), n + 2 - SuffixAutomaton::undo_depth);
}

void test_all_distinct() {
    SuffixAutomaton automaton;
    const int32_t n = 20000;
    for (int32_t i = 0; i < n; ++i) automaton.append(i);
    CHECK_EQ(automaton.degree(SuffixAutomaton::root), static_cast<uint32_t>(n));
    CHECK_EQ(automaton.n_states(), static_cast<size_t>(n) + 1);
    for (int32_t i = 0; i < n; ++i) CHECK_EQ(automaton.state(automaton.next(SuffixAutomaton::root, i)).occurrences, 1u);
    CHECK_EQ(automaton.next(SuffixAutomaton::root, n), SuffixAutomaton::no_state);
    CHECK(automaton.n_steps() < 6u * static_cast<uint32_t>(n));
}

// Text whose words come back, as natural text does: the bytes per token that the header speaks of.
void test_memory() {
    std::mt19937 random(3);
    SuffixAutomaton automaton;
    Tokens text;
    while (text.size() < 60000) {
        const size_t length = 2 + random() % 8;
        const bool copies   = text.size() > 100 && random() % 3 > 0;
        const size_t from   = copies ? random() % (text.size() - 20) : 0;
        for (size_t i = 0; i < length; ++i) {
            text.push_back(copies ? text[from + i] : static_cast<int32_t>(random() % 3000));
        }
    }
    size_t peak = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        automaton.append(text[i]);
        if (i >= 20000) peak = std::max(peak, automaton.memory_bytes() / (i + 1));
    }
    CHECK(automaton.n_states() < 2 * text.size());
    CHECK(peak < 160);
    const size_t used = automaton.n_states() * sizeof(SuffixAutomaton::State) +
                        automaton.table().size() * sizeof(TransitionTable::Entry);
    CHECK(used < 90 * text.size());
    automaton.clear();
    CHECK_EQ(automaton.n_states(), 1u);
    CHECK(automaton.memory_bytes() < 20000);
}

// Equal calls, equal bytes: nothing depends on addresses or chance.
void test_determinism() {
    std::mt19937 random(4);
    SuffixAutomaton a;
    auto b = std::make_unique<std::array<SuffixAutomaton, 3>>();
    for (int i = 0; i < 3000; ++i) {
        const auto token = static_cast<int32_t>(random() % 7);
        a.append(token);
        (*b)[1].append(token);
        if (i % 997 == 0) {
            a.end_document();
            (*b)[1].end_document();
        }
    }
    const Snapshot first(a), second((*b)[1]);
    check_same(first, second);
    CHECK(same_bytes(first.slots, second.slots));
}

void test_table() {
    TransitionTable table;
    CHECK(table.find(1, 2) == nullptr);
    table.reserve_more(40);
    std::map<std::pair<uint32_t, int32_t>, uint32_t> expected;
    std::mt19937 random(5);
    for (int i = 0; i < 20000; ++i) {
        const std::pair<uint32_t, int32_t> key(random() % 40, static_cast<int32_t>(random() % 40) - 20);
        if (expected.contains(key)) {
            table.erase(key.first, key.second);
            expected.erase(key);
        } else {
            table.reserve_more(1);
            table.insert({key.first, key.second, static_cast<uint32_t>(random() % 1000), 0});
            expected[key] = table.find(key.first, key.second)->target;
        }
        CHECK_EQ(table.size(), expected.size());
        if (i % 500 != 0) continue;
        for (uint32_t state = 0; state < 40; ++state) {
            for (int32_t token = -20; token < 20; ++token) {
                const auto * entry = table.find(state, token);
                const auto it      = expected.find({state, token});
                CHECK_EQ(entry == nullptr, it == expected.end());
                if (entry != nullptr && it != expected.end()) CHECK_EQ(entry->target, it->second);
            }
        }
    }
    table.clear();
    CHECK(table.find(1, 2) == nullptr && table.size() == 0);
}

} // namespace

int main() {
    test_random_texts();
    test_undo_at_length();
    test_end_of_document();
    test_extreme_tokens();
    test_one_token_repeated();
    test_all_distinct();
    test_memory();
    test_determinism();
    test_table();
    return check_report();
}
