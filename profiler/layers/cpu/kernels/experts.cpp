// experts: each position is computed by the experts that score highest, weighted by the softmax of their
// scores. The chosen positions are gathered expert by expert, so that an expert's products are dense.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "profiler/layers/cpu/kernels/arrays.hpp"

namespace profiler::cpu {
namespace {

struct Sizes {
  std::int64_t rows;
  std::int64_t features;
  std::int64_t hidden;
  std::int64_t experts;
  std::int64_t chosen;  ///< by each row

  std::int64_t choices() const { return rows * chosen; }
};

Sizes sizes(const LayerWork& work, std::int64_t batch) {
  const auto& experts = std::get<core::Experts>(work.layer->parameters);
  const core::Shape& in = work.inputs[0].shape;
  return {.rows = batch * in[0],
          .features = in[1],
          .hidden = experts.hidden,
          .experts = experts.experts,
          .chosen = experts.chosen};
}

/// What forward stores for backward, row by row (expert, weight) or gathered by expert.
struct Kept {
  float* expert;
  float* weight;
  float* input;
  float* gate;
  float* up;
  float* hidden;
  float* output;
};

Kept kept_of(const Pass& pass, const Sizes& s) {
  float* at = pass.kept;
  const auto next = [&](std::int64_t count) { return std::exchange(at, at + count); };
  return {.expert = next(s.choices()),
          .weight = next(s.choices()),
          .input = next(s.choices() * s.features),
          .gate = next(s.choices() * s.hidden),
          .up = next(s.choices() * s.hidden),
          .hidden = next(s.choices() * s.hidden),
          .output = next(s.choices() * s.features)};
}

/// Where the choices lie once they are gathered.
struct Gathered {
  std::vector<std::int64_t> place;   ///< of each choice
  std::vector<std::int64_t> begins;  ///< of each expert's choices, and their number
};

Gathered gather(const Sizes& s, const float* expert) {
  Gathered out = {.place = std::vector<std::int64_t>(static_cast<std::size_t>(s.choices())),
                  .begins = std::vector<std::int64_t>(static_cast<std::size_t>(s.experts) + 1)};
  const auto expert_of = [&](std::size_t choice) { return static_cast<std::size_t>(expert[choice]); };
  for (std::size_t i = 0; i < out.place.size(); ++i) ++out.begins[expert_of(i) + 1];
  std::partial_sum(out.begins.begin(), out.begins.end(), out.begins.begin());
  std::vector<std::int64_t> next = out.begins;
  for (std::size_t i = 0; i < out.place.size(); ++i) out.place[i] = next[expert_of(i)]++;
  return out;
}

/// Stores a row's experts with the highest scores, the first of equal ones, and the softmax of these scores.
void choose(const Sizes& s, const float* scores, float* expert, float* weight) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(s.experts));
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(
      order.begin(), order.begin() + s.chosen, order.end(),
      [&](std::int64_t a, std::int64_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  for (std::int64_t i = 0; i < s.chosen; ++i) {
    const std::int64_t at = order[static_cast<std::size_t>(i)];
    expert[i] = static_cast<float>(at);
    weight[i] = std::exp(scores[at] - scores[order.front()]);
  }
  array(weight, s.chosen) /= array(weight, s.chosen).sum();
}

/// Calls work(choice, place) for each choice of each row; a row stays on one thread.
template <typename Work>
void each_choice(const Pass& pass, const Sizes& s, const Gathered& gathered, const Work& work) {
  run_ranges(*pass.pool, s.rows, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin * s.chosen; i < end * s.chosen; ++i)
      work(i, gathered.place[static_cast<std::size_t>(i)]);
  });
}

/// Calls work(expert, first place, places) for each expert.
template <typename Work>
void each_expert(const Sizes& s, const Gathered& gathered, const Work& work) {
  for (std::size_t e = 0; e < static_cast<std::size_t>(s.experts); ++e)
    work(static_cast<std::int64_t>(e), gathered.begins[e], gathered.begins[e + 1] - gathered.begins[e]);
}

