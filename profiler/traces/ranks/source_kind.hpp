// Recognises what kind of recording a file is, by its contents.

#pragma once

#include <string>
#include <string_view>

namespace ranks {

enum class SourceKind {
  kineto,           ///< a trace of the PyTorch profiler
  execution_trace,  ///< PyTorch's
  nsys,             ///< an SQLite export of Nsight Systems
  log,              ///< text that an importer of logs may know, or nothing known
};

/// Reads as much of the file as it takes to tell: the whole file at most, and never into memory. Throws
/// InputError for a file of a known kind that cannot be used, and says what to record instead.
SourceKind source_kind(const std::string& path);

/// Whether it is a JSON file of fusewise itself, such as a scenario.
bool is_of_fusewise(const std::string& path);

}  // namespace ranks
