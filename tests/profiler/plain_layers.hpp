// A model's results by plain loops in double, written from the documentation of each kind of layer: the
// reference for the kernels. One sample at a time if samples do not interact.

#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "profiler/layers/cpu/executor.hpp"

namespace plain {

using core::LayerKind;
using core::Shape;
using profiler::LayerWork;
using profiler::ModelWork;

using Values = std::vector<double>;

/// The data of a model; results of inputs are given, the others are computed.
struct State {
  std::int64_t batch = 1;
  std::vector<Values> results;
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<std::vector<Values>> weights;
  std::vector<std::uint64_t> seeds;  ///< for dropout

  const Values& weight(const LayerWork& work, std::size_t i) const {
    const core::TensorRef& ref = work.weights[i].tensor;
    return weights[ref.layer][ref.tensor];
  }
};

inline State state_of(const ModelWork& work, profiler::CpuExecutor& executor, std::int64_t batch) {
  State out = {.batch = batch};
  for (std::size_t i = 0; i < work.layers.size(); ++i) {
    const auto numbers = executor.result(i);
    out.results.emplace_back(numbers.begin(), numbers.end());
    const auto tokens = executor.tokens(i);
    out.tokens.emplace_back(tokens.begin(), tokens.end());
    out.seeds.push_back(executor.pass(i).seed);
    std::vector<Values>& weights = out.weights.emplace_back();
    for (std::size_t j = 0; j < work.layers[i].layer->tensors.size(); ++j) {
      const auto weight = executor.weight({i, j});
      weights.emplace_back(weight.begin(), weight.end());
    }
  }
  return out;
}

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// One layer on the whole batch.
struct Call {
  const LayerWork& work;
  const State& state;

