#include "training/aggregate.hpp"

#include <algorithm>

#include "compression/select.hpp"
#include "sparse/collectives.hpp"
#include "sparse/gather.hpp"
#include "sparse/hitopk.hpp"
#include "sparse/ring.hpp"
#include "transport/bytes.hpp"

namespace training {
namespace {

using compression::Compressor;
using compression::SparseVector;
using transport::Bytes;
using transport::Transport;
using Floats = std::vector<float>;
using Options = AggregateOptions;
using State = AggregateState;

// ---- dense and encoded

std::size_t non_zeros(std::span<const float> x) {
  return x.size() - static_cast<std::size_t>(std::ranges::count(x, 0.0F));
}

Selected dense(const Method& /*method*/, Transport& transport, const Options& /*options*/, State& /*state*/,
               Floats& gradient) {
  sparse::ring_all_reduce(transport, std::span(gradient));
  return {.local = gradient.size(), .global = non_zeros(gradient)};
}

/// Encodings of `word` bytes an element, cut at elements.
std::span<std::byte> part_of(std::span<std::byte> bytes, std::size_t word, std::size_t part,
                             std::size_t parts) {
  const std::size_t elements = bytes.size() / word;
  const std::size_t begin = sparse::part_begin(elements, part, parts);
  return bytes.subspan(begin * word, (sparse::part_begin(elements, part + 1, parts) - begin) * word);
}

/// A ring all-reduce as sparse::ring_all_reduce(), of encodings that can be summed.
void all_reduce_encoded(Transport& transport, const Compressor& compressor, std::span<std::byte> bytes,
                        std::size_t word) {
  constexpr std::uint32_t kTag = 100;
  const std::size_t size = transport.size();
  const std::size_t rank = transport.rank();
  const auto next = static_cast<std::uint32_t>((rank + 1) % size);
  const auto before = static_cast<std::uint32_t>((rank + size - 1) % size);
  const auto part = [&](std::size_t i) { return part_of(bytes, word, i % size, size); };
  const auto pass_on = [&](std::size_t i) {
    const std::span<const std::byte> out = part(i);
    return send_recv(transport, next, Bytes(out.begin(), out.end()), before, kTag);
  };
  for (std::size_t step = 1; step < size; ++step)
    compressor.sum(part(rank + 2 * size - step - 1), pass_on(rank + size - step));
  for (std::size_t step = 1; step < size; ++step)
    std::ranges::copy(pass_on(rank + size - step + 1), part(rank + size - step).begin());
}

/// An encoding that chooses is empty where nothing is to be kept; others hold all elements.
std::size_t elements_in(const Compressor& compressor, const Bytes& bytes, std::size_t elements) {
  const bool chooses = compressor.wire_bytes(elements, 0).most == 0;
  return chooses ? bytes.size() / compression::kBytesPerKept : elements;
}

Selected encoded(const Method& method, Transport& transport, const Options& options, State& state,
                 Floats& gradient) {
  const Compressor& compressor = *compression::find_compressor(method.name);
  Bytes bytes = options.error_feedback
                    ? compression::encode(compressor, gradient, state.compressor, state.feedback)
                    : compressor.encode(gradient, state.compressor);
  const std::size_t local = elements_in(compressor, bytes, gradient.size());
  std::ranges::fill(gradient, 0.0F);
  if (compressor.sums()) {
    all_reduce_encoded(transport, compressor, bytes,
                       bytes.size() / std::max<std::size_t>(gradient.size(), 1));
    compressor.add_decoded(bytes, gradient);
  } else {
    for (const Bytes& each : sparse::all_gather(transport, std::move(bytes)))
      compressor.add_decoded(each, gradient);
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
  return scatter(sparse::topk_a(transport, own, gradient.size()), own.indexes.size(), gradient);
}

Selected topk_dsa(const Method& /*method*/, Transport& transport, const Options& options, State& state,
                  Floats& gradient) {
  add_left(options, state, gradient);
  const std::size_t k = compression::kept_elements(gradient.size(), options.density);
  const SparseVector own = compression::top_k(gradient, k);
  keep(options, state, gradient, own.indexes);
  sparse::DsaSum result = sparse::topk_dsa(transport, own, gradient.size());
  gradient = std::move(result.sum);
  return {.local = own.indexes.size(), .global = result.non_zeros};
}

Selected gtopk(const Method& /*method*/, Transport& transport, const Options& options, State& state,
               Floats& gradient) {
  add_left(options, state, gradient);
  const std::size_t k = compression::kept_elements(gradient.size(), options.density);
  const SparseVector own = compression::top_k(gradient, k);
  const sparse::Selected result = sparse::gtopk(transport, own, gradient.size(), k);
  keep(options, state, gradient, result.contributed);
  return scatter(result.sum, own.indexes.size(), gradient);
}

Selected ok_topk(const Method& /*method*/, Transport& transport, const Options& options, State& state,
                 Floats& gradient) {
  add_left(options, state, gradient);
  const sparse::OkTopkOptions ok = {.k = compression::kept_elements(gradient.size(), options.density),
                                    .repartition_every = options.repartition_every,
                                    .recompute_every = options.recompute_every};
  const sparse::Selected result = sparse::ok_topk(transport, gradient, ok, state.ok_topk);
  keep(options, state, gradient, result.contributed);
  const std::size_t local = compression::count_at_least(gradient, state.ok_topk.local_threshold);
  return scatter(result.sum, local, gradient);
}

/// A rank keeps what its shard of the node's sum has left, so that each element is kept once in a node.
Selected hitopk(const Method& /*method*/, Transport& transport, const Options& options, State& state,
                Floats& gradient) {
  add_left(options, state, gradient);
  std::size_t local = 0;
  const sparse::HiTopK result =
      sparse::hitopk(transport, gradient, options.workers_per_node, [&](std::span<const float> shard) {
        local = compression::kept_elements(shard.size(), options.density);
        return compression::top_k(shard, local);
      });
  if (options.error_feedback) {
    std::ranges::fill(state.feedback.residual, 0.0F);
    std::ranges::copy(result.rest,
                      state.feedback.residual.begin() + static_cast<std::ptrdiff_t>(result.shard.begin));
  }
  return scatter(result.sum, local, gradient);
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

AggregateState initial_state(const AggregateOptions& options) {
  AggregateState state;
  state.compressor.density = options.density;
  state.compressor.seed = options.seed;
  state.compressor.reused.recompute_every = static_cast<std::uint32_t>(options.recompute_every);
  return state;
}

}  // namespace training
