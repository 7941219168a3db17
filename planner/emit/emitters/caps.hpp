// The two rules by which frameworks form groups from one size limit (cap), and the best cap.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planner/job/grouping.hpp"
#include "sim/time.hpp"

namespace planner {

/// Sizes of the gradients in backward order, in the framework's unit: bytes or elements.
using Sizes = std::vector<std::int64_t>;

/// The groups that one cap yields.
struct Capped {
  Groups groups;
  std::int64_t next_cap = 0;  ///< the least larger cap that yields other groups; 0 if none does
};

/// The groups of any cap.
using CapRule = std::function<Capped(std::int64_t cap)>;

/// Adds a gradient, then closes the group when it has reached the cap (DDP, Megatron). The first groups may
/// have caps of their own. Within a group every gradient starts at a multiple of `alignment`.
Capped close_at(const Sizes& sizes, std::int64_t cap, const Sizes& first_caps = {},
                std::int64_t alignment = 1);

/// Adds a gradient while the group stays within the cap and its tick is the same (Horovod, DeepSpeed). A
/// gradient larger than the cap forms a group alone. Without `ticks` all ticks are 0.
Capped add_within(const Sizes& sizes, std::int64_t cap, const std::vector<sim::Time>& ticks = {});

/// The cap with the shortest iteration; among equals, the one with the fewest groups.
struct BestCap {
  std::int64_t min = 0;  ///< smallest cap with these groups
  std::int64_t max = 0;  ///< largest cap with these groups; 0 if unbounded
  Groups groups;
  double iteration_us = 0;
  std::int64_t tried = 0;
  /// Whether every cap at which the groups change was tried. With n gradients the first 4,000,000 / n such
  /// caps are tried (all of them in models with hundreds of tensors), then caps in steps of 5 %.
  bool is_every = true;
};

BestCap best_cap(const CapRule& rule, const std::function<double(const Groups&)>& iteration_us);

/// The number from min to max with the most trailing zeros in this base; the smallest of these.
std::int64_t roundest(std::int64_t min, std::int64_t max, std::int64_t base);

/// The bytes that DDP derives from a number of MiB: int(mb * 1024 * 1024).
std::int64_t bytes_of_mib(const std::string& mb);

/// The shortest decimal number of MiB that DDP converts to `min` to `max` bytes; the largest of these. Ranges
/// of one byte are allowed.
std::string mib_text(std::int64_t min, std::int64_t max);

}  // namespace planner