  const core::Layer& layer() const { return *work.layer; }
  template <typename Parameters>
  const Parameters& parameters() const {
    return std::get<Parameters>(work.layer->parameters);
  }
  const Values& input(std::size_t i = 0) const { return state.results[work.inputs[i].source]; }
  const Shape& in(std::size_t i = 0) const { return work.inputs[i].shape; }
  const Shape& out() const { return work.layer->output; }
  const Values& weight(std::size_t i) const { return state.weight(work, i); }
  std::int64_t batch() const { return state.batch; }
};

inline Values each(const Call& call, const std::function<double(double)>& function) {
  Values out;
  for (const double x : call.input()) out.push_back(function(x));
  return out;
}

inline Values conv2d(const Call& call) {
  const auto& conv = call.parameters<core::Conv2d>();
  const Shape& in = call.in();
  const Shape& out = call.out();
  const std::int64_t in_group = in[0] / conv.groups;
  const std::int64_t out_group = out[0] / conv.groups;
  Values result;
  for (std::int64_t b = 0; b < call.batch(); ++b)
    for (std::int64_t m = 0; m < out[0]; ++m)
      for (std::int64_t y = 0; y < out[1]; ++y)
        for (std::int64_t x = 0; x < out[2]; ++x) {
          double sum = conv.bias ? call.weight(1)[at(m)] : 0;
          for (std::int64_t c = 0; c < in_group; ++c)
            for (std::int64_t ky = 0; ky < conv.kernel.height; ++ky)
              for (std::int64_t kx = 0; kx < conv.kernel.width; ++kx) {
                const std::int64_t iy =
                    y * conv.stride.height - conv.padding.height + ky * conv.dilation.height;
                const std::int64_t ix = x * conv.stride.width - conv.padding.width + kx * conv.dilation.width;
                if (iy < 0 || iy >= in[1] || ix < 0 || ix >= in[2]) continue;
                const std::int64_t channel = m / out_group * in_group + c;
                sum += call.weight(
                           0)[at(((m * in_group + c) * conv.kernel.height + ky) * conv.kernel.width + kx)] *
                       call.input()[at(((b * in[0] + channel) * in[1] + iy) * in[2] + ix)];
              }
          result.push_back(sum);
        }
  return result;
}

/// Calls work with each output's window: rows and columns of the input, including padding.
inline Values pooled(const Call& call,
                     const std::function<double(const Values& inside, std::int64_t whole)>& value) {
  const auto& pool = call.parameters<core::Pool2d>();
  const Shape& in = call.in();
  const Shape& out = call.out();
  Values result;
  for (std::int64_t plane = 0; plane < call.batch() * out[0]; ++plane)
    for (std::int64_t y = 0; y < out[1]; ++y)
      for (std::int64_t x = 0; x < out[2]; ++x) {
        Values inside;
        std::int64_t whole = 0;
        for (std::int64_t ky = 0; ky < pool.kernel.height; ++ky)
          for (std::int64_t kx = 0; kx < pool.kernel.width; ++kx) {
            const std::int64_t iy = y * pool.stride.height - pool.padding.height + ky;
            const std::int64_t ix = x * pool.stride.width - pool.padding.width + kx;
            if (iy < in[1] + pool.padding.height && ix < in[2] + pool.padding.width) ++whole;
            if (iy >= 0 && iy < in[1] && ix >= 0 && ix < in[2])
              inside.push_back(call.input()[at((plane * in[1] + iy) * in[2] + ix)]);
          }
        result.push_back(value(inside, whole));
      }
  return result;
}

inline double sum(const Values& values) {
  double out = 0;
  for (const double each : values) out += each;
  return out;
}

inline Values max_pool(const Call& call) {
  return pooled(call, [](const Values& inside, std::int64_t) {
    double max = inside.front();
    for (const double each : inside) max = std::max(max, each);
    return max;
  });
}

inline Values avg_pool(const Call& call) {
  const bool counts_padding = call.parameters<core::Pool2d>().count_padding;
  return pooled(call, [&](const Values& inside, std::int64_t whole) {
    return sum(inside) / (counts_padding ? static_cast<double>(whole) : static_cast<double>(inside.size()));
  });
}

inline Values adaptive_avg_pool(const Call& call) {
  const Shape& in = call.in();
  const Shape& out = call.out();
  Values result;
  for (std::int64_t plane = 0; plane < call.batch() * out[0]; ++plane)
    for (std::int64_t y = 0; y < out[1]; ++y)
      for (std::int64_t x = 0; x < out[2]; ++x) {
        Values inside;
        for (std::int64_t iy = 0; iy < in[1]; ++iy)
          for (std::int64_t ix = 0; ix < in[2]; ++ix)
            // [iy, iy + 1) / in meets [y, y + 1) / out
            if (iy * out[1] < (y + 1) * in[1] && (iy + 1) * out[1] > y * in[1] &&
                ix * out[2] < (x + 1) * in[2] && (ix + 1) * out[2] > x * in[2])
              inside.push_back(call.input()[at((plane * in[1] + iy) * in[2] + ix)]);
        result.push_back(sum(inside) / static_cast<double>(inside.size()));
      }
  return result;
}

/// Elements to which `of` gives the same number are normalized together.
inline Values normalised(const Call& call, bool has_mean, const std::function<std::int64_t(std::int64_t)>& of,
                         const std::function<std::int64_t(std::int64_t)>& weight_of) {
  const double epsilon = call.parameters<core::Norm>().epsilon;
  const Values& x = call.input();
  std::vector<Values> groups;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t group = at(of(static_cast<std::int64_t>(i)));
    if (groups.size() <= group) groups.resize(group + 1);
    groups[group].push_back(x[i]);
  }
  Values out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Values& group = groups[at(of(static_cast<std::int64_t>(i)))];
    const auto count = static_cast<double>(group.size());
    const double mean = has_mean ? sum(group) / count : 0;
    double squares = 0;
    for (const double each : group) squares += (each - mean) * (each - mean);
    const std::size_t weight = at(weight_of(static_cast<std::int64_t>(i)));
    out.push_back((x[i] - mean) / std::sqrt(squares / count + epsilon) * call.weight(0)[weight] +
                  (has_mean ? call.weight(1)[weight] : 0));
  }
  return out;
}

