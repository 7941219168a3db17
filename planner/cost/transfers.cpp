#include "planner/cost/transfers.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "planner/cost/derived.hpp"
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
                    .sent_bytes = 0,
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

}  // namespace

Transfer chosen(const Transfer& own, const TransferChoice& choice) {
  return {.all_reduce = choice.all_reduce.value_or(own.all_reduce),
          .compressor = choice.compressor.value_or(own.compressor),
          .selective = own.selective && !choice.compressor,
          .wire = own.wire,
          .shard_workers = own.shard_workers};
}

TransferCost::Replicas::Replicas(const core::Network& whole, std::int64_t workers, const Transfer& transfer)
    : network(std::make_shared<core::Network>(as_seen_by(whole, {.stride = transfer.shard_workers}))),
      costs(*network, workers / transfer.shard_workers, transfer.all_reduce),
      share(1 / static_cast<double>(transfer.shard_workers)) {}

TransferCost::TransferCost(const core::Network& network, std::int64_t workers, Transfer transfer,
                           double slowdown)
    : transfer_(std::move(transfer)),
      costs_(network, members(workers, transfer_), transfer_.all_reduce),
      slowdown_(slowdown),
      deciding_slowdown_(slowdown),
      compresses_(workers > 1 && !transfer_.compressor.is_none()) {
  if (transfer_.shard_workers > 0 && workers > 1) {
    check_placement(network, {.size = transfer_.shard_workers});
    replicas_.emplace(network, std::max(workers, transfer_.shard_workers), transfer_);
  }
  if (compresses_ && transfer_.compressor.decodes_each) contributions_ = static_cast<double>(workers);
  if (compresses_ && transfer_.compressor.sparse) make_sparse(network);
  if (compresses_ && transfer_.compressor.between_nodes) make_between_nodes(network);
  if (!compresses_ || sparse_) return;
  if (const auto gather = gather_by_formula(network, workers, transfer_))
    sparse_ = {.usual = *gather, .recomputing = {}, .repartitioning = {}};
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
             .recomputing = {},
             .repartitioning = {},
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

bool TransferCost::is_encoded(std::int64_t bytes) const {
  if (!compresses_ || !transfer_.selective) return compresses_;
  const auto dense = static_cast<double>(bytes);
  const double codes = selection_us(mean_, dense) + decoding_us(dense);
  return encoded_us(CollectiveKind::all_reduce, dense, mean_) + deciding_slowdown_ * codes <
         dense_us(CollectiveKind::all_reduce, dense);
}

double TransferCost::encode_us(std::int64_t bytes) const {
  return is_encoded(bytes) ? slowdown_ * selection_us(now_, static_cast<double>(bytes)) : 0;
}

double TransferCost::decode_us(std::int64_t bytes) const {
  return is_encoded(bytes) ? slowdown_ * decoding_us(static_cast<double>(bytes)) : 0;
}

double TransferCost::us(CollectiveKind kind, std::int64_t bytes) const {
  const auto dense = static_cast<double>(bytes);
  return is_encoded(bytes) ? encoded_us(kind, dense, now_) : dense_us(kind, dense);
}

GroupCost TransferCost::cost(CollectiveKind kind, std::int64_t bytes) const {
  const auto dense = static_cast<double>(bytes);
  if (!is_encoded(bytes)) return {.encode = {}, .channel = sim::from_us(dense_us(kind, dense)), .decode = {}};
  return {.encode = sim::from_us(slowdown_ * selection_us(now_, dense)),
          .channel = sim::from_us(encoded_us(kind, dense, now_)),
          .decode = sim::from_us(slowdown_ * decoding_us(dense))};
}

double TransferCost::message_bytes(CollectiveKind kind, std::int64_t bytes) const {
  const auto dense = static_cast<double>(bytes);
  return is_encoded(bytes) ? encoded_message(kind, dense) : scaled(kind, dense);
}

double TransferCost::sent_bytes(CollectiveKind kind, std::int64_t bytes) const {
  if (carries_sparse(kind) && is_encoded(bytes)) {
    const auto sent = [&](const SparseCost& cost) {
      return cost.sent_bytes + cost.sent_per_byte * static_cast<double>(bytes);
    };
    return now_.usual * sent(sparse_->usual) + now_.recomputing * sent(sparse_->recomputing) +
           now_.repartitioning * sent(sparse_->repartitioning);
  }
  const CollectiveKind carried = is_encoded(bytes) ? carrier(kind) : kind;
  return costs_of(carried).of(carried).sent_per_byte * message_bytes(kind, bytes);
}

bool TransferCost::is_monotone(CollectiveKind kind) const {
  if (in_transit(kind) && !in_transit(kind)->is_monotone()) return false;
  if (carries_sparse(kind)) return !transfer_.selective;
  return costs_of(carrier(kind)).of(carrier(kind)).curve.is_monotone() &&
         !(compresses_ && transfer_.selective);
}

double TransferCost::saved_on_channel_us(CollectiveKind kind) const {
  if (compresses_ && transfer_.selective) return -1;
  const CodeCost* further = in_transit(kind);
  const double saved_further =
      further != nullptr && further->curve ? further->curve->saved_by_merging_us() : 0;
  return saved_further + (carries_sparse(kind)
                              ? sparse_us(mean_, 0)
                              : costs_of(carrier(kind)).of(carrier(kind)).curve.saved_by_merging_us());
}

bool TransferCost::coding_grows() const {
  const Compressor& compressor = transfer_.compressor;
  return !transfer_.selective && compressor.encode.is_monotone() && compressor.decode.is_monotone() &&
         (!compressor.sparse || compressor.sparse->recompute_selection.is_monotone());
}

bool TransferCost::merging_saves_code() const {
  const Compressor& compressor = transfer_.compressor;
  return !transfer_.selective && compressor.encode.merges_for_nothing() &&
         compressor.decode.merges_for_nothing() &&
         (!compressor.sparse || compressor.sparse->recompute_selection.merges_for_nothing());
}

double TransferCost::max_us(CollectiveKind kind, std::int64_t bytes) const {
  const auto dense = static_cast<double>(bytes);
  if (!compresses_) return costs_of(kind).of(kind).curve.max_us(scaled(kind, dense));
  const double codes = max_in_code_us(dense);
  const double carried = carries_sparse(kind)
                             ? sparse_us(mean_, dense)
                             : costs_.of(carrier(kind)).curve.max_us(encoded_message(kind, dense));
  const CodeCost* further = in_transit(kind);
  const double encoded = slowdown_ * codes + carried + (further == nullptr ? 0 : further->max_us(dense));
  return transfer_.selective ? std::max(encoded, costs_.of(kind).curve.max_us(scaled(kind, dense))) : encoded;
}

double TransferCost::dense_us(CollectiveKind kind, double bytes) const {
  return costs_of(kind).of(kind).curve.us(scaled(kind, bytes));
}

double TransferCost::sparse_us(const Calls& calls, double bytes) const {
  const auto us = [&](const SparseCost& cost) { return cost.startup_us + cost.us_per_byte * bytes; };
  return calls.usual * us(sparse_->usual) + calls.recomputing * us(sparse_->recomputing) +
         calls.repartitioning * us(sparse_->repartitioning);
}

double TransferCost::selection_us(const Calls& calls, double bytes) const {
  const Compressor& compressor = transfer_.compressor;
  if (!sparse_) return compressor.encode.us(bytes);
  const double from = sparse_->selects_from * bytes;
  const double usual = calls.usual * compressor.encode.us(from);
  if (!sparse_->recomputes) return usual;
  return usual + calls.recomputing * compressor.sparse->recompute_selection.us(from);
}

double TransferCost::decoding_us(double bytes) const {
  const double share = sparse_ ? sparse_->decodes : 1;
  return contributions_ * transfer_.compressor.decode.us(share * bytes);
}

double TransferCost::max_in_code_us(double bytes) const {
  const Compressor& compressor = transfer_.compressor;
  double out = compressor.encode.max_us(bytes) + contributions_ * compressor.decode.max_us(bytes);
  if (sparse_ && sparse_->recomputes) out += compressor.sparse->recompute_selection.max_us(bytes);
  return out;
}

double TransferCost::encoded_us(CollectiveKind kind, double bytes, const Calls& calls) const {
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
