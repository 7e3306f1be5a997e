// Which n-gram drafter to make, with ranges that are checked.
#pragma once

#include "history/ngram_drafter.h"
#include "include/pyspec_history.h"

#include <memory>

namespace pyspec {

// Defaults of a kind (pyspec_ngram_params). Throws OPTION for an unknown kind.
pyspec_ngram_params ngram_defaults(pyspec_ngram_kind kind);

// Throws OPTION that names the field that is out of range.
std::unique_ptr<NgramDrafter> make_ngram_drafter(const pyspec_ngram_params & params);

} // namespace pyspec