inline Values batch_norm(const Call& call) {
  const Shape& in = call.in();
  const auto channel = [&](std::int64_t i) {
    return in.size() == 3 ? i / (in[1] * in[2]) % in[0] : i % in.back();
  };
  return normalised(call, true, channel, channel);
}

inline Values row_norm(const Call& call, bool has_mean) {
  const std::int64_t features = call.in().back();
  return normalised(
      call, has_mean, [&](std::int64_t i) { return i / features; },
      [&](std::int64_t i) { return i % features; });
}

inline Values lrn(const Call& call) {
  const auto& norm = call.parameters<core::LocalResponseNorm>();
  const Shape& in = call.in();
  const std::int64_t plane = in[1] * in[2];
  Values out;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(call.input().size()); ++i) {
    const std::int64_t channel = i / plane % in[0];
    double squares = 0;
    for (std::int64_t c = channel - norm.size / 2; c < channel - norm.size / 2 + norm.size; ++c)
      if (c >= 0 && c < in[0]) squares += std::pow(call.input()[at(i + (c - channel) * plane)], 2);
    out.push_back(call.input()[at(i)] /
                  std::pow(norm.k + norm.alpha / static_cast<double>(norm.size) * squares, norm.beta));
  }
  return out;
}

inline Values linear(const Call& call) {
  const std::int64_t in = call.in().back();
  const std::int64_t out = call.out().back();
  Values result;
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(call.input().size()) / in; ++row)
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = call.parameters<core::Linear>().bias ? call.weight(1)[at(o)] : 0;
      for (std::int64_t i = 0; i < in; ++i)
        sum += call.weight(0)[at(o * in + i)] * call.input()[at(row * in + i)];
      result.push_back(sum);
    }
  return result;
}

inline double gelu(double x, bool by_tanh) {
  const double pi = std::acos(-1.0);
  if (by_tanh) return 0.5 * x * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
  return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}

inline Values dropout(const Call& call) {
  Values out = call.input();
  const double probability = call.parameters<core::Dropout>().probability;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] *= static_cast<double>(profiler::dropout_factor(call.state.seeds[call.work.index],
                                                           static_cast<std::int64_t>(i), probability));
  return out;
}

inline Values joined(const Call& call, const std::function<double(double, double)>& function) {
  Values out = call.input();
  for (std::size_t input = 1; input < call.work.inputs.size(); ++input)
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = function(out[i], call.input(input)[i]);
  return out;
}

/// Returns the index in each dimension of element i of a shape; the batch is the first dimension.
inline Shape place(std::int64_t i, const Shape& shape) {
  Shape out(shape.size() + 1);
  for (std::size_t d = shape.size(); d-- > 0; i /= shape[d]) out[d + 1] = i % shape[d];
  out[0] = i;
  return out;
}

inline std::size_t index(const Shape& place, const Shape& shape) {
  std::int64_t out = place[0];
  for (std::size_t d = 0; d < shape.size(); ++d) out = out * shape[d] + place[d + 1];
  return at(out);
}

/// Each output element is the input element at the position that `from` returns.
inline Values moved(const Call& call, const std::function<std::pair<std::size_t, Shape>(Shape)>& from) {
  Values out;
  for (std::int64_t i = 0; i < call.batch() * core::element_count(call.out()); ++i) {
    const auto [input, there] = from(place(i, call.out()));
    out.push_back(call.input(input)[index(there, call.in(input))]);
  }
  return out;
}

inline Values concat(const Call& call) {
  const std::size_t axis = call.parameters<core::Concat>().axis;
  return moved(call, [&](Shape here) {
    std::size_t input = 0;
    while (here[axis + 1] >= call.in(input)[axis]) here[axis + 1] -= call.in(input++)[axis];
    return std::pair(input, here);
  });
}

inline Values transpose(const Call& call) {
  const auto& axes = call.parameters<core::Transpose>().axes;
  return moved(call, [&](const Shape& here) {
    Shape there = here;
    for (std::size_t i = 0; i < axes.size(); ++i) there[axes[i] + 1] = here[i + 1];
    return std::pair(std::size_t{0}, there);
  });
}

