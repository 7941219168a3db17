// The HTML page of a report: one file that contains its style, its scripts and its data.

#pragma once

#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace report {

/// A source of the page: its HTML, which comes first, a style sheet or a script.
struct PageFile {
  std::string_view name;
  std::string_view text;
};

std::span<const PageFile> page_files();

/// Returns the page that shows the data. No text in the data can end its script element.
std::string page(const std::string& title, const nlohmann::ordered_json& data);

}  // namespace report
