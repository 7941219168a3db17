#include "planner/cost/transfers.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "planner/cost/derived.hpp"
#include "planner/cost/line_rate.hpp"
#include "planner/cost/placement.hpp"

namespace planner {

using core::CollectiveKind;

namespace {

/// An all-gather of encodings by the formula, where an algorithm's second half is none: what a tree
/// broadcasts is the whole, and recursive doubling needs all of its rounds. Trees take the ring's all-gather.
std::optional<SparseCost> gather_by_formula(const core::Network& network, std::int64_t workers,
                                            const Transfer& transfer) {
  const std::string& name = transfer.all_reduce.name;
  const bool doubles = name == "recursive_doubling";
  if (!doubles && name != "binary_tree" && name != "double_binary_tree") return std::nullopt;
  if (transfer.compressor.collective != CollectiveKind::all_gather) return std::nullopt;
  if (find_measured(network, workers, transfer.all_reduce, CollectiveKind::all_gather) != nullptr ||
      has_measured_nodes(network) || (!network.link && network.levels.empty()))
    return std::nullopt;
  const core::Link link = fabric_of(network, workers, name, false).flat;
  const std::optional<double> rate = line_rate_gbps(network, workers);
  const double us_per_byte = std::max(link.beta_us_per_byte, rate ? 8e-3 / *rate : 0);
  const double others = static_cast<double>(workers) - 1;
  return SparseCost{.startup_us = (doubles ? static_cast<double>(rounds(workers)) : others) * link.alpha_us,
                    .us_per_byte = others * transfer.compressor.ratio * us_per_byte,
                    .sent_per_byte = others * transfer.compressor.ratio};
}

/// The workers among which reduce-scatters and all-gathers run.
std::int64_t members(std::int64_t workers, const Transfer& transfer) {
  const std::int64_t of_group = transfer.shard_workers;
  if (of_group == 0 || workers <= of_group) return workers;
  if (workers % of_group != 0)
    throw Unsupported(fmt::format("a multiple of the {} workers of a shard group", of_group),
                      fmt::to_string(workers));
  return of_group;
}

/// An upper bound of the sum of costs over up to `count` parts of `all` bytes, where max_us(x) is the maximum
/// cost of up to x bytes: parts of up to the mean cost at most what the mean may, larger ones at most the
/// largest price of a byte.
template <typename MaxUs>
double max_in_parts(double all, std::size_t count, MaxUs max_us) {
  const double mean = all / static_cast<double>(count);
  double per_byte = 0;
  if (mean > 0)
    for (double from = mean; from < all; from *= 2)
      per_byte = std::max(per_byte, max_us(std::min(2 * from, all)) / from);
  const auto parts = static_cast<double>(count);
  return std::min(parts * max_us(all), parts * max_us(mean) + all * per_byte);
}

}  // namespace

Transfer chosen(const Transfer& own, const TransferChoice& choice) {
  return {.all_reduce = choice.all_reduce.value_or(own.all_reduce),
          .compressor = choice.compressor.value_or(own.compressor),
          .selective = own.selective && !choice.compressor,
          .wire = own.wire,
          .shard_workers = own.shard_workers,
          .pads_tensors = own.pads_tensors,
          .gathers_frozen = own.gathers_frozen};
}

TransferCost::Replicas::Replicas(const core::Network& whole, std::int64_t workers, const Transfer& transfer)
    : network(std::make_shared<core::Network>(as_seen_by(whole, {.stride = transfer.shard_workers}))),
      costs(*network, workers / transfer.shard_workers, transfer.all_reduce),
      share(1 / static_cast<double>(transfer.shard_workers)) {}

TransferCost::TransferCost(const core::Network& network, std::int64_t workers, Transfer transfer,
                           double slowdown, const Workload* workload)
    : transfer_(std::move(transfer)),
      costs_(network, members(workers, transfer_), transfer_.all_reduce),
      slowdown_(slowdown),
      deciding_slowdown_(slowdown),
      compresses_(workers > 1 && !transfer_.compressor.is_none()) {
  if (transfer_.shard_workers > 0 && workers > 1) {
    check_placement(network, {.size = transfer_.shard_workers});
    replicas_.emplace(network, std::max(workers, transfer_.shard_workers), transfer_);
  }
  if (transfer_.pads_tensors && workers > 1 && !compresses_) {
    assert(workload != nullptr);
    padding_before_ =
        std::make_shared<const std::vector<std::int64_t>>(padding_before(*workload, costs_.workers()));
  }
  if (transfer_.gathers_frozen && workers > 1 && !compresses_) {
    assert(workload != nullptr);
    frozen_before_ = std::make_shared<const std::vector<std::int64_t>>(workload->frozen_before);
  }
  if (compresses_ && transfer_.compressor.decodes_each) contributions_ = static_cast<double>(workers);
  if (compresses_ && transfer_.compressor.sparse) make_sparse(network);
  if (compresses_ && transfer_.compressor.between_nodes) make_between_nodes(network);
  if (compresses_ && transfer_.compressor.low_rank) {
    assert(workload != nullptr);
    const Compressor& own = transfer_.compressor;
    low_rank_ = std::make_shared<const LowRankVolumes>(*workload, *own.low_rank,
                                                       LowRankCode{own.encode, own.in_transit, own.decode});
  }
  if (!compresses_ || sparse_) return;
  if (const auto gather = gather_by_formula(network, workers, transfer_)) sparse_ = {.usual = *gather};
}

void TransferCost::make_sparse(const core::Network& network) {
  const SparseEntry& entry = *find_sparse(transfer_.compressor.name);
  if (entry.calls == nullptr) return;  // costed as a regular all-gather
  const SparseOptions& options = *transfer_.compressor.sparse;
  const Fabric fabric = fabric_of(network, workers(), entry.name, entry.needs_nodes);
  const SparseCalls calls = entry.calls(fabric, density(transfer_.compressor), options);
  sparse_ = {.usual = cost_of(calls.usual, fabric),
             .recomputing = cost_of(calls.recomputing.value_or(calls.usual), fabric),
             .repartitioning = cost_of(calls.repartitioning, fabric),
             .recomputes = calls.recomputing.has_value(),
             .selects_from = calls.selects_from};
  if (!sparse_->recomputes) return;
  const double recomputing = 1 / static_cast<double>(options.recompute_every);
  now_ = mean_ = {.usual = 1 - recomputing,
                  .recomputing = recomputing,
                  .repartitioning = 1 / static_cast<double>(options.repartition_every)};
}

/// With a single node nothing is compressed.
void TransferCost::make_between_nodes(const core::Network& network) {
  const Compressor& compressor = transfer_.compressor;
  const Fabric fabric = fabric_of(network, workers(), fmt::format("{} between nodes", compressor.name), true);
  compresses_ = fabric.nodes->nodes > 1;
  if (!compresses_) return;
  const bool gathers = compressor.collective == CollectiveKind::all_gather;
  const double share = 1 / static_cast<double>(fabric.nodes->workers_in_node);
  sparse_ = {.usual = cost_of(between_nodes(fabric, compressor.ratio, gathers), fabric),
             .selects_from = share,
             .decodes = share};
  if (compressor.decodes_each) contributions_ = static_cast<double>(fabric.nodes->nodes);
}

TransferCost TransferCost::in_iteration(std::uint64_t iteration) const {
  TransferCost out = *this;
  if (!has_spikes() || !sparse_->recomputes) return out;
  const SparseOptions& options = *transfer_.compressor.sparse;
  const auto comes = [&](std::int64_t period) { return iteration % static_cast<std::uint64_t>(period) == 0; };
  const bool recomputes = comes(options.recompute_every);
  out.now_ = {.usual = recomputes ? 0.0 : 1.0,
              .recomputing = recomputes ? 1.0 : 0.0,
              .repartitioning = comes(options.repartition_every) ? 1.0 : 0.0};
  return out;
}

bool TransferCost::encodes() const {
  if (!compresses_) return false;
  const Compressor& compressor = transfer_.compressor;
  const bool recomputes = sparse_ && sparse_->recomputes;
  return !compressor.encode.is_free() || (recomputes && !compressor.sparse->recompute_selection.is_free());
}

TransferCost TransferCost::at_full_speed() const {
  TransferCost out = *this;
  out.slowdown_ = 1;
  return out;
}

CollectiveKind TransferCost::carrier(CollectiveKind kind) const {
  return compresses_ && kind == CollectiveKind::all_reduce ? transfer_.compressor.collective : kind;
}

bool TransferCost::is_encoded(const Payload& payload) const {
  if (!compresses_) return false;
  if (low_rank_ && volume(payload).p_bytes == 0) return false;
  if (!transfer_.selective) return true;
  const double codes = selection_us(mean_, payload) + decoding_us(payload);
  return encoded_us(CollectiveKind::all_reduce, payload, mean_) + deciding_slowdown_ * codes <
         dense_us(CollectiveKind::all_reduce, payload);
}

std::int64_t TransferCost::largest_encoded(const Payload& payload) const {
  if (!is_encoded(payload)) return 0;
  return low_rank_ ? low_rank_->largest_matrix(payload.begin, payload.end) : payload.bytes;
}

double TransferCost::encode_us(const Payload& payload) const {
  return is_encoded(payload) ? slowdown_ * selection_us(now_, payload) : 0;
}

double TransferCost::decode_us(const Payload& payload) const {
  return is_encoded(payload) ? slowdown_ * decoding_us(payload) : 0;
}

double TransferCost::us(CollectiveKind kind, const Payload& payload) const {
  return is_encoded(payload) ? encoded_us(kind, payload, now_) : dense_us(kind, payload);
}

GroupCost TransferCost::cost(CollectiveKind kind, const Payload& payload) const {
  if (!is_encoded(payload)) return {.channel = sim::from_us(dense_us(kind, payload))};
  return {.encode = sim::from_us(slowdown_ * selection_us(now_, payload)),
          .channel = sim::from_us(encoded_us(kind, payload, now_)),
          .decode = sim::from_us(slowdown_ * decoding_us(payload))};
}

std::vector<double> TransferCost::messages(CollectiveKind kind, const Payload& payload) const {
  if (!low_rank_ || !is_encoded(payload)) return {message_bytes(kind, payload)};
  const LowRankVolume sent = volume(payload);
  std::vector<double> out;
  for (const std::int64_t bytes : {sent.rest_bytes, sent.p_bytes, sent.q_bytes})
    if (bytes > 0) out.push_back(static_cast<double>(bytes));
  return out;
}

double TransferCost::message_bytes(CollectiveKind kind, const Payload& payload) const {
  if (!is_encoded(payload)) return wire_bytes(kind, payload);
  if (!low_rank_) return encoded_message(kind, static_cast<double>(payload.bytes));
  const std::vector<double> sent = messages(kind, payload);
  return std::accumulate(sent.begin(), sent.end(), 0.0);
}

double TransferCost::sent_bytes(CollectiveKind kind, const Payload& payload) const {
  const bool encoded = is_encoded(payload);
  if (encoded && carries_sparse(kind)) {
    const auto sent = [&](const SparseCost& cost) {
      return cost.sent_bytes + cost.sent_per_byte * static_cast<double>(payload.bytes);
    };
    return now_.usual * sent(sparse_->usual) + now_.recomputing * sent(sparse_->recomputing) +
           now_.repartitioning * sent(sparse_->repartitioning);
  }
  const CollectiveKind carried = encoded ? carrier(kind) : kind;
  return costs_of(carried).of(carried).sent_per_byte * message_bytes(kind, payload);
}

bool TransferCost::is_monotone(CollectiveKind kind) const {
  if (in_transit(kind) && !in_transit(kind)->is_monotone()) return false;
  if (carries_sparse(kind)) return !transfer_.selective;
  return costs_of(carrier(kind)).of(carrier(kind)).curve.is_monotone() &&
         !(compresses_ && transfer_.selective);
}

double TransferCost::saved_on_channel_us(CollectiveKind kind) const {
  if (compresses_ && transfer_.selective) return -1;
  if (low_rank_) {
    // Groups whose messages differ in kind save nothing. What matrices cost between messages adds up.
    constexpr double kMessages = 3;
    return std::min(0.0, kMessages * costs_.of(kind).curve.saved_by_merging_us());
  }
  const CodeCost* further = in_transit(kind);
  const double saved_further =
      further != nullptr && further->curve ? further->curve->saved_by_merging_us() : 0;
  return saved_further + (carries_sparse(kind)
                              ? sparse_us(mean_, 0)
                              : costs_of(carrier(kind)).of(carrier(kind)).curve.saved_by_merging_us());
}

bool TransferCost::coding_grows() const {
  const Compressor& compressor = transfer_.compressor;
  if (low_rank_) return !transfer_.selective;  // the costs of matrices add up
  return !transfer_.selective && compressor.encode.is_monotone() && compressor.decode.is_monotone() &&
         (!compressor.sparse || compressor.sparse->recompute_selection.is_monotone());
}

bool TransferCost::merging_saves_code() const {
  const Compressor& compressor = transfer_.compressor;
  if (low_rank_) return !transfer_.selective;
  return !transfer_.selective && compressor.encode.merges_for_nothing() &&
         compressor.decode.merges_for_nothing() &&
         (!compressor.sparse || compressor.sparse->recompute_selection.merges_for_nothing());
}

double TransferCost::max_us(CollectiveKind kind, const Payload& payload) const {
  const auto dense_us = [&] { return costs_of(kind).of(kind).curve.max_us(wire_bytes(kind, payload)); };
  if (!compresses_) return dense_us();
  const double encoded = slowdown_ * max_in_code_us(payload) + max_encoded_us(kind, payload);
  return transfer_.selective ? std::max(encoded, dense_us()) : encoded;
}

double TransferCost::max_in_groups_us(CollectiveKind kind, const Payload& payload, std::size_t groups) const {
  if (!low_rank_)
    return max_in_parts(static_cast<double>(carried_bytes(kind, payload)), groups, [&](double bytes) {
      return max_us(kind, static_cast<std::int64_t>(std::ceil(bytes)));
    });
  const LowRankVolume sent = volume(payload);  // what coding costs adds up over matrices
  double out = slowdown_ * max_in_code_us(payload) + sim::to_us(sent.in_transit);
  for (const std::int64_t bytes : {sent.rest_bytes, sent.p_bytes, sent.q_bytes})
    out += max_in_parts(static_cast<double>(bytes), groups,
                        [&](double part) { return costs_.of(kind).curve.max_us(part); });
  if (transfer_.selective)
    out += max_in_parts(scaled(kind, static_cast<double>(payload.bytes)), groups,
                        [&](double part) { return costs_.of(kind).curve.max_us(part); });
  return out;
}

double TransferCost::dense_us(CollectiveKind kind, const Payload& payload) const {
  return costs_of(kind).of(kind).curve.us(wire_bytes(kind, payload));
}

LowRankVolume TransferCost::volume(const Payload& payload) const {
  assert(payload.begin < payload.end);  // bytes alone don't say what is sent
  return low_rank_->of(payload.begin, payload.end);
}

double TransferCost::sparse_us(const Calls& calls, double bytes) const {
  const auto us = [&](const SparseCost& cost) { return cost.startup_us + cost.us_per_byte * bytes; };
  return calls.usual * us(sparse_->usual) + calls.recomputing * us(sparse_->recomputing) +
         calls.repartitioning * us(sparse_->repartitioning);
}

double TransferCost::selection_us(const Calls& calls, const Payload& payload) const {
  if (low_rank_) return sim::to_us(volume(payload).encode);
  const Compressor& compressor = transfer_.compressor;
  const auto bytes = static_cast<double>(payload.bytes);
  if (!sparse_) return compressor.encode.us(bytes);
  const double from = sparse_->selects_from * bytes;
  const double usual = calls.usual * compressor.encode.us(from);
  if (!sparse_->recomputes) return usual;
  return usual + calls.recomputing * compressor.sparse->recompute_selection.us(from);
}

double TransferCost::decoding_us(const Payload& payload) const {
  if (low_rank_) return sim::to_us(volume(payload).decode);
  const double share = sparse_ ? sparse_->decodes : 1;
  return contributions_ * transfer_.compressor.decode.us(share * static_cast<double>(payload.bytes));
}

double TransferCost::max_in_code_us(const Payload& payload) const {
  if (low_rank_) return selection_us(mean_, payload) + decoding_us(payload);
  const Compressor& compressor = transfer_.compressor;
  const auto bytes = static_cast<double>(payload.bytes);
  double out = compressor.encode.max_us(bytes) + contributions_ * compressor.decode.max_us(bytes);
  if (sparse_ && sparse_->recomputes) out += compressor.sparse->recompute_selection.max_us(bytes);
  return out;
}

double TransferCost::max_encoded_us(CollectiveKind kind, const Payload& payload) const {
  const auto bytes = static_cast<double>(payload.bytes);
  if (low_rank_) {
    const LowRankVolume sent = volume(payload);
    double out = sim::to_us(sent.in_transit);
    for (const std::int64_t message : {sent.rest_bytes, sent.p_bytes, sent.q_bytes})
      out += costs_.of(kind).curve.max_us(static_cast<double>(message));
    return out;
  }
  const double carried = carries_sparse(kind)
                             ? sparse_us(mean_, bytes)
                             : costs_.of(carrier(kind)).curve.max_us(encoded_message(kind, bytes));
  const CodeCost* further = in_transit(kind);
  return carried + (further == nullptr ? 0 : further->max_us(bytes));
}

double TransferCost::encoded_us(CollectiveKind kind, const Payload& payload, const Calls& calls) const {
  if (low_rank_) {
    const LowRankVolume sent = volume(payload);
    double out = sim::to_us(sent.in_transit);
    for (const std::int64_t bytes : {sent.rest_bytes, sent.p_bytes, sent.q_bytes})
      if (bytes > 0) out += costs_.of(kind).curve.us(static_cast<double>(bytes));
    return out;
  }
  const auto bytes = static_cast<double>(payload.bytes);
  const CodeCost* further = in_transit(kind);
  const double messages = carries_sparse(kind)
                              ? sparse_us(calls, bytes)
                              : costs_.of(carrier(kind)).curve.us(encoded_message(kind, bytes));
  return messages + (further == nullptr ? 0 : further->us(bytes));
}

const CodeCost* TransferCost::in_transit(CollectiveKind kind) const {
  return compresses_ && kind == CollectiveKind::all_reduce ? &transfer_.compressor.in_transit : nullptr;
}

double TransferCost::encoded_message(CollectiveKind kind, double bytes) const {
  const double contribution = transfer_.compressor.ratio * bytes;
  const bool gathers = carrier(kind) != kind;
  return gathers ? static_cast<double>(costs_.workers()) * contribution : contribution;
}

}  // namespace planner
