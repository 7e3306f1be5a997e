// Rounding and treatment of subnormals as they are by default, for the time of a block.
//
// The caller's thread computes too. Whatever it has set for itself, a row must not depend on which thread computed it.
#pragma once

#include <cfenv>

namespace pyspec {

class DefaultFloatEnvironment {
public:
    DefaultFloatEnvironment() {
        std::fegetenv(&callers_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~DefaultFloatEnvironment() { std::fesetenv(&callers_); }
    DefaultFloatEnvironment(const DefaultFloatEnvironment &)             = delete;
    DefaultFloatEnvironment & operator=(const DefaultFloatEnvironment &) = delete;

private:
    std::fenv_t callers_;
};

} // namespace pyspec
