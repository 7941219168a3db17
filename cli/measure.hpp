// What `fusewise measure` can measure: each adds its options and, but for collectives, is chosen by one of
// them.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.hpp"

namespace cli {

/// What all kinds are asked for alike.
struct MeasureOptions {
  std::string output;  ///< write to this file; empty: print
  std::optional<std::uint32_t> repetitions;
};

struct MeasureKind {
  std::optional<Option> chosen_by = {};  ///< none: what is measured where nothing else is asked for
  std::vector<Option> own = {};          ///< that go with nothing else
  std::function<void(const MeasureOptions& options)> run;
};

MeasureKind add_measure_collectives(const Command& command);
MeasureKind add_measure_compressors(const Command& command);

}  // namespace cli
