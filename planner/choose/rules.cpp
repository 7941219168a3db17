#include "planner/choose/rules.hpp"

#include <algorithm>

namespace planner {

void GroupRules::keep_together(std::uint32_t first, std::uint32_t last) {
  no_cut_.resize(bytes_before_.size());
  for (std::uint32_t cut = first + 1; cut <= last; ++cut) no_cut_[cut] = true;
}

void GroupRules::keep_apart(std::uint32_t one, std::uint32_t other) {
  soonest_begin_.resize(bytes_before_.size());
  const auto [first, last] = std::minmax(one, other);
  for (std::uint32_t end = last + 1; end < soonest_begin_.size(); ++end)
    soonest_begin_[end] = std::max(soonest_begin_[end], first + 1);
}

std::uint32_t GroupRules::soonest_begin(std::uint32_t end) const {
  std::uint32_t soonest = soonest_begin_.empty() ? 0 : soonest_begin_[end];
  const std::int64_t max = std::max(std::min(max_bytes_, buffer_bytes_), std::int64_t{0});
  if (bytes_before_.empty() || max >= bytes_before_[end]) return soonest;
  const auto from =
      std::lower_bound(bytes_before_.begin(), bytes_before_.begin() + end, bytes_before_[end] - max);
  const auto by_bytes = static_cast<std::uint32_t>(from - bytes_before_.begin());
  return std::max(soonest, std::min(by_bytes, end - 1));  // a single gradient may exceed the buffer
}

Completions::Completions(const GroupRules& rules, std::uint32_t gradients)
    : count_(rules.count()), min_left_(gradients + 1, kNoTransfer) {
  min_left_.back() = 0;
  if (rules.allow_everything()) {
    std::fill(min_left_.begin(), min_left_.end() - 1, 1);
    return;
  }
  if (count_) {
    in_groups_.assign(gradients + 1, std::vector<bool>(*count_ + 1));
    in_groups_.back()[0] = true;
  }
  for (std::uint32_t end = gradients; end > 0; --end) {
    if (min_left_[end] == kNoTransfer) continue;
    for (std::uint32_t begin = end; begin-- > rules.soonest_begin(end);) {
      if (!rules.allows(begin, end)) continue;
      min_left_[begin] = std::min(min_left_[begin], min_left_[end] + 1);
      for (std::uint32_t groups = 0; count_ && groups < *count_; ++groups)
        if (in_groups_[end][groups]) in_groups_[begin][groups + 1] = true;
    }
  }
}

}  // namespace planner