inline Values select(const Call& call) {
  return moved(call, [&](Shape here) {
    here.insert(here.begin() + 1, call.parameters<core::Select>().index);
    return std::pair(std::size_t{0}, here);
  });
}

inline Values embedding(const Call& call) {
  const auto& table = call.parameters<core::Embedding>();
  Values out;
  for (const std::int32_t token : call.state.tokens[call.work.inputs[0].source])
    for (std::int64_t i = 0; i < table.features; ++i)
      out.push_back(call.weight(0)[at(token * table.features + i)] *
                    (table.scaled ? std::sqrt(static_cast<double>(table.features)) : 1));
  return out;
}

inline Values position_embedding(const Call& call) {
  Values out;
  for (std::int64_t i = 0; i < call.batch() * core::element_count(call.out()); ++i)
    out.push_back(call.weight(0)[at(i % core::element_count(call.out()))]);
  return out;
}

inline Values positional_encoding(const Call& call) {
  Values out = call.input();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Shape here = place(static_cast<std::int64_t>(i), call.out());
    const auto even = static_cast<double>(here[2] - here[2] % 2);
    const double angle =
        static_cast<double>(here[1]) / std::pow(10000, even / static_cast<double>(call.out()[1]));
    out[i] += here[2] % 2 == 0 ? std::sin(angle) : std::cos(angle);
  }
  return out;
}

inline Values rotary(const Call& call) {
  const auto& rotary = call.parameters<core::Rotary>();
  const std::int64_t size = call.out()[1] / rotary.heads;
  Values out;
  for (std::size_t i = 0; i < call.input().size(); ++i) {
    const Shape here = place(static_cast<std::int64_t>(i), call.out());
    const std::int64_t feature = here[2] % size;
    const bool is_first = feature < size / 2;
    const double angle =
        static_cast<double>(here[1]) *
        std::pow(rotary.base, -2.0 * static_cast<double>(feature % (size / 2)) / static_cast<double>(size));
    const double other = call.input()[is_first ? i + at(size / 2) : i - at(size / 2)];
    out.push_back(call.input()[i] * std::cos(angle) + (is_first ? -other : other) * std::sin(angle));
  }
  return out;
}

inline Values attention(const Call& call) {
  const auto& attention = call.parameters<core::Attention>();
  const bool is_packed = call.work.inputs.size() == 1;
  const std::int64_t features = call.out()[1];
  const std::int64_t queries = call.out()[0];
  const std::int64_t keys = is_packed ? queries : call.in(1)[0];
  const std::int64_t size = features / attention.heads;
  const std::int64_t shared_features = attention.key_value_heads * size;
  const auto value = [&](std::int64_t role, std::int64_t b, std::int64_t row, std::int64_t feature) {
    if (role != 0 && !is_packed) {
      const std::int64_t head = feature / size * attention.key_value_heads / attention.heads;
      return call.input(at(role))[at((b * keys + row) * shared_features + head * size + feature % size)];
    }
    if (is_packed) return call.input()[at((b * queries + row) * 3 * features + role * features + feature)];
    return call.input()[at((b * queries + row) * features + feature)];
  };
  Values out(at(call.batch() * queries * features));
  for (std::int64_t b = 0; b < call.batch(); ++b)
    for (std::int64_t head = 0; head < attention.heads; ++head)
      for (std::int64_t q = 0; q < queries; ++q) {
        Values weights;
        for (std::int64_t k = 0; k < keys; ++k) {
          double score = 0;
          for (std::int64_t i = head * size; i < (head + 1) * size; ++i)
            score += value(0, b, q, i) * value(1, b, k, i);
          weights.push_back(
              attention.causal && k > q ? 0 : std::exp(score / std::sqrt(static_cast<double>(size))));
        }
        const double all = sum(weights);
        for (std::int64_t k = 0; k < keys; ++k) {
          double weight = weights[at(k)] / all;
          if (attention.dropout > 0)
            weight *= static_cast<double>(profiler::dropout_factor(
                call.state.seeds[call.work.index], ((b * attention.heads + head) * queries + q) * keys + k,
                attention.dropout));
          for (std::int64_t i = head * size; i < (head + 1) * size; ++i)
            out[at((b * queries + q) * features + i)] += weight * value(2, b, k, i);
        }
      }
  return out;
}

