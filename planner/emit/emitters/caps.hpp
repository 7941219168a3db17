// The two rules by which frameworks make groups from one number, and the number that serves best.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planner/job/grouping.hpp"
#include "sim/time.hpp"

namespace planner {

/// Of the gradients in backward order, in whatever the framework counts: bytes or elements.
using Sizes = std::vector<std::int64_t>;

/// What one cap makes of the gradients.
struct Capped {
  Groups groups;
  std::int64_t next_cap = 0;  ///< the least larger cap that makes other groups; 0: none does
};

/// Append a gradient, then close the group when it has reached the cap (DDP, Megatron). The first groups may
/// have caps of their own. Within a group every gradient starts at a multiple of `alignment`.
Capped close_at(const Sizes& sizes, std::int64_t cap, const Sizes& first_caps = {},
                std::int64_t alignment = 1);

/// Add a gradient while the group stays within the cap and its tick is the same (Horovod, DeepSpeed). What is
/// larger than the cap stands alone. Without `ticks` all are 0.
Capped add_within(const Sizes& sizes, std::int64_t cap, const std::vector<sim::Time>& ticks = {});

/// The best of all caps, by what an iteration takes; among equals the one with the fewest groups.
struct BestCap {
  std::int64_t min = 0;  ///< caps from here ...
  std::int64_t max = 0;  ///< ... to here make these groups; 0: and all larger ones
  Groups groups;
  double iteration_us = 0;
  std::int64_t tried = 0;
  /// Whether every cap at which the groups change was tried. Of n gradients the first 4,000,000 / n are (all
  /// there are in models of hundreds of tensors), then steps of 5 %.
  bool is_every = true;
};

BestCap best_cap(const std::function<Capped(std::int64_t cap)>& rule,
                 const std::function<double(const Groups&)>& iteration_us);

/// The number from least to most with the most zeros at its end, in this base; the smallest of them.
std::int64_t roundest(std::int64_t min, std::int64_t max, std::int64_t base);

/// The bytes that DDP takes a number of MiB for: int(mb * 1024 * 1024).
std::int64_t bytes_of_mib(const std::string& mb);

/// A number of MiB that DDP takes for `least` to `most` bytes, with as few decimals as there can be; the
/// largest of them. For ranges of one byte too.
std::string mib_text(std::int64_t min, std::int64_t max);

}  // namespace planner
