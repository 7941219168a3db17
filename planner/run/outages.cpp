#include "planner/run/outages.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace planner {
namespace {

using sim::Time;
using Kind = TaskLabel::Kind;

std::string task_name(const Setting& setting, const TaskLabel& label) {
  const auto& layers = setting.workload.profile->layers;
  const auto& backward = setting.workload.backward;
  switch (label.kind) {
    case Kind::forward: return fmt::format("forward pass of '{}'", layers[label.item % layers.size()].name);
    case Kind::backward:
      return fmt::format("backward pass of '{}'", layers[backward[label.item % backward.size()].layer].name);
    case Kind::micro_batch_forward:
    case Kind::micro_batch_backward: return fmt::format("micro-batch {}", label.item + 1);
    case Kind::encode: return fmt::format("encoding of group {}", label.item + 1);
    case Kind::decode: return fmt::format("decoding of group {}", label.item + 1);
    case Kind::all_reduce: return fmt::format("all-reduce of group {}", label.item + 1);
    case Kind::reduce_scatter: return fmt::format("reduce-scatter of group {}", label.item + 1);
    case Kind::all_gather:
    case Kind::backward_gather:
    case Kind::forward_gather: return "all-gather of a group";
    case Kind::read: return "reading of the input";
    case Kind::group_update: return fmt::format("update of group {}", label.item + 1);
    case Kind::tick:
    case Kind::lars:
    case Kind::lars_gather:
    case Kind::update: break;
  }
  return "update";
}

}  // namespace

Outages::Outages(const Setting& setting) : setting_(setting) {
  for (const Failure& failure : setting.conditions.failures) {
    if (failure.worker >= setting.costs.workers()) continue;
    const Time from = sim::from_us(failure.at_us);
    all_.push_back({.worker = static_cast<std::size_t>(failure.worker),
                    .from = from,
                    .to = failure.down_us ? from + sim::from_us(*failure.down_us) : Time::max()});
  }
  std::ranges::stable_sort(all_, {}, &Outage::from);
}

Time Outages::end(std::size_t worker, Time begin, Time duration, const TaskLabel& label) const {
  Time at = begin;  // the remaining work runs from here
  for (const Outage& outage : all_) {
    const bool is_before = duration > Time::zero() ? duration <= outage.from - at : at < outage.from;
    if (outage.worker != worker || outage.to <= at || is_before) continue;
    if (outage.to == Time::max()) never_ends(outage, label);
    duration -= std::max(Time::zero(), outage.from - at);
    at = outage.to;
  }
  return sim::after(at, duration);
}

void Outages::never_ends(const Outage& outage, const TaskLabel& label) const {
  const std::int64_t others = setting_.costs.workers() - 1;
  const std::string waiting =
      others == 0 ? "nothing else waits for it"
                  : fmt::format("the {} other worker{} wait{} for it in the next collective of iteration {}",
                                others, others == 1 ? "" : "s", others == 1 ? "s" : "", label.iteration + 1);
  throw NeverEnds(fmt::format("worker {} fails for good at {} us, in iteration {}: its {} never ends, and {}",
                              outage.worker, sim::to_us(outage.from), label.iteration + 1,
                              task_name(setting_, label), waiting));
}

}  // namespace planner
