// What reproducing papers came to, as a table, as JSON and as a page.

#pragma once

#include <string>
#include <vector>

#include "validate/paper/reproduce.hpp"

namespace validate {

/// One table of all, then a summary.
std::string papers_table(const std::vector<PaperResult>& results);

/// `fusewise.reproduction`.
std::string papers_json(const std::vector<PaperResult>& results);

/// Markdown: inputs, parameters, figures and what is not reproduced, paper by paper. The same bytes on every
/// run: times of ours on a clock are left out.
std::string papers_page(const std::vector<PaperResult>& results);

}  // namespace validate
