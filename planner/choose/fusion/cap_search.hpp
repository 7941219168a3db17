// Shared code of the fusions that try many groupings and keep the best.

#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "planner/choose/fusion.hpp"
#include "planner/choose/fusion/knobs.hpp"
#include "planner/choose/search.hpp"

namespace planner {

/// The fusion that the key `of` of a fusion object names; the first of `choices` if the key is absent.
const Knob& read_knob(const core::Field& field, std::initializer_list<std::string_view> choices);

struct IntegerRange {
  std::int64_t from = 0;
  std::int64_t to = 0;
};

/// Two integer keys of a fusion object, each at least `least`; absent keys take the value from `otherwise`.
IntegerRange read_range(const core::Field& field, std::string_view from_key, std::string_view to_key,
                        std::int64_t min, IntegerRange otherwise);

/// A search for the best cap.
struct CapSearch {
  const Knob& knob;
  SearchSpace space;
};

/// Reads the keys `of`, `from_bytes`, `to_bytes`, `probes` and `seed`. Defaults: modules, 1 to 100 MB, 10
/// probes, seed 1 (DeAR).
CapSearch read_cap_search(const core::Field& field, std::int64_t max_probes);

using Searcher = std::function<std::vector<Probe>(const Objective&, const SearchSpace&)>;

/// The groups of the cap with the shortest iteration that the searcher found. Caps are whole bytes.
Groups search_cap(const FusionRequest& request, const CapSearch& search, const Searcher& searcher);

/// Keeps, of the groupings offered, the one with the shortest iteration; ties prefer fewer groups, then fewer
/// tensors in the first group.
class BestGroups {
 public:
  explicit BestGroups(const FusionRequest& request) : request_(&request) {}
  void offer(Groups groups);
  /// Requires at least one offer.
  const Groups& groups() const { return groups_; }

 private:
  bool is_better(sim::Time time, const Groups& groups) const;

  const FusionRequest* request_;
  Groups groups_;
  sim::Time time_{};
};

}  // namespace planner
