// Writes the results of reproducing papers as a table, as JSON and as a page.

#pragma once

#include <string>
#include <vector>

#include "validate/paper/reproduce.hpp"

namespace validate {

/// One table of all papers, then a summary.
std::string papers_table(const std::vector<PaperResult>& results, std::size_t width = 0);

/// `fusewise.reproduction`.
std::string papers_json(const std::vector<PaperResult>& results);

/// Markdown: inputs, parameters, figures and what is not reproduced, paper by paper. Wall-clock times are
/// left out, so that every run gives the same bytes.
std::string papers_page(const std::vector<PaperResult>& results);

}  // namespace validate
