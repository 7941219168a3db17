// HiTopKComm step by step: the share of communication between nodes.

#include "planner/cost/costs.hpp"
#include "planner/cost/sparse.hpp"
#include "validate/paper/quantities.hpp"

namespace validate {
namespace {

constexpr double kPercent = 100;

/// The shares of selection, and of communication inside nodes and between them.
Values hitopk_shares_percent(const Request& request) {
  const scenarios::Scenario scenario = request.scenario();
  const std::int64_t workers = request.workers(scenario);
  if (workers == 1)
    request.at(request.has("workers") ? "workers" : "scenario").expected("more than 1 worker", "1");
  const auto bytes = static_cast<double>(core::parameter_count(scenario.profile) *
                                         core::bytes_per_element(scenario.profile.dtype));
  const planner::SparseEntry& entry = *planner::find_sparse("hitopk");
  const planner::Fabric fabric = planner::fabric_of(scenario.network, workers, "hitopk", entry.needs_nodes);
  const planner::SparseCalls calls = entry.calls(fabric, request.at("density").number(0, 1), {});
  const auto us = [&](const planner::Traffic& traffic, const core::Link& link) {
    return traffic.us(link) + bytes * traffic.us_per_byte(link);
  };
  const double between = us(calls.usual.between, fabric.nodes->between);
  const double inside = us(calls.usual.inside, fabric.nodes->inside);
  const double selecting = entry.selection.us(calls.selects_from * bytes);
  const double all = between + inside + selecting;
  return {{"between nodes", kPercent * between / all},
          {"inside nodes", kPercent * inside / all},
          {"selecting", kPercent * selecting / all}};
}

Values between_nodes_percent(const Request& request) {
  return {{"", hitopk_shares_percent(request).front().value}};
}

}  // namespace

std::vector<Quantity> hitopk_quantities() {
  const std::vector<std::string_view> keys = {"scenario", "workers", "density"};
  return {{"hitopk_shares_percent", "shares of HiTopKComm's steps", keys, hitopk_shares_percent},
          {"between_nodes_percent", "of HiTopKComm", keys, between_nodes_percent}};
}

}  // namespace validate
