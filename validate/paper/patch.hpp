// The scenarios of a paper: files or objects, some with a patch (RFC 7396) of another one.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/field.hpp"

namespace validate {

struct NamedScenario {
  std::string name;
  core::Field file;  ///< with its patch
  core::Field at;    ///< where the paper names it
};

/// Reads the key `scenarios` of a paper whose text is given; throws InputError. Paths in a patch are relative
/// to the patched file.
std::vector<NamedScenario> read_scenarios(const core::Field& list, std::string_view paper_text);

}  // namespace validate
