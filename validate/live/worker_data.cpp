#include "validate/live/worker_data.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "profiler/measure/collective.hpp"

namespace live {

using planner::TaskLabel;
using Kind = TaskLabel::Kind;

namespace {

constexpr std::array<Kind, 2> kGathers = {Kind::forward_gather, Kind::backward_gather};

using Carried = std::set<std::pair<Kind, std::size_t>>;

/// Which kinds of collectives transfer which groups.
Carried carried(const Prediction& plan) {
  Carried out;
  for (const sim::Task& task : plan.lowered.graph.tasks()) {
    const TaskLabel label = TaskLabel::unpack(task.label);
    if (TaskLabel::collective(label.kind)) out.emplace(label.kind, label.item % plan.groups.size());
  }
  return out;
}

/// The tensors of a group, which have shapes.
std::vector<low_rank::Matrix> matrices(const planner::Workload& workload, const planner::Group& group) {
  std::vector<low_rank::Matrix> out;
  for (std::uint32_t i = group.begin; i < group.end; ++i)
    out.push_back(matrix_of(
        workload.profile->layers[workload.gradients[i].layer].tensors[workload.gradients[i].tensor]));
  return out;
}

}  // namespace

WorkerData::WorkerData(const RunSpec& spec, const Prediction& plan, const core::Profile& profile,
                       const transport::Transport& transport, const measure::Engine* engine)
    : rank_(transport.rank()),
      is_elsewhere_(engine != nullptr),
      gradients_(spec.seed, transport.size()),
      groups_(plan.groups.size()) {
  const planner::Workload workload = planner::make_workload(profile);
  values_.resize(static_cast<std::size_t>(workload.bytes()) / sizeof(float));
  const Carried kinds = carried(plan);
  const auto buffer = [&] { return engine == nullptr ? nullptr : engine->another(); };
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const planner::Group& planned = plan.groups[g];
    Group& group = groups_[g];
    const std::int64_t from = workload.bytes_before[planned.begin] + (planned.part ? planned.part->from : 0);
    group.first = static_cast<std::size_t>(from) / sizeof(float);
    group.stays_scattered =
        kinds.contains({Kind::reduce_scatter, g}) && !kinds.contains({Kind::all_gather, g});
    const auto count = static_cast<std::size_t>(plan.bytes[g]) / sizeof(float);
    const Method method = method_of(plan.transfers[planned.transfer], plan.is_encoded[g],
                                    spec.workers_per_node, spec.error_feedback);
    const std::vector<low_rank::Matrix> tensors =
        method.low_rank ? matrices(workload, planned) : std::vector<low_rank::Matrix>();
    fusion_buffers_.push_back(
        std::make_unique<FusionBuffer>(method, std::span(values_).subspan(group.first, count),
                                       transport.size(), spec.seed + g, tensors, buffer()));
    expected_.emplace_back(method, gradients_, group.first, count, spec.seed + g, tensors);
    for (std::size_t pass = 0; pass < kGathers.size(); ++pass)
      if (kinds.contains({kGathers[pass], g}))
        group.parameters[pass] = std::make_unique<Parameters>(count, transport.size(), buffer());
  }
}

void WorkerData::carry(transport::Transport& transport, Kind kind, std::size_t group) {
  const core::CollectiveKind collective = *TaskLabel::collective(kind);
  const auto* const pass = std::ranges::find(kGathers, kind);
  if (pass == kGathers.end())
    fusion_buffers_[group]->carry(transport, collective);
  else
    groups_[group].parameters[static_cast<std::size_t>(pass - kGathers.begin())]->dense.run(transport,
                                                                                            collective);
}

void WorkerData::draw(std::uint32_t iteration) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    FusionBuffer& fusion_buffer = *fusion_buffers_[g];
    gradients_.fill(fusion_buffer.method().spread(), rank_, iteration, groups_[g].first,
                    fusion_buffer.gradient());
    if (is_elsewhere_) fusion_buffer.load();
    for (const auto& parameters : groups_[g].parameters)
      if (parameters != nullptr) draw_parameters(*parameters, iteration, groups_[g].first);
  }
}

/// Fills the rank's own part; the other parts are unset.
void WorkerData::draw_parameters(Parameters& parameters, std::uint32_t iteration, std::size_t first) const {
  std::ranges::fill(parameters.values, -1.0F);
  const measure::Part own = measure::own_part(parameters.values.size(), gradients_.ranks(), rank_);
  gradients_.fill(Spread::wide, 0, iteration, first + own.begin,
                  std::span(parameters.values).subspan(own.begin, own.end - own.begin));
  parameters.dense.load();
}

void WorkerData::store() {
  for (const auto& fusion_buffer : fusion_buffers_) fusion_buffer->store();
  for (Group& group : groups_)
    for (const auto& parameters : group.parameters)
      if (parameters != nullptr) parameters->dense.store();
}

void WorkerData::spoil(std::size_t group) {
  const std::span<float> values = groups_[group].stays_scattered ? fusion_buffers_[group]->own_part(rank_)
                                                                 : fusion_buffers_[group]->gradient();
  if (!values.empty()) values[values.size() / 2] += 1;
}

std::string WorkerData::fault(std::uint32_t iteration) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::string fault = fault_of(iteration, g);
    if (!fault.empty()) return fmt::format("group {}: {}", g + 1, fault);
  }
  return "";
}

std::string WorkerData::fault_of(std::uint32_t iteration, std::size_t g) {
  const Group& group = groups_[g];
  if (!group.stays_scattered) return expected_[g].fault(iteration, fusion_buffers_[g]->gradient());
  const measure::Part part =
      measure::own_part(fusion_buffers_[g]->gradient().size(), gradients_.ranks(), rank_);
  std::string fault = gradients_.fault_of_sums(Spread::wide, iteration, group.first + part.begin,
                                               fusion_buffers_[g]->own_part(rank_));
  for (const auto& parameters : group.parameters)
    if (fault.empty() && parameters != nullptr)
      fault = gradients_.fault_of_copies(iteration, group.first, parameters->values);
  return fault;
}

}  // namespace live
