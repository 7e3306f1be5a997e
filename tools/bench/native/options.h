// Command-line options of the form `--name value` and `--name`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace pyspec::bench {

class Options {
public:
    // arguments: everything behind the mode. Throws OPTION for names that are not among `valued` and `flags`, for a
    // missing value and for a name that is given twice.
    Options(const std::vector<std::string> & arguments, const std::vector<std::string> & valued,
            const std::vector<std::string> & flags = {});

    bool has(const std::string & name) const { return values_.count(name) != 0; }
    std::string text(const std::string & name, const std::string & otherwise) const;
    // Throw OPTION for what is not a whole number from `low` to `high`.
    int64_t whole(const std::string & name, int64_t low, int64_t high, int64_t otherwise) const;
    // "1,2,4"
    std::vector<int64_t> wholes(const std::string & name, int64_t low, int64_t high,
                                const std::string & otherwise) const;

private:
    std::map<std::string, std::string> values_;
};

} // namespace pyspec::bench
