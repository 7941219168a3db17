#include "validate/live/fusion_buffer.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "collectives/compression/select.hpp"
#include "collectives/compression/selectors.hpp"
#include "collectives/sparse/between_nodes.hpp"
#include "collectives/sparse/collectives.hpp"
#include "collectives/sparse/gather.hpp"
#include "collectives/sparse/hitopk.hpp"
#include "collectives/sparse/ring.hpp"
#include "collectives/transport/collectives.hpp"
#include "collectives/transport/in_process.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"
#include "profiler/measure/collective.hpp"

namespace live {
namespace {

using compression::SparseVector;
using core::CollectiveKind;
using transport::Bytes;
using transport::Transport;

struct SparseName {
  std::string_view name;
  std::optional<SparseKind> kind;
  std::string_view encoder;  ///< encoder of the gathered messages
};
constexpr std::array<SparseName, 7> kSparse = {
    {{.name = "topk-a", .kind = {}, .encoder = "top-k"},
     {.name = "gaussian-k", .kind = {}, .encoder = "gaussian-k"},
     {.name = "topk-dsa", .kind = SparseKind::topk_dsa, .encoder = {}},
     {.name = "gtopk", .kind = SparseKind::gtopk, .encoder = {}},
     {.name = "ok-topk", .kind = SparseKind::ok_topk, .encoder = {}},
     {.name = "hitopk", .kind = SparseKind::hitopk, .encoder = {}},
     {.name = "hierarchical_topk", .kind = SparseKind::hitopk, .encoder = {}}}};

Method sparse_method(const planner::Compressor& compressor, Method method) {
  const auto* found = std::ranges::find(kSparse, compressor.name, &SparseName::name);
  if (found == kSparse.end())
    throw core::InputError(fmt::format("compression: expected a sparse all-reduce that can be run, got '{}'",
                                       core::printable(compressor.name)));
  method.sparse = found->kind;
  if (!found->kind) method.encoder = compression::find_compressor(found->encoder);
  method.recompute_every = static_cast<std::uint64_t>(compressor.sparse->recompute_every);
  method.repartition_every = static_cast<std::uint64_t>(compressor.sparse->repartition_every);
  return method;
}

SparseVector selected(const Method& method, std::span<const float> gradient) {
  return compression::top_k(gradient, compression::kept_elements(gradient.size(), method.density));
}

void scatter(const SparseVector& from, std::span<float> into) {
  std::ranges::fill(into, 0.0F);
  for (std::size_t i = 0; i < from.indexes.size(); ++i) into[from.indexes[i]] = from.values[i];
}

compression::State first_state(const Method& method, std::uint64_t seed) {
  compression::State state;
  state.density = method.density;
  state.seed = seed;
  return state;
}

/// Adds the residual to `gradient` and stores the sum as the new residual, as nothing is sent yet.
void add_to(std::vector<float>& left, std::span<float> gradient) {
  left.resize(gradient.size());
  for (std::size_t i = 0; i < left.size(); ++i) gradient[i] = left[i] += gradient[i];
}

void take_off(std::vector<float>& left, std::span<const std::uint32_t> sent) {
  for (const std::uint32_t i : sent) left[i] = 0;
}

Bytes encoded(const Method& method, std::span<const float> gradient, compression::State& state,
              compression::ErrorFeedback& feedback) {
  return method.error_feedback ? compression::encode(*method.encoder, gradient, state, feedback)
                               : method.encoder->encode(gradient, state);
}

std::size_t word_of(const Bytes& encoding, std::size_t elements) {
  return encoding.size() / std::max<std::size_t>(elements, 1);
}

}  // namespace

Method method_of(const planner::Transfer& transfer, bool is_encoded, std::uint32_t workers_per_node,
                 bool error_feedback) {
  Method method = {.all_reduce = transfer.all_reduce.name, .workers_per_node = workers_per_node};
  const cluster::PatternEntry* pattern = cluster::find_pattern(transfer.all_reduce.name);
  if (pattern == nullptr || pattern->outcome != cluster::Outcome::all_reduce)
    throw core::InputError(fmt::format("collectives: expected an all-reduce that can be run, got '{}'",
                                       core::printable(transfer.all_reduce.name)));
  if (!is_encoded || transfer.compressor.is_none()) return method;
  const planner::Compressor& compressor = transfer.compressor;
  method.between_nodes = compressor.between_nodes;
  method.error_feedback = error_feedback || compressor.name == "efsignsgd";  // efsignsgd includes error
                                                                             // feedback
  method.density = std::min(1.0, planner::density(compressor));
  if (compressor.sparse) return sparse_method(compressor, method);
  if (const std::optional<planner::LowRankOptions>& options = compressor.low_rank) {
    method.low_rank = low_rank_options(*options);
    method.low_rank->error_feedback = method.error_feedback;
    return method;
  }
  method.encoder = compression::find_compressor(compressor.name);
  if (method.encoder == nullptr)
    throw core::InputError(fmt::format("compression: expected a compressor that can be run, got '{}'",
                                       core::printable(compressor.name)));
  return method;
}

low_rank::PowerSgdOptions low_rank_options(const planner::LowRankOptions& options) {
  return {.rank = static_cast<std::size_t>(options.rank),
          .min_compression_rate = options.min_compression_rate};
}

low_rank::Matrix matrix_of(const core::ProfileTensor& tensor) {
  const auto rows = static_cast<std::size_t>(tensor.shape.front());
  return {.rows = rows, .columns = static_cast<std::size_t>(tensor.elements) / rows};
}

FusionBuffer::FusionBuffer(Method method, std::span<float> gradient, std::uint32_t ranks, std::uint64_t seed,
                           std::span<const low_rank::Matrix> tensors, std::unique_ptr<measure::Engine> engine)
    : method_(std::move(method)), gradient_(gradient), ranks_(ranks), state_(first_state(method_, seed)) {
  const cluster::Shape shape = {.ranks = ranks, .ranks_per_node = method_.workers_per_node};
  if (method_.is_dense()) {
    buffer_.resize(gradient.size());
    dense_.emplace(buffer_, shape, method_.all_reduce, std::move(engine));
  }
  if (!method_.low_rank) return;
  low_rank::PowerSgdOptions options = *method_.low_rank;
  options.seed = seed;
  low_rank_.emplace(tensors, options);
  for (const std::span<float> summed : {low_rank_->rest(), low_rank_->p(), low_rank_->q()})
    low_rank_sums_.emplace_back(summed, shape, method_.all_reduce, nullptr);
}

void FusionBuffer::load() {
  if (!dense_) return;
  std::ranges::copy(gradient_, buffer_.begin());
  dense_->load();
}

void FusionBuffer::store() {
  if (!dense_ || !dense_->is_elsewhere()) return;
  dense_->store();
  std::ranges::copy(buffer_, gradient_.begin());
}

void FusionBuffer::encode() {
  if (method_.between_nodes || method_.sparse == SparseKind::hitopk) return;
  if (low_rank_) low_rank_->encode(gradient_);
  if (method_.encoder != nullptr) encodings_ = {encoded(method_, gradient_, state_, feedback_)};
  if (!method_.sparse) return;
  if (method_.error_feedback) add_to(feedback_.residual, gradient_);
  if (method_.sparse == SparseKind::ok_topk) return;  // ok-topk selects in transit
  selection_ = selected(method_, gradient_);
  // with gtopk, only elements that reach the result count as sent
  if (method_.error_feedback && method_.sparse == SparseKind::topk_dsa)
    take_off(feedback_.residual, selection_.indexes);
}

void FusionBuffer::carry(Transport& transport, CollectiveKind kind) {
  if (method_.is_dense()) return carry_dense(transport, kind);
  if (method_.between_nodes) return carry_between_nodes(transport);
  if (method_.encoder != nullptr) return carry_encoded(transport, kind);
  if (low_rank_) return carry_low_rank(transport);
  carry_sparse(transport);
}

void FusionBuffer::carry_dense(Transport& transport, CollectiveKind kind) {
  if (dense_->is_elsewhere()) return dense_->run(transport, kind);
  if (kind != CollectiveKind::all_gather) std::ranges::copy(gradient_, buffer_.begin());
  dense_->run(transport, kind);
  if (kind != CollectiveKind::reduce_scatter) std::ranges::copy(buffer_, gradient_.begin());
}

void FusionBuffer::carry_encoded(Transport& transport, CollectiveKind kind) {
  if (!method_.encoder->sums()) {
    encodings_ = sparse::all_gather(
        transport, std::move(encodings_.front()),
        static_cast<std::size_t>(method_.encoder->wire_bytes(gradient_.size(), method_.density).max));
    return;
  }
  Bytes& bytes = encodings_.front();
  const std::size_t word = word_of(bytes, gradient_.size());
  if (kind != CollectiveKind::all_gather)
    sparse::reduce_scatter_encoded(transport, *method_.encoder, bytes, word);
  if (kind != CollectiveKind::reduce_scatter) sparse::all_gather_encoded(transport, bytes, word);
}

void FusionBuffer::carry_low_rank(Transport& transport) {
  const auto all_reduce = [&](Dense& dense, std::span<const float> values) {
    if (!values.empty()) dense.run(transport, CollectiveKind::all_reduce);
  };
  all_reduce(low_rank_sums_[0], low_rank_->rest());
  all_reduce(low_rank_sums_[1], low_rank_->p());
  low_rank_->factor(gradient_);
  all_reduce(low_rank_sums_[2], low_rank_->q());
}

void FusionBuffer::carry_between_nodes(Transport& transport) {
  sparse::sum_between_nodes(transport, *method_.encoder, method_.workers_per_node, gradient_, state_,
                            method_.error_feedback ? &feedback_ : nullptr);
}

void FusionBuffer::carry_sparse(Transport& transport) {
  const std::size_t elements = gradient_.size();
  const std::size_t k = compression::kept_elements(elements, method_.density);
  switch (*method_.sparse) {
    case SparseKind::topk_dsa: {
      const sparse::DsaSum sum = sparse::topk_dsa(transport, selection_, elements);
      std::ranges::copy(sum.sum, gradient_.begin());
      return;
    }
    case SparseKind::gtopk: return take_selected(sparse::gtopk(transport, selection_, elements, k));
    case SparseKind::ok_topk:
      return take_selected(sparse::ok_topk(transport, gradient_,
                                           {.k = k,
                                            .repartition_every = method_.repartition_every,
                                            .recompute_every = method_.recompute_every},
                                           ok_topk_));
    case SparseKind::hitopk: return carry_hitopk(transport);
  }
}

void FusionBuffer::take_selected(sparse::Selected selected) {
  selection_ = std::move(selected.sum);
  if (method_.error_feedback) take_off(feedback_.residual, selected.contributed);
}

/// A rank keeps the residual of its shard of the node's sum.
void FusionBuffer::carry_hitopk(Transport& transport) {
  const sparse::Range shard = sparse::hitopk_shard(transport, gradient_.size(), method_.workers_per_node);
  if (method_.error_feedback) add_to(feedback_.residual, gradient_.subspan(shard.begin, shard.size()));
  sparse::HiTopK result = sparse::hitopk(transport, gradient_, method_.workers_per_node,
                                         [&](std::span<const float> sum) { return selected(method_, sum); });
  selection_ = std::move(result.sum);
  if (method_.error_feedback) feedback_.residual = std::move(result.rest);
}

void FusionBuffer::decode() {
  if (method_.sparse && method_.sparse != SparseKind::topk_dsa) scatter(selection_, gradient_);
  if (low_rank_) low_rank_->decode(gradient_, ranks_);
  if (method_.encoder == nullptr || method_.between_nodes) return;
  std::ranges::fill(gradient_, 0.0F);
  for (const Bytes& encoding : encodings_) method_.encoder->add_decoded(encoding, gradient_);
}

std::span<float> FusionBuffer::own_part(std::uint32_t rank) {
  const measure::Part part = measure::own_part(gradient_.size(), ranks_, rank);
  return std::span(buffer_).subspan(part.begin, part.end - part.begin);
}

std::size_t FusionBuffer::encoded_bytes() const {
  if (method_.encoder != nullptr) return encodings_.empty() ? 0 : encodings_.front().size();
  if (method_.sparse) return selection_.indexes.size() * compression::kBytesPerKept;
  if (low_rank_) return low_rank_->sent_elements() * sizeof(float);
  return gradient_.size() * sizeof(float);
}

Expected::Expected(const Method& method, const Gradients& gradients, std::size_t first, std::size_t elements,
                   std::uint64_t seed, std::span<const low_rank::Matrix> tensors)
    : gradients_(gradients), method_(method), first_(first), elements_(elements) {
  if (method_.is_dense()) return;
  sampled_.assign(gradients.ranks(), std::vector<float>(elements));
  states_.assign(gradients.ranks(), first_state(method_, seed));
  left_.resize(gradients.ranks());
  const bool runs_again =
      method_.low_rank || method_.sparse == SparseKind::gtopk || method_.sparse == SparseKind::ok_topk;
  if (!runs_again) return;
  for (std::vector<float>& each : sampled_)
    fusion_buffers_.push_back(
        std::make_unique<FusionBuffer>(method_, each, gradients.ranks(), seed, tensors));
}

std::string Expected::fault(std::uint32_t iteration, std::span<const float> result) {
  if (method_.is_dense()) return gradients_.fault_of_sums(method_.spread(), iteration, first_, result);
  for (std::uint32_t rank = 0; rank < gradients_.ranks(); ++rank)
    gradients_.fill(method_.spread(), rank, iteration, first_, sampled_[rank]);
  if (!fusion_buffers_.empty()) return first_difference(result, between_threads());
  const bool has_nodes = method_.between_nodes || method_.sparse == SparseKind::hitopk;
  return first_difference(result, has_nodes ? of_nodes() : of_encodings());
}

std::vector<float> Expected::of_encodings() {
  if (method_.encoder != nullptr && method_.encoder->sums()) {
    // encodings are exact, and so are their sums
    std::vector<float> sum(elements_);
    for (const std::vector<float>& each : sampled_)
      for (std::size_t i = 0; i < elements_; ++i) sum[i] += each[i];
    return sum;
  }
  std::vector<float> sum(elements_);
  for (std::uint32_t rank = 0; rank < sampled_.size(); ++rank) add_kept(rank, sampled_[rank], sum);
  return sum;
}

/// Adds the rank's encoding or selection of these values to the sum; with error feedback, the rest becomes
/// the residual.
void Expected::add_kept(std::uint32_t rank, std::span<const float> values, std::span<float> sum) {
  if (method_.encoder != nullptr)
    return method_.encoder->add_decoded(encoded(method_, values, states_[rank], left_[rank]), sum);
  std::vector<float> all(values.begin(), values.end());
  if (method_.error_feedback) add_to(left_[rank].residual, all);
  const SparseVector kept = selected(method_, all);
  for (std::size_t i = 0; i < kept.indexes.size(); ++i) sum[kept.indexes[i]] += kept.values[i];
  if (method_.error_feedback) take_off(left_[rank].residual, kept.indexes);
}

/// Each worker of a node encodes its part of the node's sum; the encodings are summed over nodes. The values
/// are integers, so a node's sum is exact in any order.
std::vector<float> Expected::of_nodes() {
  const std::uint32_t workers = method_.workers_per_node;
  std::vector<float> sum(elements_);
  for (std::uint32_t rank = 0; rank < sampled_.size(); ++rank) {  // visits nodes in order
    const sparse::Range range = {sparse::part_begin(elements_, rank % workers, workers),
                                 sparse::part_begin(elements_, rank % workers + 1, workers)};
    std::vector<float> part(range.size());
    for (std::uint32_t of = rank / workers * workers; of < (rank / workers + 1) * workers; ++of)
      for (std::size_t i = 0; i < part.size(); ++i) part[i] += sampled_[of][range.begin + i];
    add_kept(rank, part, std::span(sum).subspan(range.begin, range.size()));
  }
  return sum;
}

std::vector<float> Expected::between_threads() {
  transport::run_ranks(gradients_.ranks(), [&](Transport& transport) {
    FusionBuffer& fusion_buffer = *fusion_buffers_[transport.rank()];
    fusion_buffer.encode();
    fusion_buffer.carry(transport, CollectiveKind::all_reduce);
    fusion_buffer.decode();
  });
  return sampled_[0];
}

}  // namespace live
