#include "planner/run/messages_of.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace planner {
namespace {

using core::CollectiveKind;
using Kind = TaskLabel::Kind;

cluster::LinkCost link_cost(const core::Link& link) {
  return {.startup_us = link.alpha_us, .us_per_byte = link.beta_us_per_byte};
}

std::uint32_t ranks_per_node(const Setting& setting) {
  const std::int64_t workers = setting.costs.workers();
  if (setting.network->levels.empty()) return static_cast<std::uint32_t>(workers);
  return static_cast<std::uint32_t>(
      std::min(setting.network->levels.front().size.value_or(workers), workers));
}

/// Rounds to whole bytes. The gathered contributions of all workers may be more than 64 bits can count.
std::int64_t whole_bytes(double bytes) {
  constexpr double kMax = 1e18;
  if (bytes > kMax)
    throw Unsupported(fmt::format("collectives of at most {:.0e} bytes", kMax), fmt::format("{:.6g}", bytes));
  return std::llround(bytes);
}

std::string_view pattern_name(CollectiveKind kind, const Algorithm& algorithm) {
  if (kind == CollectiveKind::all_reduce) return algorithm.name;
  if (algorithm.name != "ring")
    throw Unsupported("the ring, whose halves alone are known message by message",
                      fmt::format("the {} of {}", core::name(kind), algorithm.name));
  return kind == CollectiveKind::reduce_scatter ? "reduce_scatter" : "all_gather";
}

/// Whether the compressor's all-reduce is more than an all-gather of encodings.
bool has_own_messages(const Compressor& compressor) {
  if (compressor.between_nodes) return true;
  const SparseEntry* entry = compressor.sparse ? find_sparse(compressor.name) : nullptr;
  return entry != nullptr && entry->calls != nullptr;
}

}  // namespace

cluster::Links links_of(const Setting& setting) {
  const core::Network& network = *setting.network;
  const auto workers = static_cast<std::uint32_t>(setting.costs.workers());
  cluster::Links out = {
      .slowdown = {}, .sigma = setting.conditions.links.sigma, .seed = setting.conditions.links.seed};
  std::uint64_t ranks = 1;
  for (const core::Level& level : network.levels) {
    ranks = level.size ? std::min<std::uint64_t>(workers, ranks * static_cast<std::uint64_t>(*level.size))
                       : workers;
    out.levels.push_back({.ranks = static_cast<std::uint32_t>(ranks), .link = link_cost(level.link)});
    out.sum_us_per_byte = std::max(out.sum_us_per_byte, level.link.gamma_us_per_byte);
  }
  if (out.levels.empty()) {
    if (!network.link)
      throw Unsupported("a network with a link or levels, to go message by message",
                        fmt::format("network '{}', which is measured alone", network.name), "/network");
    out.levels.push_back({.ranks = workers, .link = link_cost(*network.link)});
    out.sum_us_per_byte = network.link->gamma_us_per_byte;
  }
  out.levels.back().ranks = workers;
  if (setting.conditions.links.slow.empty()) return out;
  out.slowdown.assign(workers, 1);
  for (const Straggler& slow : setting.conditions.links.slow)
    if (slow.worker < workers) out.slowdown[static_cast<std::size_t>(slow.worker)] = slow.slowdown;
  return out;
}

cluster::Collective collective_of(const Setting& setting, const CommunicationPlan& plan,
                                  const TaskLabel& label) {
  const CollectiveKind kind = TaskLabel::collective(label.kind).value_or(CollectiveKind::all_gather);
  const auto workers = static_cast<std::uint32_t>(setting.costs.workers());
  cluster::Shape shape = {.ranks = workers, .bytes = 0, .ranks_per_node = ranks_per_node(setting)};
  Algorithm algorithm;  // contributions that cannot be summed are gathered on a ring
  if (label.kind == Kind::lars_gather) {
    shape.bytes = 4 * static_cast<std::int64_t>(setting.workload.forward.size());
  } else {
    const Group& group = plan.groups[label.item % plan.groups.size()];
    const TransferCost& transfer = plan.transfers[group.transfer];
    const Payload payload = payload_of(setting.workload, group);
    const Compressor& compressor = transfer.transfer().compressor;
    const bool has_more = compressor.low_rank || (has_own_messages(compressor) && transfer.is_sparse());
    if (has_more && transfer.is_encoded(payload))
      throw Unsupported("an all-reduce that is known message by message", compressor.name);
    const bool gathers = transfer.carrier(CollectiveKind::all_reduce) == CollectiveKind::all_gather;
    const bool is_gathered = gathers && transfer.is_encoded(payload);
    shape.bytes =
        whole_bytes(transfer.message_bytes(is_gathered ? CollectiveKind::all_reduce : kind, payload));
    if (!is_gathered) algorithm = transfer.transfer().all_reduce;
  }
  const cluster::PatternEntry* entry = cluster::find_pattern(pattern_name(kind, algorithm));
  if (entry == nullptr) throw Unsupported("an all-reduce that is known message by message", algorithm.name);
  const bool fills_nodes = workers <= shape.ranks_per_node || workers % shape.ranks_per_node == 0;
  if (!fills_nodes) shape.ranks_per_node = 1;  // two_level is rejected earlier; other algorithms ignore nodes
  return entry->make(shape);
}

}  // namespace planner
