// Reads the keys of searches and evaluates caps and groupings.

#include "planner/choose/fusion/cap_search.hpp"

#include <utility>

#include <fmt/format.h>

#include "core/limits.hpp"
#include "planner/choose/fusion/keys.hpp"
#include "planner/job/registry.hpp"

namespace planner {

const Knob& read_knob(const core::Field& field, std::initializer_list<std::string_view> choices) {
  const std::optional<core::Field> of = fusion_key(field, "of");
  return entry(knobs(), of ? of->one_of(choices) : *choices.begin());
}

IntegerRange read_range(const core::Field& field, std::string_view from_key, std::string_view to_key,
                        std::int64_t min, IntegerRange otherwise) {
  const IntegerRange range = {.from = fusion_integer(field, from_key, min, core::kMaxBytes, otherwise.from),
                              .to = fusion_integer(field, to_key, min, core::kMaxBytes, otherwise.to)};
  if (range.from <= range.to) return range;
  if (field.has(to_key))
    field.at(to_key).expected(fmt::format("an integer from {} ({}) on", range.from, from_key));
  field.at(from_key).expected(fmt::format("an integer from {} to {} ({})", min, range.to, to_key));
}

CapSearch read_cap_search(const core::Field& field, std::int64_t max_probes) {
  constexpr IntegerRange kDear = {.from = 1'000'000, .to = 100'000'000};
  constexpr std::int64_t kMaxSeed = std::int64_t{1} << 53;  // JSON numbers are exact up to here
  const IntegerRange caps = read_range(field, "from_bytes", "to_bytes", 1, kDear);
  return {.knob = read_knob(field, {"modules", "buckets", "threshold"}),
          .space = {.from = static_cast<double>(caps.from),
                    .to = static_cast<double>(caps.to),
                    .probes = static_cast<std::size_t>(fusion_integer(field, "probes", 1, max_probes, 10)),
                    .seed = static_cast<std::uint64_t>(fusion_integer(field, "seed", 0, kMaxSeed, 1))}};
}

Groups search_cap(const FusionRequest& request, const CapSearch& search, const Searcher& searcher) {
  const auto groups_at = [&](double cap) {
    return search.knob.groups(request.workload, static_cast<std::int64_t>(cap));
  };
  const auto time_at = [&](double cap) {
    return static_cast<double>(evaluate(request, groups_at(cap)).count());
  };
  return groups_at(best_of(searcher(time_at, search.space)).at);
}

bool BestGroups::is_better(sim::Time time, const Groups& groups) const {
  if (groups_.empty() || time != time_) return groups_.empty() || time < time_;
  if (groups.size() != groups_.size()) return groups.size() < groups_.size();
  return groups.front().end < groups_.front().end;
}

void BestGroups::offer(Groups groups) {
  const sim::Time time = evaluate(*request_, groups);
  if (!is_better(time, groups)) return;
  time_ = time;
  groups_ = std::move(groups);
}

}  // namespace planner
