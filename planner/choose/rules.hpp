// Rules that a grouping has to satisfy: which groups are allowed, and how many.

#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "planner/job/workload.hpp"

namespace planner {

/// Rules on gradients by their position in backward order. By default every grouping is allowed.
class GroupRules {
 public:
  GroupRules() = default;
  explicit GroupRules(const Workload& workload) : bytes_before_(workload.bytes_before) {}

  /// Limits the bytes of every group.
  void min_bytes(std::int64_t bytes) { min_bytes_ = bytes; }
  void max_bytes(std::int64_t bytes) { max_bytes_ = bytes; }
  /// Sets the size of the buffer into which groups of several gradients are copied; a single gradient needs
  /// none.
  void buffer_bytes(std::int64_t bytes) { buffer_bytes_ = bytes; }
  /// Forbids groups that end between these gradients or between those in their range.
  void keep_together(std::uint32_t first, std::uint32_t last);
  /// Forbids groups that hold both gradients.
  void keep_apart(std::uint32_t one, std::uint32_t other);
  void count(std::uint32_t groups) { count_ = groups; }

  const std::optional<std::uint32_t>& count() const { return count_; }

  /// Whether no rule is set.
  bool allow_everything() const { return bytes_before_.empty() && !count_; }
  bool allows(std::uint32_t begin, std::uint32_t end) const {
    if (bytes_before_.empty()) return true;
    const std::int64_t bytes = bytes_before_[end] - bytes_before_[begin];
    if (bytes < min_bytes_ || bytes > max_bytes_ || (bytes > buffer_bytes_ && end - begin > 1)) return false;
    if (!no_cut_.empty() && (no_cut_[begin] || no_cut_[end])) return false;
    return soonest_begin_.empty() || begin >= soonest_begin_[end];
  }

  /// The earliest gradient at which an allowed group that ends at `end` may begin.
  std::uint32_t soonest_begin(std::uint32_t end) const;

 private:
  std::vector<std::int64_t> bytes_before_;
  std::int64_t min_bytes_ = 0;
  std::int64_t max_bytes_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t buffer_bytes_ = std::numeric_limits<std::int64_t>::max();
  std::vector<bool> no_cut_;                  // by cut; empty: a group may end anywhere
  std::vector<std::uint32_t> soonest_begin_;  // by end; empty: a group may begin anywhere
  std::optional<std::uint32_t> count_;
};

/// From which cuts the remaining gradients can be grouped, and into how many groups.
class Completions {
 public:
  Completions(const GroupRules& rules, std::uint32_t gradients);

  /// Whether the gradients from `cut` on can be grouped after `groups_before` groups.
  bool possible(std::uint32_t cut, std::uint32_t groups_before) const {
    if (!count_) return min_left_[cut] != kNoTransfer;
    return groups_before <= *count_ && in_groups_[cut][*count_ - groups_before];
  }
  bool possible() const { return possible(0, 0); }
  /// Element n: whether all gradients can be partitioned into n groups; filled only if a count is set.
  const std::vector<bool>& numbers_of_groups() const { return in_groups_.front(); }

 private:
  static constexpr std::uint32_t kNoTransfer = UINT32_MAX;

  std::optional<std::uint32_t> count_;
  std::vector<std::uint32_t> min_left_;       // least number of groups, by cut
  std::vector<std::vector<bool>> in_groups_;  // by cut and number of groups; filled if a count is set
};

}  // namespace planner