/// c = a w', for an expert's matrix of out x in.
void apply(const Pass& pass, const float* a, const float* w, float* c, std::int64_t rows, std::int64_t in,
           std::int64_t out) {
  run_product(pass, {.a = a,
                     .a_stride = in,
                     .b = w,
                     .b_stride = in,
                     .c = c,
                     .c_stride = out,
                     .rows = rows,
                     .columns = out,
                     .inner = in,
                     .b_transposed = true});
}

/// The gradient of a in c = a w'.
void to_input(const Pass& pass, const float* c, const float* w, float* a, std::int64_t rows, std::int64_t in,
              std::int64_t out, bool add) {
  run_product(pass, {.a = c,
                     .a_stride = out,
                     .b = w,
                     .b_stride = in,
                     .c = a,
                     .c_stride = in,
                     .rows = rows,
                     .columns = in,
                     .inner = out,
                     .add = add});
}

/// The gradient of w in c = a w', 0 of an expert that nobody chose.
void to_weight(const Pass& pass, const float* c, const float* a, GradientRoom room, std::int64_t rows,
               std::int64_t in, std::int64_t out) {
  if (rows == 0) {
    if (!room.add) array(room.data, in * out).setZero();
    return;
  }
  run_product(pass, {.a = c,
                     .a_stride = out,
                     .b = a,
                     .b_stride = in,
                     .c = room.data,
                     .c_stride = in,
                     .rows = out,
                     .columns = in,
                     .inner = rows,
                     .a_transposed = true,
                     .add = room.add});
}

GradientRoom weight_room(const Pass& pass, std::size_t weight, std::int64_t expert, std::int64_t size) {
  const GradientRoom& whole = pass.weight_gradients[weight];
  return {.data = whole.data + expert * size, .add = whole.add};
}

/// Writes the scores' gradient, and the gradient of each choice's result.
void spread(const Pass& pass, const Sizes& s, const Kept& kept, const Gathered& gathered, float* results) {
  const GradientRoom& scores = pass.input_gradients[1];
  run_ranges(*pass.pool, s.rows, 1, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> slopes(static_cast<std::size_t>(s.chosen));
    for (std::int64_t row = begin; row < end; ++row) {
      const ConstArray given = array(pass.output_gradient + row * s.features, s.features);
      const float* weight = kept.weight + row * s.chosen;
      float along = 0;
      for (std::int64_t i = 0; i < s.chosen; ++i) {
        const std::int64_t place = gathered.place[static_cast<std::size_t>(row * s.chosen + i)];
        const auto at = static_cast<std::size_t>(i);
        slopes[at] = (given * array(kept.output + place * s.features, s.features)).sum();
        along += weight[i] * slopes[at];
        array(results + place * s.features, s.features) = given * weight[i];
      }
      if (scores.data == nullptr) continue;
      float* to = scores.data + row * s.experts;
      if (!scores.add) array(to, s.experts).setZero();
      for (std::int64_t i = 0; i < s.chosen; ++i)
        to[static_cast<std::int64_t>(kept.expert[row * s.chosen + i])] +=
            weight[i] * (slopes[static_cast<std::size_t>(i)] - along);
    }
  });
}

}  // namespace

KernelRoom experts_room(const LayerWork& work, double batch, int /*threads*/) {
  const Sizes s = sizes(work, 1);
  const double choices = batch * static_cast<double>(s.choices());
  const auto features = static_cast<double>(s.features);
  const auto hidden = static_cast<double>(s.hidden);
  return {.kept = choices * (2 + 2 * features + 3 * hidden), .scratch = choices * (features + 2 * hidden)};
}

