#include "history/suffix_automaton.h"

#include <algorithm>
#include <new>

namespace pyspec {
namespace {

// Vectors grow by half: doubling would leave a third more memory unused.
template <typename T> void reserve_more(std::vector<T> & items, size_t n) {
    const size_t needed = items.size() + n;
    if (needed > items.capacity()) items.reserve(std::max(needed, items.capacity() + items.capacity() / 2));
}

} // namespace

SuffixAutomaton::SuffixAutomaton() : states_(1), log_(undo_depth) {}

void SuffixAutomaton::clear() {
    *this = SuffixAutomaton();
}

uint32_t SuffixAutomaton::next(uint32_t state, int32_t token) const noexcept {
    const State & s = states_[state];
    if (s.token == token) return s.next;
    if (s.token != many) return no_state;
    const TransitionTable::Entry * entry = table_.find(state, token);
    return entry == nullptr ? no_state : entry->target;
}

uint32_t SuffixAutomaton::degree(uint32_t state) const noexcept {
    const State & s = states_[state];
    return s.token == many ? fans_[s.next].degree : s.token == no_token ? 0 : 1;
}

void SuffixAutomaton::append(int32_t token) {
    // How far the new transition has to be added, and which state stands there. Known before anything changes, so that
    // all memory can be had first.
    uint32_t n_added = 0;
    uint32_t at      = last_;
    uint32_t known   = no_state;
    while (at != no_state && (known = next(at, token)) == no_state) {
        at = states_[at].link;
        ++n_added;
    }
    const bool splits = known != no_state && states_[known].length != states_[at].length + 1;
    reserve_more(states_, 2);
    reserve_more(fans_, size_t{n_added} + 1);
    table_.reserve_more(size_t{n_added} * 2 + (splits ? degree(known) + 1 : 0)); // + 1: `known` may be given one itself
    chain_.clear();
    reserve_more(chain_, n_added);

    Logged & log     = log_[log_next_];
    log.token        = token;
    log.last         = last_;
    log.n_added      = n_added;
    log.n_redirected = 0;
    log.cloned_from  = no_state;
    log.created      = n_added > 0;
    log.positions.clear();
    log.best.clear();

    uint32_t whole = known;
    if (log.created) {
        whole          = static_cast<uint32_t>(states_.size());
        State created  = State{};
        created.length = states_[last_].length + 1;
        states_.push_back(created);
        for (uint32_t state = last_; state != at; state = states_[state].link) add_transition(state, token, whole);
    }
    const uint32_t suffix = splits ? clone(at, known, log) : known;
    if (log.created) {
        states_[whole].link = suffix == no_state ? root : suffix;
    } else {
        whole = suffix;
    }
    last_ = whole;
    ++position_;
    n_steps_ += n_added + log.n_redirected;
    log_next_ = (log_next_ + 1) % undo_depth;
    n_logged_ = std::min(n_logged_ + 1, undo_depth);
    count(log);
}

// A state for the strings of `source` that are no longer than the ones that reach it from `from`: they also occur where
// the longer ones do not.
uint32_t SuffixAutomaton::clone(uint32_t from, uint32_t source, Logged & log) noexcept {
    const auto copy = static_cast<uint32_t>(states_.size());
    State made      = states_[source];
    made.length     = states_[from].length + 1;
    if (made.token == many) {
        const Fan fan = fans_[made.next];
        made.next     = static_cast<uint32_t>(fans_.size());
        int32_t newer = no_token;
        for (int32_t token = fan.newest; token != no_token;) {
            const TransitionTable::Entry entry = *table_.find(source, token);
            table_.insert({copy, token, entry.target, newer});
            newer = token;
            token = entry.older;
        }
        fans_.push_back({newer, fan.degree});
        n_transitions_ += fan.degree;
    } else if (made.token != no_token) {
        ++n_transitions_;
    }
    states_.push_back(made);
    states_[source].link = copy;
    log.cloned_from      = source;
    for (uint32_t state = from; state != no_state && next(state, log.token) == source; state = states_[state].link) {
        redirect(state, log.token, copy);
        ++log.n_redirected;
    }
    return copy;
}

void SuffixAutomaton::count(Logged & log) {
    const uint32_t position = position_ - 1;
    uint32_t steps          = 0;
    bool logged             = true;
    const auto note         = [&](auto & items, const auto & item) {
        if (!logged) return;
        try {
            items.push_back(item);
        } catch (const std::bad_alloc &) {
            logged = false;
        }
    };
    for (uint32_t at = last_; at != root && steps < chain_budget; at = states_[at].link, ++steps) {
        State & s = states_[at];
        note(log.positions, s.last_position);
        s.last_position = position;
        ++s.occurrences;
    }
    ++states_[root].occurrences;
    n_steps_ += steps;
    // Only the contexts that end before the new token gain a continuation, and only this one.
    steps = 0;
    for (uint32_t at = log.last; at != no_state && steps < chain_budget; at = states_[at].link, ++steps) {
        State & s = states_[at];
        if (s.best == log.token) continue;
        if (s.best == no_token || states_[next(at, log.token)].occurrences >= states_[next(at, s.best)].occurrences) {
            note(log.best, BestChange{at, s.best});
            s.best = log.token;
        }
    }
    n_steps_ += steps;
    if (!logged) n_logged_ = 0;
}

void SuffixAutomaton::end_document() {
    if (last_ == root) return; // an empty document
    uint32_t steps = 0;
    for (uint32_t at = last_; at != root && steps < chain_budget; at = states_[at].link, ++steps) ++states_[at].ends;
    n_steps_ += steps;
    last_ = root;
    ++position_;
    n_logged_ = 0;
}

void SuffixAutomaton::undo() noexcept {
    log_next_          = (log_next_ + undo_depth - 1) % undo_depth;
    const Logged & log = log_[log_next_];
    --n_logged_;
    undo_counts(log);
    undo_structure(log);
    last_ = log.last;
    --position_;
}

void SuffixAutomaton::undo_counts(const Logged & log) noexcept {
    for (size_t i = log.best.size(); i-- > 0;) states_[log.best[i].state].best = log.best[i].before;
    uint32_t at = last_;
    for (const uint32_t position : log.positions) {
        State & s       = states_[at];
        s.last_position = position;
        --s.occurrences;
        at = s.link;
    }
    --states_[root].occurrences;
}

void SuffixAutomaton::undo_structure(const Logged & log) noexcept {
    const auto newest = static_cast<uint32_t>(states_.size() - 1);
    if (log.cloned_from != no_state) states_[log.cloned_from].link = states_[newest].link; // the chain as it was
    chain_.clear();
    uint32_t at = log.last;
    for (uint32_t i = 0; i < log.n_added; ++i) {
        chain_.push_back(at);
        at = states_[at].link;
    }
    if (log.cloned_from != no_state) {
        for (uint32_t i = 0; i < log.n_redirected; ++i) {
            redirect(at, log.token, log.cloned_from);
            at = states_[at].link;
        }
        remove_transitions(newest);
        states_.pop_back();
    }
    // Newest first: fans are a stack.
    for (size_t i = chain_.size(); i-- > 0;) remove_newest_transition(chain_[i]);
    if (log.created) states_.pop_back();
}

void SuffixAutomaton::add_transition(uint32_t state, int32_t token, uint32_t target) noexcept {
    State & s = states_[state];
    ++n_transitions_;
    if (s.token == no_token) {
        s.token = token;
        s.next  = target;
        return;
    }
    if (s.token != many) {
        table_.insert({state, s.token, s.next, no_token});
        fans_.push_back({s.token, 1});
        s.token = many;
        s.next  = static_cast<uint32_t>(fans_.size() - 1);
    }
    Fan & fan = fans_[s.next];
    table_.insert({state, token, target, fan.newest});
    fan.newest = token;
    ++fan.degree;
}

void SuffixAutomaton::redirect(uint32_t state, int32_t token, uint32_t target) noexcept {
    State & s = states_[state];
    if (s.token == many) {
        table_.find(state, token)->target = target;
    } else {
        s.next = target;
    }
}

void SuffixAutomaton::remove_newest_transition(uint32_t state) noexcept {
    State & s = states_[state];
    --n_transitions_;
    if (s.token != many) {
        s.token = no_token;
        s.next  = no_state;
        return;
    }
    Fan & fan           = fans_[s.next];
    const int32_t older = table_.find(state, fan.newest)->older;
    table_.erase(state, fan.newest);
    fan.newest = older;
    if (--fan.degree > 1) return;
    const uint32_t target = table_.find(state, older)->target;
    table_.erase(state, older);
    fans_.pop_back(); // fans are made and unmade in the order of a stack
    s.token = older;
    s.next  = target;
}

void SuffixAutomaton::remove_transitions(uint32_t state) noexcept {
    State & s = states_[state];
    n_transitions_ -= degree(state);
    if (s.token != many) return; // the state itself goes next
    for (int32_t token = fans_[s.next].newest; token != no_token;) {
        const int32_t older = table_.find(state, token)->older;
        table_.erase(state, token);
        token = older;
    }
    fans_.pop_back();
}

size_t SuffixAutomaton::memory_bytes() const noexcept {
    size_t bytes = sizeof *this + states_.capacity() * sizeof(State) + fans_.capacity() * sizeof(Fan) +
                   table_.memory_bytes() + chain_.capacity() * sizeof(uint32_t) + log_.capacity() * sizeof(Logged);
    for (const Logged & log : log_) {
        bytes += log.positions.capacity() * sizeof(uint32_t) + log.best.capacity() * sizeof(BestChange);
    }
    return bytes;
}

} // namespace pyspec
