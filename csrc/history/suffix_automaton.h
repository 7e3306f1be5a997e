// Online suffix automaton over documents of tokens, with exact occurrence counts and undo.
//
// A state stands for all strings with the same set of end positions; the automaton of n tokens has at most 2n states
// and 3n transitions (Blumer et al., "The smallest automaton recognizing the subwords of a text", 1985). Each state
// knows how often its strings occur, so that the majority continuation of any context is one look-up away. A document
// ends at end_document(); no string spans two documents.
//
// Exactness: with every append all counts are those of a search through the documents. The one exception is bounded
// work: an append updates at most chain_budget states of the suffix chain (longest first), which only texts such as
// thousands of equal tokens exceed; the counts of the shorter strings then lag behind.
//
// Undo: the last undo_depth appends of the current document can be taken back, newest first. All states are then as
// before, byte for byte, the hash of transitions included unless it grew in between (then it has equal contents).
//
// Memory: 32 bytes a state (1.3 to 1.4 states a token in natural text, 2 at worst), 16 bytes for each transition of
// states with several, 8 bytes for each such state; room for growth by half comes on top. In all 73 to 97 bytes a token
// of source code. The undo log holds at most 12 * chain_budget * undo_depth bytes, typically a few kilobytes.
//
// Tokens: any id above INT32_MIN + 1. Ids below 0 are for what is no token (an image): the caller gives each such thing
// an id of its own, so that nothing matches across it.
//
// One thread at a time for changes. A call that throws std::bad_alloc has changed nothing; when only the undo log finds
// no memory, the append succeeds and the log is empty.
#pragma once

#include "history/transition_table.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pyspec {

class SuffixAutomaton {
public:
    static constexpr uint32_t root         = 0;
    static constexpr uint32_t no_state     = TransitionTable::no_state;
    static constexpr int32_t no_token      = INT32_MIN;
    static constexpr uint32_t undo_depth   = 64;
    static constexpr uint32_t chain_budget = 4096;

    struct State {
        uint32_t length        = 0;        // of the longest string
        uint32_t link          = no_state; // state of the longest suffix with more occurrences; the root has none
        uint32_t occurrences   = 0;        // end positions over all documents; of the root: tokens
        uint32_t last_position = 0;        // newest end position
        uint32_t ends          = 0;        // occurrences at the end of a finished document
        int32_t best           = no_token; // most frequent next token; of equally frequent ones the newest
        int32_t token          = no_token; // of the only transition; no_token: none; many: see fans
        uint32_t next          = no_state; // target of the only transition, or index into fans
    };
    static_assert(sizeof(State) == 32);

    SuffixAutomaton();

    void append(int32_t token);
    // Counts of the current document's end become final; the next append starts a document. Empties the undo log.
    void end_document();
    // Takes back the newest append; there must be one in the log.
    void undo() noexcept;
    uint32_t undoable() const noexcept { return n_logged_; }
    void clear();

    // State of the whole current document; root when it is empty.
    uint32_t last() const noexcept { return last_; }
    const State & state(uint32_t index) const noexcept { return states_[index]; }
    size_t n_states() const noexcept { return states_.size(); }
    size_t n_tokens() const noexcept { return states_[root].occurrences; }
    size_t n_transitions() const noexcept { return n_transitions_; }
    // Target of a transition, or no_state.
    uint32_t next(uint32_t state, int32_t token) const noexcept;
    // Number of transitions.
    uint32_t degree(uint32_t state) const noexcept;
    // Does the state's string end the current text, too?
    bool at_end(uint32_t state) const noexcept { return states_[state].last_position + 1 == position_; }
    // How many occurrences of the state's strings are followed by a token.
    uint32_t continued(uint32_t state) const noexcept {
        const State & s      = states_[state];
        const uint32_t final = s.ends + (at_end(state) ? 1 : 0);
        return s.occurrences > final ? s.occurrences - final : 0;
    }

    size_t memory_bytes() const noexcept;
    // Steps along suffix chains since the automaton was made, the measure of work done.
    uint64_t n_steps() const noexcept { return n_steps_; }

    // For tests.
    const std::vector<State> & states() const noexcept { return states_; }
    const TransitionTable & table() const noexcept { return table_; }
    // Every transition of a state as f(token, target), in no particular order.
    template <typename F> void for_transitions(uint32_t state, F && f) const {
        const State & s = states_[state];
        if (s.token != many) {
            if (s.token != no_token) f(s.token, s.next);
            return;
        }
        for (int32_t token = fans_[s.next].newest; token != no_token;) {
            const TransitionTable::Entry & entry = *table_.find(state, token);
            f(entry.token, entry.target);
            token = entry.older;
        }
    }

private:
    static constexpr int32_t many = INT32_MIN + 1; // State::token of states whose transitions are in the table

    struct Fan { // the transitions of a state with two or more
        int32_t newest;
        uint32_t degree;
    };

    struct BestChange {
        uint32_t state;
        int32_t before;
    };

    struct Logged { // what one append did
        int32_t token         = 0;
        uint32_t last         = 0;        // before
        uint32_t n_added      = 0;        // transitions to the new state, from `last` along the chain
        uint32_t n_redirected = 0;        // transitions to the clone, further along the chain
        uint32_t cloned_from  = no_state; // no_state: no clone was made
        bool created          = false;    // a new state for the whole document
        std::vector<uint32_t> positions;  // last_position before, along the chain of the new `last`
        std::vector<BestChange> best;     // in the order of the changes
    };

    uint32_t clone(uint32_t from, uint32_t source, Logged & log) noexcept;
    void count(Logged & log);
    void undo_counts(const Logged & log) noexcept;
    void undo_structure(const Logged & log) noexcept;
    void add_transition(uint32_t state, int32_t token, uint32_t target) noexcept;
    void redirect(uint32_t state, int32_t token, uint32_t target) noexcept;
    void remove_newest_transition(uint32_t state) noexcept;
    void remove_transitions(uint32_t state) noexcept;

    std::vector<State> states_;
    std::vector<Fan> fans_; // in the order in which states got their second transition
    TransitionTable table_;
    std::vector<uint32_t> chain_; // scratch of undo, with room for the longest n_added
    std::vector<Logged> log_;     // a ring of undo_depth
    uint32_t log_next_    = 0;
    uint32_t n_logged_    = 0;
    uint32_t last_        = root;
    uint32_t position_    = 0; // of the next token; one is skipped at the end of a document
    size_t n_transitions_ = 0;
    uint64_t n_steps_     = 0;
};

} // namespace pyspec