inline Values experts(const Call& call) {
  const auto& mix = call.parameters<core::Experts>();
  const std::int64_t features = call.in()[1];
  const Values& x = call.input(0);
  const Values& scores = call.input(1);
  Values out(x.size());
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(x.size()) / features; ++row) {
    const auto score = [&](std::int64_t expert) { return scores[at(row * mix.experts + expert)]; };
    std::vector<std::int64_t> chosen;
    for (std::int64_t e = 0; e < mix.experts; ++e) {
      std::int64_t better = 0;
      for (std::int64_t other = 0; other < mix.experts; ++other)
        better += score(other) > score(e) || (score(other) == score(e) && other < e) ? 1 : 0;
      if (better < mix.chosen) chosen.push_back(e);
    }
    double all = 0;
    for (const std::int64_t e : chosen) all += std::exp(score(e));
    for (const std::int64_t e : chosen)
      for (std::int64_t h = 0; h < mix.hidden; ++h) {
        double gate = 0;
        double up = 0;
        for (std::int64_t i = 0; i < features; ++i) {
          gate += call.weight(0)[at((e * mix.hidden + h) * features + i)] * x[at(row * features + i)];
          up += call.weight(1)[at((e * mix.hidden + h) * features + i)] * x[at(row * features + i)];
        }
        const double hidden = gate / (1 + std::exp(-gate)) * up;
        for (std::int64_t i = 0; i < features; ++i)
          out[at(row * features + i)] +=
              std::exp(score(e)) / all * hidden * call.weight(2)[at((e * features + i) * mix.hidden + h)];
      }
  }
  return out;
}

inline Values lstm(const Call& call) {
  const auto& lstm = call.parameters<core::Lstm>();
  const std::int64_t length = call.in()[0];
  const std::int64_t n = lstm.hidden;
  const std::int64_t directions = lstm.bidirectional ? 2 : 1;
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  Values x = call.input();
  std::int64_t features = call.in()[1];
  for (std::int64_t layer = 0; layer < lstm.layers; ++layer) {
    Values out(at(call.batch() * length * directions * n));
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      const auto weight = [&](std::int64_t i) {
        return call.weight(at((layer * directions + direction) * 4 + i));
      };
      const Values ih = weight(0);
      const Values hh = weight(1);
      const Values bias_ih = weight(2);
      const Values bias_hh = weight(3);
      for (std::int64_t b = 0; b < call.batch(); ++b) {
        Values h(at(n));
        Values c(at(n));
        for (std::int64_t i = 0; i < length; ++i) {
          const std::int64_t t = direction == 0 ? i : length - 1 - i;
          Values gates;
          for (std::int64_t g = 0; g < 4 * n; ++g) {
            double sum = bias_ih[at(g)] + bias_hh[at(g)];
            for (std::int64_t f = 0; f < features; ++f)
              sum += ih[at(g * features + f)] * x[at((b * length + t) * features + f)];
            for (std::int64_t k = 0; k < n; ++k) sum += hh[at(g * n + k)] * h[at(k)];
            gates.push_back(sum);
          }
          for (std::int64_t k = 0; k < n; ++k) {
            c[at(k)] = sigmoid(gates[at(n + k)]) * c[at(k)] +
                       sigmoid(gates[at(k)]) * std::tanh(gates[at(2 * n + k)]);
            h[at(k)] = sigmoid(gates[at(3 * n + k)]) * std::tanh(c[at(k)]);
            out[at((b * length + t) * directions * n + direction * n + k)] = h[at(k)];
          }
        }
      }
    }
    x = out;
    features = directions * n;
  }
  return x;
}

