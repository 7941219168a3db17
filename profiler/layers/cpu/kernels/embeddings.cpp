// Embeddings of tokens and positions as features.

#include <cmath>

#include "profiler/layers/cpu/kernels/arrays.hpp"

namespace profiler::cpu {
namespace {

const core::Embedding& table(const Pass& pass) { return pass.as<core::Embedding>(); }

float scale(const Pass& pass) {
  return table(pass).scaled ? std::sqrt(static_cast<float>(table(pass).features)) : 1.0F;
}

void zero_unless_added(const Pass& pass, const GradientRoom& room) {
  if (!room.add)
    each_element(pass, table(pass).entries * table(pass).features,
                 [&](std::int64_t begin, std::int64_t count) { array(room.data + begin, count).setZero(); });
}

struct Sequence {
  std::int64_t length;
  std::int64_t features;
};

Sequence sequence(const Pass& pass) { return {.length = pass.out()[0], .features = pass.out()[1]}; }

/// rotary: the first half of a head's features is rotated with the second.
struct RotarySizes {
  std::int64_t heads;
  std::int64_t pairs;  ///< of a head
};

RotarySizes turn(const LayerWork& work) {
  const std::int64_t heads = std::get<core::Rotary>(work.layer->parameters).heads;
  return {.heads = heads, .pairs = work.layer->output[1] / heads / 2};
}

/// Rotates every pair of every position by its angle, or back.
template <typename Put>
void rotate(const Pass& pass, const float* from, float direction, const Put& put_at) {
  const auto [length, features] = sequence(pass);
  const auto [heads, pairs] = turn(*pass.work);
  constexpr std::int64_t kGrain = 4;
  run_ranges(*pass.pool, pass.batch * length, kGrain,
             [&, length = length, features = features, heads = heads, pairs = pairs](std::int64_t begin,
                                                                                     std::int64_t end, int) {
               for (std::int64_t row = begin; row < end; ++row) {
                 const float* angles = pass.kept + row % length * 2 * pairs;
                 const ConstArray cosine = array(angles, pairs);
                 const ConstArray sine = array(angles + pairs, pairs);
                 for (std::int64_t head = 0; head < heads; ++head) {
                   const std::int64_t at = row * features + head * 2 * pairs;
                   const ConstArray x = array(from + at, pairs);
                   const ConstArray y = array(from + at + pairs, pairs);
                   put_at(at, pairs, x * cosine - direction * y * sine);
                   put_at(at + pairs, pairs, y * cosine + direction * x * sine);
                 }
               }
             });
}

}  // namespace

void embedding_forward(const Pass& pass) {
  const std::int64_t features = table(pass).features;
  const float factor = scale(pass);
  constexpr std::int64_t kGrain = 16;
  run_ranges(*pass.pool, pass.in_count(), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i)
      array(pass.output + i * features, features) =
          factor * array(pass.weights[0] + pass.tokens[i] * features, features);
  });
}

/// Each thread has its own range of features, because two positions may hold the same token.
void embedding_backward(const Pass& pass) {
  const GradientRoom& room = pass.weight_gradients[0];
  const std::int64_t features = table(pass).features;
  const float factor = scale(pass);
  zero_unless_added(pass, room);
  constexpr std::int64_t kGrain = 64;
  run_ranges(*pass.pool, features, kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = 0; i < pass.in_count(); ++i)
      array(room.data + pass.tokens[i] * features + begin, end - begin) +=
          factor * array(pass.output_gradient + i * features + begin, end - begin);
  });
}

void position_embedding_forward(const Pass& pass) {
  const std::int64_t count = core::element_count(pass.out());
  for (std::int64_t sample = 0; sample < pass.batch; ++sample)
    array(pass.output + sample * count, count) = array(pass.weights[0], count);
}

void position_embedding_backward(const Pass& pass) {
  const GradientRoom& room = pass.weight_gradients[0];
  const std::int64_t count = core::element_count(pass.out());
  zero_unless_added(pass, room);
  each_element(pass, count, [&](std::int64_t begin, std::int64_t elements) {
    for (std::int64_t sample = 0; sample < pass.batch; ++sample)
      array(room.data + begin, elements) += array(pass.output_gradient + sample * count + begin, elements);
  });
}

KernelRoom positional_encoding_room(const LayerWork& work, double /*batch*/, int /*threads*/) {
  return {.kept = static_cast<double>(core::element_count(work.layer->output))};
}

/// Alternating sines and cosines of angles that decrease with the feature.
void positional_encoding_prepare(const Pass& pass) {
  constexpr double kBase = 10'000;
  const auto [length, features] = sequence(pass);
  for (std::int64_t at = 0; at < length; ++at)
    for (std::int64_t i = 0; i < features; ++i) {
      const auto pair = static_cast<double>(i / 2 * 2);
      const double angle = static_cast<double>(at) * std::pow(kBase, -pair / static_cast<double>(features));
      pass.kept[at * features + i] = static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
}

void positional_encoding_forward(const Pass& pass) {
  const std::int64_t count = core::element_count(pass.out());
  for (std::int64_t sample = 0; sample < pass.batch; ++sample)
    each_element(pass, count, [&](std::int64_t begin, std::int64_t elements) {
      const std::int64_t at = sample * count + begin;
      array(pass.output + at, elements) =
          array(pass.inputs[0] + at, elements) + array(pass.kept + begin, elements);
    });
}

void positional_encoding_backward(const Pass& pass) {
  const GradientRoom& room = pass.input_gradients[0];
  if (room.data == nullptr) return;
  each_element(pass, pass.out_count(), [&](std::int64_t begin, std::int64_t elements) {
    put(room, begin, elements, array(pass.output_gradient + begin, elements));
  });
}

KernelRoom rotary_room(const LayerWork& work, double /*batch*/, int /*threads*/) {
  return {.kept = 2 * static_cast<double>(work.layer->output[0]) * static_cast<double>(turn(work).pairs)};
}

void rotary_prepare(const Pass& pass) {
  const double base = pass.as<core::Rotary>().base;
  const std::int64_t pairs = turn(*pass.work).pairs;
  for (std::int64_t at = 0; at < pass.out()[0]; ++at)
    for (std::int64_t i = 0; i < pairs; ++i) {
      const double angle =
          static_cast<double>(at) * std::pow(base, -static_cast<double>(i) / static_cast<double>(pairs));
      pass.kept[at * 2 * pairs + i] = static_cast<float>(std::cos(angle));
      pass.kept[at * 2 * pairs + pairs + i] = static_cast<float>(std::sin(angle));
    }
}

void rotary_forward(const Pass& pass) {
  rotate(pass, pass.inputs[0], 1, [&](std::int64_t at, std::int64_t count, const auto& expression) {
    array(pass.output + at, count) = expression;
  });
}

void rotary_backward(const Pass& pass) {
  const GradientRoom& room = pass.input_gradients[0];
  if (room.data == nullptr) return;
  rotate(pass, pass.output_gradient, -1, [&](std::int64_t at, std::int64_t count, const auto& expression) {
    put(room, at, count, expression);
  });
}

}  // namespace profiler::cpu
