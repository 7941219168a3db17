// What `fusewise measure` can measure: each adds its options and is chosen by one of them.

#pragma once

#include <functional>
#include <string>

#include <CLI/App.hpp>

namespace cli {

struct MeasureKind {
  CLI::Option* chosen_by = nullptr;
  /// Measures and writes the file or, without one, prints it.
  std::function<void(const std::string& output)> run;
};

MeasureKind add_measure_compressors(CLI::App& command);

}  // namespace cli