inline Values lookahead(const Call& call) {
  const std::int64_t steps = call.parameters<core::Lookahead>().context + 1;
  const std::int64_t length = call.in()[0];
  const std::int64_t features = call.in()[1];
  Values out;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(call.input().size()); ++i) {
    double sum = 0;
    for (std::int64_t step = 0; step < steps && i / features % length + step < length; ++step)
      sum += call.weight(0)[at(i % features * steps + step)] * call.input()[at(i + step * features)];
    out.push_back(sum);
  }
  return out;
}

inline Values cross_entropy(const Call& call) {
  const std::int64_t classes = call.in().back();
  const std::int64_t positions = core::element_count(call.in()) / classes;
  Values out(at(call.batch()));
  for (std::int64_t row = 0; row < call.batch() * positions; ++row) {
    double all = 0;
    for (std::int64_t i = 0; i < classes; ++i) all += std::exp(call.input()[at(row * classes + i)]);
    const std::int32_t label = call.state.tokens[call.work.index][at(row)];
    out[at(row / positions)] += call.parameters<core::Loss>().weight / static_cast<double>(positions) *
                                (std::log(all) - call.input()[at(row * classes + label)]);
  }
  return out;
}

inline Values run(const Call& call) {
  switch (call.layer().kind) {
    case LayerKind::conv2d: return conv2d(call);
    case LayerKind::max_pool: return max_pool(call);
    case LayerKind::avg_pool: return avg_pool(call);
    case LayerKind::adaptive_avg_pool: return adaptive_avg_pool(call);
    case LayerKind::batch_norm: return batch_norm(call);
    case LayerKind::lrn: return lrn(call);
    case LayerKind::linear: return linear(call);
    case LayerKind::relu: return each(call, [](double x) { return std::max(x, 0.0); });
    case LayerKind::gelu:
      return each(call, [&](double x) { return gelu(x, call.parameters<core::Gelu>().tanh); });
    case LayerKind::silu: return each(call, [](double x) { return x / (1 + std::exp(-x)); });
    case LayerKind::tanh: return each(call, [](double x) { return std::tanh(x); });
    case LayerKind::hardtanh:
      return each(call, [&](double x) {
        const auto& clamp = call.parameters<core::Hardtanh>();
        return std::min(std::max(x, clamp.min), clamp.max);
      });
    case LayerKind::dropout: return dropout(call);
    case LayerKind::add: return joined(call, [](double a, double b) { return a + b; });
    case LayerKind::multiply: return joined(call, [](double a, double b) { return a * b; });
    case LayerKind::concat: return concat(call);
    case LayerKind::transpose: return transpose(call);
    case LayerKind::select: return select(call);
    case LayerKind::layer_norm: return row_norm(call, true);
    case LayerKind::rms_norm: return row_norm(call, false);
    case LayerKind::embedding: return embedding(call);
    case LayerKind::position_embedding: return position_embedding(call);
    case LayerKind::positional_encoding: return positional_encoding(call);
    case LayerKind::rotary: return rotary(call);
    case LayerKind::attention: return attention(call);
    case LayerKind::experts: return experts(call);
    case LayerKind::lstm: return lstm(call);
    case LayerKind::lookahead: return lookahead(call);
    case LayerKind::cross_entropy: return cross_entropy(call);
    case LayerKind::flatten:
    case LayerKind::input: break;
  }
  return {};
}

/// A value that is added to one element of a layer's result.
struct Nudge {
  std::size_t layer = 0;
  std::size_t element = 0;
  double by = 0;
};

/// The mean over samples of the sum of the model's final outputs, like the executor's.
inline double loss(const ModelWork& work, State& state, const std::optional<Nudge>& nudge = {}) {
  double out = 0;
  for (const LayerWork& each : work.layers) {
    if (!each.runs()) continue;
    Values& result = state.results[each.index];
    result = run({each, state});
    if (nudge && nudge->layer == each.index) result[nudge->element] += nudge->by;
    if (each.is_end) out += sum(result);
  }
  return out / static_cast<double>(state.batch);
}

}  // namespace plain
