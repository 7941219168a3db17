// Reads a paper's file.

#pragma once

#include <filesystem>
#include <string>

#include "validate/paper/paper.hpp"

namespace validate {

/// Reads and checks `fusewise.paper`, all but what quantities make of their own keys; throws InputError.
/// `source` names the file, to which its paths are relative.
Paper read_paper(const std::string& text, const std::string& source);
Paper load_paper(const std::filesystem::path& file);

}  // namespace validate
