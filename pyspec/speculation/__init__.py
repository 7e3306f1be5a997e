"""The speculative round: draft, verify, accept, commit, emit."""
