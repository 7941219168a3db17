// Algorithm 1 of the Cupcake paper as a reference. It takes exponential time, so it either ends within its
// limits or fails; an incomplete result is discarded.

#include "planner/choose/cupcake.hpp"

#include <chrono>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/limits.hpp"
#include "planner/choose/fusion.hpp"
#include "planner/choose/fusion/keys.hpp"
#include "planner/cost/setting.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using core::Field;

constexpr std::int64_t kDefaultNodes = 100'000'000;
constexpr double kDefaultSeconds = 60;

/// Throws Unsupported if costs could exceed the range of sim::Time under some grouping.
void check_costs(const FusionRequest& request) {
  const TransferCost& transfer = request.transfers.front();
  const Workload& workload = request.workload;
  const double us = sim::to_us(workload.backward_total) +
                    static_cast<double>(workload.gradient_count()) *
                        transfer.max_us(CollectiveKind::all_reduce, payload_of_all(workload));
  if (us > sim::kMaxUs) too_long(us);
}

/// The wfbp time line for any pipeline, with the costs of the schedule's own transfer. The paper's h includes
/// all coding of a group. Refers to the request.
CupcakeInstance instance_of(const FusionRequest& request) {
  const Workload& workload = request.workload;
  const TransferCost& transfer = request.transfers.front();
  CupcakeInstance out;
  out.count = workload.gradient_count();
  for (const Gradient& gradient : workload.gradients) out.ready.push_back(gradient.ready);
  out.backward_end = workload.backward_total;
  const auto payload = [&workload](std::uint32_t begin, std::uint32_t end) {
    return payload_between(workload, begin, end);
  };
  out.encode = [&transfer, payload](std::uint32_t begin, std::uint32_t end) {
    return transfer.encode(payload(begin, end)) + transfer.decode(payload(begin, end));
  };
  out.communicate = [&transfer, payload](std::uint32_t begin, std::uint32_t end) {
    return transfer.time(CollectiveKind::all_reduce, payload(begin, end));
  };
  return out;
}

/// The progress of the search, evaluated with the schedule's own pipeline.
std::string progress(const FusionRequest& request, const CupcakeResult& result) {
  const double bound_us = sim::to_us(request.model().lower_bound());
  if (result.groups.empty())
    return fmt::format("no grouping found yet, none can take less than {:.3f} us an iteration", bound_us);
  return fmt::format("the best grouping so far takes {:.3f} us an iteration, none can take less than {:.3f}",
                     sim::to_us(evaluate(request, result.groups)), bound_us);
}

Groups search(const FusionRequest& request, const CupcakeOptions& options, const std::string& place) {
  if (request.costs.workers() == 1) return {{.begin = 0, .end = request.workload.gradient_count()}};
  check_costs(request);
  using Clock = std::chrono::steady_clock;
  const auto started = Clock::now();
  CupcakeResult result = cupcake(instance_of(request), options);
  if (result.finished) return std::move(result.groups);
  throw core::EnvironmentError(
      fmt::format("{}: Cupcake's search reached its {} (nodes: {}, seconds: {:.1f}): {}", place,
                  result.nodes >= options.max_nodes ? "max_nodes" : "time_limit_s", result.nodes,
                  std::chrono::duration<double>(Clock::now() - started).count(), progress(request, result)));
}

/// Whether a switch is on; the default is on.
bool is_on(const Field& field, std::string_view key) {
  const std::optional<Field> found = fusion_key(field, key);
  return !found || found->boolean();
}

Fuse read(const Field& field) {
  allow_fusion_keys(field, {"kind", "prune_by_outcome", "prune_by_first_group", "start_with_halves",
                            "max_nodes", "time_limit_s"});
  const std::int64_t max_nodes = fusion_integer(field, "max_nodes", 1, core::kMaxElements, kDefaultNodes);
  const CupcakeOptions options = {
      .prune_by_outcome = is_on(field, "prune_by_outcome"),
      .prune_by_first_group = is_on(field, "prune_by_first_group"),
      .start_with_halves = is_on(field, "start_with_halves"),
      .max_nodes = static_cast<std::uint64_t>(max_nodes),
      .time_limit_s = fusion_number(field, "time_limit_s", 0, core::kMaxTimeUs / 1e6, kDefaultSeconds)};
  const std::string place = field.source() + ": " + field.pointer();
  return [options, place](const FusionRequest& request) { return search(request, options, place); };
}

}  // namespace

FusionKind cupcake_fusion() {
  return {.name = "cupcake",
          .summary = "Algorithm 1 of the Cupcake paper; exponential, see optimal",
          .read = read,
          .searches = true};
}

}  // namespace planner
