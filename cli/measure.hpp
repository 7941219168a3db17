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
  bool json = false;   ///< print JSON also where a file is written
  std::optional<std::uint32_t> repetitions;
  std::optional<std::string> backend;  ///< each kind has its own
};

struct MeasureKind {
  std::optional<Option> selected_by = {};  ///< selects this kind; none: the default kind
  std::vector<Option> own_options = {};    ///< options that no other kind accepts
  std::function<void(const MeasureOptions& options)> run;
  /// The value of --backend where it was given; the kind that adds this option sets it.
  std::function<std::optional<std::string>()> backend = {};
};

MeasureKind add_measure_collectives(const Command& command);
MeasureKind add_measure_compressors(const Command& command);

}  // namespace cli
