// The exact optimum for the pipeline, over the offered transfers and within the constraints.

#include "planner/choose/fusion/optimal.hpp"

#include "core/errors.hpp"
#include "planner/choose/fusion/keys.hpp"
#include "planner/pipeline/whole_segments.hpp"

namespace planner {
namespace {

using core::Field;

Fuse read(const Field& field) {
  allow_fusion_keys(field, {"kind", "choices", "constraints"});
  OptimalFusion out;
  if (const auto given = fusion_key(field, "constraints")) out.constraints = read_constraints(*given);
  return out;
}

/// Every offered all-reduce combined with every offered compressor.
std::vector<TransferChoice> choices(const Field& field) {
  const std::optional<Field> given = fusion_key(field, "choices");
  if (!given) return {};
  given->allow_only({"all_reduce", "compression"});
  std::vector<std::optional<Algorithm>> algorithms = {std::nullopt};
  std::vector<std::optional<Compressor>> compressors = {std::nullopt};
  if (const auto list = given->find("all_reduce"))
    for (const Field& item : list->non_empty_items()) algorithms.emplace_back(read_algorithm(item));
  if (const auto list = given->find("compression"))
    for (const Field& item : list->non_empty_items()) compressors.emplace_back(read_compressor(item));
  constexpr std::size_t kMax = 1000;
  const std::size_t pairs = algorithms.size() * compressors.size() - 1;  // also with the schedule's own
  if (pairs > kMax)
    given->expected(
        fmt::format("at most {} choices, each all-reduce or none with each compressor or none", kMax),
        fmt::to_string(pairs));
  std::vector<TransferChoice> out;
  for (const auto& algorithm : algorithms)
    for (const auto& compressor : compressors)
      if (algorithm || compressor) out.push_back({.all_reduce = algorithm, .compressor = compressor});
  return out;
}

}  // namespace

GroupRules rules_of(const FusionRequest& request, const Constraints& constraints) {
  const Groups whole = undivided(request.setting, request.program(request.workload.gradient_count()));
  if (whole.empty()) return constraints ? constraints(request.workload) : GroupRules();
  GroupRules rules = constraints ? constraints(request.workload) : GroupRules(request.workload);
  for (const Group& each : whole) rules.keep_together(each.begin, each.end - 1);
  if (!Completions(rules, request.workload.gradient_count()).possible())
    throw core::Unsupported("constraints that some grouping of whole recomputed blocks keeps to",
                            "constraints that none does", "/schedules");
  return rules;
}

Grouping OptimalFusion::operator()(const FusionRequest& request) const {
  const GroupRules rules = rules_of(request, constraints);
  OptimalGroups found = request.model().optimal(rules);
  return {std::move(found.groups),
          {.largest_front = found.largest_front, .optimality_gap = found.optimality_gap}};
}

Constraints constraints_of(const Fusion& fusion) {
  const OptimalFusion* found = fusion.fuse.target<OptimalFusion>();
  return found == nullptr ? Constraints() : found->constraints;
}

FusionKind optimal_fusion() {
  return {.name = "optimal",
          .summary = "the grouping that no other beats",
          .read = read,
          .choices = choices,
          .searches = true};
}

}  // namespace planner
