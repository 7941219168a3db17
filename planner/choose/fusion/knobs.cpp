// The table of fusions that depend on one number; each is defined beside its fusion.

#include "planner/choose/fusion/knobs.hpp"

#include <vector>

namespace planner {

Knob modules_knob();
Knob buckets_knob();
Knob threshold_knob();
Knob nearby_layers_knob();
Knob equal_groups_knob();

std::span<const Knob> knobs() {
  static const std::vector<Knob> all = {modules_knob(), buckets_knob(), threshold_knob(),
                                        nearby_layers_knob(), equal_groups_knob()};
  return all;
}

}  // namespace planner
