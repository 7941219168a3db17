// fusewise measure --overlap MODEL: measures how much the layers of a model and all-reduces slow each other.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/command_line.hpp"
#include "cli/measure.hpp"
#include "cli/measure_ranks.hpp"

namespace cli {

struct OverlapOptions {
  std::string model;  ///< empty: collectives are measured instead
  std::string into;
  std::optional<std::int64_t> batch;
  std::optional<int> threads;
  std::string size = "4MiB";
};

/// Adds --overlap and the options that need it.
void add_overlap_options(const Command& command, const std::shared_ptr<OverlapOptions>& options);

/// Writes the profile `options.into` with the measured overlap to the output, or the overlap alone if there
/// is no profile. Prints it if there is no output, or with --json.
void measure_overlap(const OverlapOptions& options, const RankOptions& ranks, int warm_up, int repetitions,
                     const MeasureOptions& common);

}  // namespace cli
