#include "planner/choose/fusion_request.hpp"

#include <algorithm>

#include "planner/choose/iteration_models.hpp"

namespace planner {
namespace {

using sim::Time;

std::vector<TransferCost> costs_in(const Setting& setting, const std::vector<TransferCost>& transfers) {
  std::vector<TransferCost> out;
  out.reserve(transfers.size());
  for (const TransferCost& cost : transfers) out.push_back(cost_of(setting, cost.transfer()));
  return out;
}

/// The iteration time from the first micro-batch's time, the further micro-batches and the input.
double whole_iteration_us(const Setting& setting, Time first) {
  const Conditions& conditions = setting.conditions;
  const std::int64_t further = conditions.accumulation_steps - 1;
  const Time all = first + further * (setting.workload.forward_total + setting.workload.backward_total);
  const double us = std::max(sim::to_us(all), host_us(setting));
  return conditions.read_is_overlapped ? std::max(us, conditions.read_us) : us;
}

}  // namespace

FusionRequest::FusionRequest(const Setting& other, const FusionRequest& like)
    : IterationSpec(other, like.pipeline, like.options, costs_in(other, like.transfers), like.in_partitions) {
}

const IterationModel& FusionRequest::model() const {
  if (!model_) model_ = make_model(*this);
  return *model_;
}

Time evaluate(const FusionRequest& request, const Groups& groups) { return request.model().value(groups); }

double iteration_us(const FusionRequest& request, const Groups& groups) {
  return whole_iteration_us(request.setting, evaluate(request, groups));
}

double lower_bound_us(const FusionRequest& request) {
  const Workload& workload = request.workload;
  if (request.setting.conditions.fidelity != Fidelity::closed)  // links may be faster than the closed costs
    return whole_iteration_us(request.setting, workload.forward_total + workload.backward_total);
  return whole_iteration_us(request.setting, request.model().lower_bound());
}

}  // namespace planner
