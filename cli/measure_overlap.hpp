// fusewise measure --overlap MODEL: how much computing the model's layers and communicating slow each other.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/command_line.hpp"
#include "cli/measure_ranks.hpp"

namespace cli {

struct OverlapOptions {
  std::string model;  ///< empty: not asked for
  std::string into;
  std::optional<std::int64_t> batch;
  std::optional<int> threads;
  std::string size = "4MiB";
};

/// Adds --overlap, and what goes with it alone.
void add_overlap_options(const Command& command, const std::shared_ptr<OverlapOptions>& options);

/// Writes to `output`, or prints, a profile with `overlap`, or these numbers alone.
void measure_overlap(const OverlapOptions& options, const RankOptions& ranks, int warm_up, int repetitions,
                     const std::string& output);

}  // namespace cli
