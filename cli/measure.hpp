// The kinds of measurements of `fusewise measure`. Each adds its own options. Collectives are the default; an
// option selects each other kind.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.hpp"

namespace cli {

/// The options that all kinds share.
struct MeasureOptions {
  std::string output;  ///< the file to write; empty: stdout
  std::optional<std::uint32_t> repetitions;
};

struct MeasureKind {
  std::optional<Option> selected_by = {};  ///< selects this kind; none: the default kind
  std::vector<Option> own_options = {};    ///< options that no other kind accepts
  std::function<void(const MeasureOptions& options)> run;
};

MeasureKind add_measure_collectives(const Command& command);
MeasureKind add_measure_compressors(const Command& command);

}  // namespace cli
