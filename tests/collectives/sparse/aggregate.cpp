#include "tests/collectives/sparse/aggregate.hpp"

#include <algorithm>

#include "collectives/compression/select.hpp"
#include "collectives/sparse/between_nodes.hpp"
#include "collectives/sparse/collectives.hpp"
#include "collectives/sparse/gather.hpp"
#include "collectives/sparse/hitopk.hpp"
#include "collectives/sparse/ring.hpp"
#include "collectives/transport/bytes.hpp"

namespace aggregate {
namespace {

using compression::Compressor;
using compression::SparseVector;
using transport::Bytes;
using transport::Transport;
using Floats = std::vector<float>;

// ---- dense and encoded

std::size_t non_zeros(std::span<const float> x) {
  return x.size() - static_cast<std::size_t>(std::ranges::count(x, 0.0F));
}

Selected dense(const Method& /*method*/, Transport& transport, const Options& /*options*/, State& /*state*/,
               Floats& gradient) {
  sparse::ring_all_reduce(transport, std::span(gradient));
  return {.local = gradient.size(), .global = non_zeros(gradient)};
}

/// An encoding that chooses is empty where nothing is to be kept; others hold all elements.
std::size_t elements_in(const Compressor& compressor, const Bytes& bytes, std::size_t elements) {
  const bool chooses = compressor.wire_bytes(elements, 0).max == 0;
  return chooses ? bytes.size() / compression::kBytesPerKept : elements;
}

Selected encoded(const Method& method, Transport& transport, const Options& options, State& state,
                 Floats& gradient) {
  const Compressor& compressor = *compression::find_compressor(method.name);
  Bytes bytes = options.error_feedback
                    ? compression::encode(compressor, gradient, state.compressor, state.feedback)
                    : compressor.encode(gradient, state.compressor);
  const std::size_t local = elements_in(compressor, bytes, gradient.size());
  if (compressor.sums()) {
    const std::size_t elements = gradient.size();
    Floats().swap(gradient);  // while half of a gradient travels and as much waits
    sparse::all_reduce_encoded(transport, compressor, bytes,
                               bytes.size() / std::max<std::size_t>(elements, 1));
    gradient.resize(elements);
    compressor.add_decoded(bytes, gradient);
  } else {
    std::ranges::fill(gradient, 0.0F);
    const auto max =
        static_cast<std::size_t>(compressor.wire_bytes(gradient.size(), state.compressor.density).max);
    sparse::all_gather_within(
        transport, std::move(bytes), max, gradient.size() * sizeof(float) / 2,
        [&](std::span<const std::byte> each) { compressor.add_decoded(each, gradient); });
  }
  return {.local = local, .global = non_zeros(gradient)};
}

// ---- sparse collectives

/// Adds what has been left before; what is left after must be told by keep().
void add_left(const Options& options, State& state, Floats& gradient) {
  if (!options.error_feedback) return;
  state.feedback.residual.resize(gradient.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += state.feedback.residual[i];
}

/// All but the elements that have been sent.
void keep(const Options& options, State& state, const Floats& gradient, std::span<const std::uint32_t> sent) {
  if (!options.error_feedback) return;
  state.feedback.residual = gradient;
  for (const std::uint32_t i : sent) state.feedback.residual[i] = 0;
}

Selected scatter(const SparseVector& sum, std::size_t local, Floats& gradient) {
  std::ranges::fill(gradient, 0.0F);
  for (std::size_t i = 0; i < sum.indexes.size(); ++i) gradient[sum.indexes[i]] = sum.values[i];
  return {.local = local, .global = sum.indexes.size()};
}

Selected topk_a(const Method& /*method*/, Transport& transport, const Options& options, State& state,
                Floats& gradient) {
  add_left(options, state, gradient);
  const std::size_t k = compression::kept_elements(gradient.size(), options.density);
  const SparseVector own = compression::top_k(gradient, k);
  keep(options, state, gradient, own.indexes);
  const std::size_t global = sparse::topk_a(transport, own, k, std::span(gradient));
  return {.local = own.indexes.size(), .global = global};
}

Selected topk_dsa(const Method& /*method*/, Transport& transport, const Options& options, State& state,
                  Floats& gradient) {
  add_left(options, state, gradient);
  const std::size_t k = compression::kept_elements(gradient.size(), options.density);
  const SparseVector own = compression::top_k(gradient, k);
  keep(options, state, gradient, own.indexes);
  const std::size_t global = sparse::topk_dsa(transport, own, std::span(gradient));
  return {.local = own.indexes.size(), .global = global};
}

Selected gtopk(const Method& /*method*/, Transport& transport, const Options& options, State& state,
               Floats& gradient) {
  add_left(options, state, gradient);
  const std::size_t k = compression::kept_elements(gradient.size(), options.density);
  SparseVector own = compression::top_k(gradient, k);
  const std::size_t local = own.indexes.size();
  const sparse::Selected result =
      sparse::gtopk(transport, std::move(own), gradient.size(), k, sparse::Sending::when_asked);
  keep(options, state, gradient, result.contributed);
  return scatter(result.sum, local, gradient);
}

Selected ok_topk(const Method& /*method*/, Transport& transport, const Options& options, State& state,
                 Floats& gradient) {
  const sparse::OkTopkOptions ok = {.k = compression::kept_elements(gradient.size(), options.density),
                                    .repartition_every = options.repartition_every,
                                    .recompute_every = options.recompute_every,
                                    .asks_first = true};
  // what was left and the gradient make what is left: the gradient's own place is free for the sum
  std::vector<float> nowhere;
  std::vector<float>& left = options.error_feedback ? state.feedback.residual : nowhere;
  left.resize(gradient.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) left[i] += gradient[i];
  const sparse::OkTopkCounts counts =
      sparse::ok_topk(transport, std::span(left), std::span(gradient), ok, state.ok_topk);
  return {.local = counts.local, .global = counts.global};
}

/// A rank keeps what its shard of the node's sum has left, so that each element is kept once in a node, and
/// nothing else.
Selected hitopk(const Method& /*method*/, Transport& transport, const Options& options, State& state,
                Floats& gradient) {
  const sparse::Range shard = sparse::hitopk_shard(transport, gradient.size(), options.workers_per_node);
  std::vector<float> nowhere;
  std::vector<float>& left = options.error_feedback ? state.feedback.residual : nowhere;
  left.resize(shard.size());
  // what has been left before is in the gradient then, and its place is free
  for (std::size_t i = 0; i < shard.size(); ++i) gradient[shard.begin + i] += left[i];
  const std::size_t k = compression::kept_elements(shard.size(), options.density);
  const std::size_t max =
      compression::kept_elements(gradient.size() / options.workers_per_node + 1, options.density);
  const std::size_t global = sparse::hitopk(
      transport, std::span(gradient), {.workers_per_node = options.workers_per_node, .max = max},
      [&](std::span<const float> sum) { return compression::top_k(sum, k); }, left);
  return {.local = k, .global = global};
}

std::vector<Method> all_methods() {
  std::vector<Method> out = {{"dense", "all-reduce", dense}};
  for (const Compressor& compressor : compression::compressors())
    out.push_back({compressor.name, compressor.sums() ? "all-reduce" : "all-gather", encoded});
  out.insert(out.end(), {{"topk-a", "sparse collective", topk_a},
                         {"topk-dsa", "sparse collective", topk_dsa},
                         {"gtopk", "sparse collective", gtopk},
                         {"ok-topk", "sparse collective", ok_topk},
                         {"hitopk", "sparse collective", hitopk}});
  return out;
}

}  // namespace

std::span<const Method> methods() {
  static const std::vector<Method> all = all_methods();
  return all;
}

const Method* find_method(std::string_view name) {
  const auto found = std::ranges::find(methods(), name, &Method::name);
  return found == methods().end() ? nullptr : &*found;
}

State initial_state(const Options& options) {
  State state;
  state.compressor.density = options.density;
  state.compressor.seed = options.seed;
  state.compressor.reused.recompute_every = static_cast<std::uint32_t>(options.recompute_every);
  return state;
}

}  // namespace aggregate
