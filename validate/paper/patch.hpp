// A paper's scenarios: files or objects inside the paper's, some with a patch (RFC 7396) over another.

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

/// The key `scenarios` of a paper, whose whole text is given; throws InputError. Paths in a patch are
/// relative to the file that it patches.
std::vector<NamedScenario> read_scenarios(const core::Field& list, std::string_view paper_text);

}  // namespace validate
