// attention: softmax(q k' / sqrt(features of a head)) v, one head of a sample after another.

#include "profiler/layers/attention.hpp"
#include "profiler/layers/cpu/kernels/arrays.hpp"

namespace profiler::cpu {
namespace {

/// The location of q, k or v of one head of one sample, as a matrix in its input.
struct Place {
  std::size_t input;
  std::int64_t begin;
  std::int64_t stride;
};

enum Role : std::uint8_t { query, key, value };

Place place(const AttentionSizes& s, std::int64_t sample, std::int64_t head, Role role) {
  const std::int64_t row = s.heads * s.features;
  if (s.is_packed)
    return {.input = 0,
            .begin = sample * s.queries * 3 * row + static_cast<std::int64_t>(role) * row + head * s.features,
            .stride = 3 * row};
  if (role == query)
    return {.input = 0, .begin = sample * s.queries * row + head * s.features, .stride = row};
  const std::int64_t shared_row = s.key_value_heads * s.features;
  return {.input = static_cast<std::size_t>(role),
          .begin = sample * s.keys * shared_row + head / s.sharing() * s.features,
          .stride = shared_row};
}

/// Turns scores into weights that add up to 1 in each row.
void softmax(const AttentionSizes& s, float* scores) {
  for (std::int64_t row = 0; row < s.queries; ++row) {
    const std::int64_t seen = s.is_causal ? row + 1 : s.keys;
    Array all = array(scores + row * s.keys, s.keys);
    auto visible = all.head(seen);
    const float max = visible.maxCoeff();
    visible = ((visible - max) * s.scale()).exp();
    visible *= 1 / visible.sum();
    all.tail(s.keys - seen).setZero();
  }
}

/// Returns the weights as they were multiplied with v, after dropout.
const float* dropped(const Pass& pass, const AttentionSizes& s, std::int64_t piece, float* room) {
  const float* weights = pass.kept + piece * s.scores();
  if (s.dropout <= 0) return weights;
  dropout_factors(pass.seed, piece * s.scores(), s.scores(), s.dropout, room);
  array(room, s.scores()) *= array(weights, s.scores());
  return room;
}

float* scratch(const Pass& pass, const AttentionSizes& s, int thread) {
  return pass.scratch + 2 * s.scores() * thread;
}

void forward_head(const Pass& pass, const AttentionSizes& s, std::int64_t piece, int thread) {
  const std::int64_t sample = piece / s.heads;
  const std::int64_t head = piece % s.heads;
  const auto at = [&](Role role) { return place(s, sample, head, role); };
  const auto data = [&](Role role) { return pass.inputs[at(role).input] + at(role).begin; };
  float* weights = pass.kept + piece * s.scores();
  pass.product({.a = data(query),
                .a_stride = at(query).stride,
                .b = data(key),
                .b_stride = at(key).stride,
                .c = weights,
                .c_stride = s.keys,
                .rows = s.queries,
                .columns = s.keys,
                .inner = s.features,
                .b_transposed = true});
  softmax(s, weights);
  const std::int64_t row = s.heads * s.features;
  pass.product({.a = dropped(pass, s, piece, scratch(pass, s, thread)),
                .a_stride = s.keys,
                .b = data(value),
                .b_stride = at(value).stride,
                .c = pass.output + sample * s.queries * row + head * s.features,
                .c_stride = row,
                .rows = s.queries,
                .columns = s.features,
                .inner = s.keys});
}

/// Turns the gradient of the dropped weights into that of the scores, in place.
void softmax_back(const Pass& pass, const AttentionSizes& s, std::int64_t piece, float* gradient,
                  float* room) {
  if (s.dropout > 0) {
    dropout_factors(pass.seed, piece * s.scores(), s.scores(), s.dropout, room);
    array(gradient, s.scores()) *= array(room, s.scores());
  }
  for (std::int64_t row = 0; row < s.queries; ++row) {
    Array slope = array(gradient + row * s.keys, s.keys);
    const ConstArray weights =
        array(static_cast<const float*>(pass.kept) + piece * s.scores() + row * s.keys, s.keys);
    const float along = (slope * weights).sum();
    slope = (slope - along) * weights * s.scale();
  }
}

void backward_head(const Pass& pass, const AttentionSizes& s, std::int64_t piece, int thread) {
  const std::int64_t sample = piece / s.heads;
  const std::int64_t head = piece % s.heads;
  const auto at = [&](Role role) { return place(s, sample, head, role); };
  const auto data = [&](Role role) { return pass.inputs[at(role).input] + at(role).begin; };
  const auto room = [&](Role role) { return pass.input_gradients[at(role).input]; };
  const auto wants = [&](Role role) { return room(role).data != nullptr; };
  // Heads that share k and v come one after another, on one thread.
  const auto adds = [&](Role role) { return room(role).add || head % s.sharing() != 0; };
  const std::int64_t row = s.heads * s.features;
  const float* given = pass.output_gradient + sample * s.queries * row + head * s.features;
  float* slope = scratch(pass, s, thread);
  float* spare = slope + s.scores();
  if (wants(value))
    pass.product({.a = dropped(pass, s, piece, spare),
                  .a_stride = s.keys,
                  .b = given,
                  .b_stride = row,
                  .c = room(value).data + at(value).begin,
                  .c_stride = at(value).stride,
                  .rows = s.keys,
                  .columns = s.features,
                  .inner = s.queries,
                  .a_transposed = true,
                  .add = adds(value)});
  pass.product({.a = given,
                .a_stride = row,
                .b = data(value),
                .b_stride = at(value).stride,
                .c = slope,
                .c_stride = s.keys,
                .rows = s.queries,
                .columns = s.keys,
                .inner = s.features,
                .b_transposed = true});
  softmax_back(pass, s, piece, slope, spare);
  if (wants(query))
    pass.product({.a = slope,
                  .a_stride = s.keys,
                  .b = data(key),
                  .b_stride = at(key).stride,
                  .c = room(query).data + at(query).begin,
                  .c_stride = at(query).stride,
                  .rows = s.queries,
                  .columns = s.features,
                  .inner = s.keys,
                  .add = room(query).add});
  if (wants(key))
    pass.product({.a = slope,
                  .a_stride = s.keys,
                  .b = data(query),
                  .b_stride = at(query).stride,
                  .c = room(key).data + at(key).begin,
                  .c_stride = at(key).stride,
                  .rows = s.keys,
                  .columns = s.features,
                  .inner = s.queries,
                  .a_transposed = true,
                  .add = adds(key)});
}

}  // namespace

KernelRoom attention_room(const LayerWork& work, double batch, int threads) {
  const AttentionSizes s = attention_sizes(work);
  const double scores = static_cast<double>(s.queries) * static_cast<double>(s.keys);
  return {.kept = batch * static_cast<double>(s.heads) * scores, .scratch = 2 * scores * threads};
}

void attention_forward(const Pass& pass) {
  const AttentionSizes s = attention_sizes(*pass.work);
  pass.pool->run(pass.batch * s.heads,
                 [&](std::int64_t piece, int thread) { forward_head(pass, s, piece, thread); });
}

void attention_backward(const Pass& pass) {
  const AttentionSizes s = attention_sizes(*pass.work);
  pass.pool->run(pass.batch * s.key_value_heads, [&](std::int64_t shared, int thread) {
    for (std::int64_t i = 0; i < s.sharing(); ++i) backward_head(pass, s, shared * s.sharing() + i, thread);
  });
}

}  // namespace profiler::cpu
