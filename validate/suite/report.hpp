// A suite's report as a table for people, JSON for machines and a page to keep.

#pragma once

#include <string>
#include <vector>

#include "validate/suite/judge.hpp"

namespace suite {

/// When, where and how it was measured.
struct About {
  std::string suite;
  std::string date;
  std::string machine;
  std::string versions;
  std::string command;
  std::vector<std::string> places;  ///< of each group: "shapes: 4 processes, network namespaces, ..."
};

std::string report_table(const Report& report, const Tolerance& tolerance);
/// `fusewise.accuracy`
std::string report_json(const Report& report, const Tolerance& tolerance, const About& about);
/// Markdown.
std::string report_page(const Report& report, const Tolerance& tolerance, const About& about);

/// In one line.
std::string summary(const Report& report);

}  // namespace suite
