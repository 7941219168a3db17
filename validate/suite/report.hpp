// Writes a suite's report as a table for people, JSON for programs and a page to keep.

#pragma once

#include <string>
#include <vector>

#include "validate/suite/judge.hpp"

namespace suite {

/// When, where and how a report was measured.
struct ReportInfo {
  std::string suite;
  std::string date;
  std::string machine;
  std::string versions;
  std::string command;
  std::vector<std::string> places;  ///< one per group: "shapes: 4 processes, network namespaces, ..."
};

std::string report_table(const Report& report, const Tolerance& tolerance, std::size_t width = 0);
/// `fusewise.accuracy`
std::string report_json(const Report& report, const Tolerance& tolerance, const ReportInfo& about);
/// Markdown.
std::string report_page(const Report& report, const Tolerance& tolerance, const ReportInfo& about);

/// Returns a one-line summary.
std::string summary(const Report& report);

}  // namespace suite
