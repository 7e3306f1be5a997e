#include "options.h"

#include "support/error.h"

#include <algorithm>
#include <charconv>

namespace pyspec::bench {

namespace {

int64_t whole_of(const std::string & name, const std::string & text, int64_t low, int64_t high) {
    int64_t value    = 0;
    const char * end = text.data() + text.size();
    const auto read  = std::from_chars(text.data(), end, value);
    if (read.ec != std::errc() || read.ptr != end || value < low || value > high) {
        throw Error(PYSPEC_OPTION, format("%s is '%s', expected a whole number from %lld to %lld", name.c_str(),
                                          text.c_str(), static_cast<long long>(low), static_cast<long long>(high)));
    }
    return value;
}

} // namespace

Options::Options(const std::vector<std::string> & arguments, const std::vector<std::string> & valued,
                 const std::vector<std::string> & flags) {
    const auto among = [](const std::vector<std::string> & names, const std::string & name) {
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    for (size_t i = 0; i < arguments.size(); ++i) {
        const std::string & name = arguments[i];
        std::string value;
        if (among(valued, name)) {
            if (++i == arguments.size()) {
                throw Error(PYSPEC_OPTION, format("%s needs a value", name.c_str()));
            }
            value = arguments[i];
        } else if (!among(flags, name)) {
            std::string known;
            for (const auto * names : {&valued, &flags}) {
                for (const std::string & other : *names) {
                    known += (known.empty() ? "" : ", ") + other;
                }
            }
            throw Error(PYSPEC_OPTION, format("unknown option '%s'; known here: %s", name.c_str(), known.c_str()));
        }
        if (!values_.emplace(name, value).second) {
            throw Error(PYSPEC_OPTION, format("%s is given twice", name.c_str()));
        }
    }
}

std::string Options::text(const std::string & name, const std::string & otherwise) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
}

int64_t Options::whole(const std::string & name, int64_t low, int64_t high, int64_t otherwise) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : whole_of(name, found->second, low, high);
}

std::vector<int64_t> Options::wholes(const std::string & name, int64_t low, int64_t high,
                                     const std::string & otherwise) const {
    const std::string list = text(name, otherwise);
    std::vector<int64_t> values;
    for (size_t at = 0; at <= list.size();) {
        const size_t comma = std::min(list.find(',', at), list.size());
        values.push_back(whole_of(name, list.substr(at, comma - at), low, high));
        at = comma + 1;
    }
    return values;
}

} // namespace pyspec::bench