void experts_forward(const Pass& pass) {
  const Sizes s = sizes(*pass.work, pass.batch);
  const Kept kept = kept_of(pass, s);
  run_ranges(*pass.pool, s.rows, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row)
      choose(s, pass.inputs[1] + row * s.experts, kept.expert + row * s.chosen, kept.weight + row * s.chosen);
  });
  const Gathered gathered = gather(s, kept.expert);
  each_choice(pass, s, gathered, [&](std::int64_t choice, std::int64_t place) {
    array(kept.input + place * s.features, s.features) =
        array(pass.inputs[0] + choice / s.chosen * s.features, s.features);
  });
  each_expert(s, gathered, [&](std::int64_t expert, std::int64_t at, std::int64_t count) {
    if (count == 0) return;
    const std::int64_t size = s.features * s.hidden;
    const float* input = kept.input + at * s.features;
    apply(pass, input, pass.weights[0] + expert * size, kept.gate + at * s.hidden, count, s.features,
          s.hidden);
    apply(pass, input, pass.weights[1] + expert * size, kept.up + at * s.hidden, count, s.features, s.hidden);
    const auto gate = array(static_cast<const float*>(kept.gate) + at * s.hidden, count * s.hidden);
    array(kept.hidden + at * s.hidden, count * s.hidden) =
        gate / (1 + (-gate).exp()) * array(kept.up + at * s.hidden, count * s.hidden);
    apply(pass, kept.hidden + at * s.hidden, pass.weights[2] + expert * size, kept.output + at * s.features,
          count, s.hidden, s.features);
  });
  each_choice(pass, s, gathered, [&](std::int64_t choice, std::int64_t place) {
    Array row = array(pass.output + choice / s.chosen * s.features, s.features);
    if (choice % s.chosen == 0) row.setZero();
    row += kept.weight[choice] * array(kept.output + place * s.features, s.features);
  });
}

void experts_backward(const Pass& pass) {
  const Sizes s = sizes(*pass.work, pass.batch);
  const Kept kept = kept_of(pass, s);
  const Gathered gathered = gather(s, kept.expert);
  float* const results = pass.scratch;  // then the gradients of the gathered inputs
  float* const gates = results + s.choices() * s.features;
  float* const ups = gates + s.choices() * s.hidden;
  spread(pass, s, kept, gathered, results);
  each_expert(s, gathered, [&](std::int64_t expert, std::int64_t at, std::int64_t count) {
    const std::int64_t size = s.features * s.hidden;
    const std::int64_t elements = count * s.hidden;
    float* const result = results + at * s.features;
    to_weight(pass, result, kept.hidden + at * s.hidden, weight_room(pass, 2, expert, size), count, s.hidden,
              s.features);
    Array up_slope = array(ups + at * s.hidden, elements);
    Array gate_slope = array(gates + at * s.hidden, elements);
    if (count > 0) {
      to_input(pass, result, pass.weights[2] + expert * size, up_slope.data(), count, s.hidden, s.features,
               false);
      const auto gate = array(static_cast<const float*>(kept.gate) + at * s.hidden, elements);
      const auto logistic = 1 / (1 + (-gate).exp());
      gate_slope =
          up_slope * array(kept.up + at * s.hidden, elements) * logistic * (1 + gate * (1 - logistic));
      up_slope *= gate * logistic;
    }
    const float* input = kept.input + at * s.features;
    to_weight(pass, gate_slope.data(), input, weight_room(pass, 0, expert, size), count, s.features,
              s.hidden);
    to_weight(pass, up_slope.data(), input, weight_room(pass, 1, expert, size), count, s.features, s.hidden);
    if (count == 0) return;
    to_input(pass, gate_slope.data(), pass.weights[0] + expert * size, result, count, s.features, s.hidden,
             false);
    to_input(pass, up_slope.data(), pass.weights[1] + expert * size, result, count, s.features, s.hidden,
             true);
  });
  const GradientRoom& room = pass.input_gradients[0];
  if (room.data == nullptr) return;
  each_choice(pass, s, gathered, [&](std::int64_t choice, std::int64_t place) {
    Array row = array(room.data + choice / s.chosen * s.features, s.features);
    if (choice % s.chosen == 0 && !room.add) row.setZero();
    row += array(results + place * s.features, s.features);
  });
}

}  // namespace profiler::cpu
