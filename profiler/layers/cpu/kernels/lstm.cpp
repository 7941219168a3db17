// lstm: stacked layers; a bidirectional one concatenates both directions. The products with the input are
// computed at once for the whole sequence; those with the state step by step.

#include "profiler/layers/cpu/kernels/arrays.hpp"

namespace profiler::cpu {
namespace {

constexpr std::int64_t kGates = 4;  // input, forget, cell, output

struct Sizes {
  std::int64_t batch;
  std::int64_t length;
  std::int64_t in;  ///< features of the first layer's input
  std::int64_t hidden;
  std::int64_t layers;
  std::int64_t directions;

  std::int64_t steps() const { return batch * length; }
  std::int64_t out() const { return directions * hidden; }
  std::int64_t features(std::int64_t layer) const { return layer == 0 ? in : out(); }
  std::int64_t gates() const { return kGates * hidden; }
  /// Floats stored for one direction of one layer: gates and cells of every step.
  std::int64_t kept_of_direction() const { return steps() * (gates() + hidden); }
};

Sizes sizes(const LayerWork& work, std::int64_t batch) {
  const auto& lstm = std::get<core::Lstm>(work.layer->parameters);
  return {.batch = batch,
          .length = work.inputs[0].shape[0],
          .in = work.inputs[0].shape[1],
          .hidden = lstm.hidden,
          .layers = lstm.layers,
          .directions = lstm.bidirectional ? 2 : 1};
}

/// One direction of one layer, and the location of its data.
struct Direction {
  const Sizes& s;
  std::int64_t layer;
  std::int64_t direction;
  const float* input;  ///< [batch, length, features]
  float* gates;        ///< [batch, length, 4 hidden], after their functions
  float* cells;        ///< [batch, length, hidden]
  float* output;       ///< [batch, length, directions x hidden], from this direction's part on

  std::size_t weight() const {
    constexpr std::int64_t kTensors = 4;  // weight_ih, weight_hh, bias_ih, bias_hh
    return static_cast<std::size_t>((layer * s.directions + direction) * kTensors);
  }
  /// Returns the i-th step in this direction.
  std::int64_t step(std::int64_t i) const { return direction == 0 ? i : s.length - 1 - i; }
  std::int64_t before(std::int64_t i) const { return step(i - 1); }
};

float* outputs_of(const Pass& pass, const Sizes& s, std::int64_t layer) {
  if (layer + 1 == s.layers) return pass.output;
  return pass.kept + s.layers * s.directions * s.kept_of_direction() + layer * s.steps() * s.out();
}

Direction direction_of(const Pass& pass, const Sizes& s, std::int64_t layer, std::int64_t direction) {
  float* kept = pass.kept + (layer * s.directions + direction) * s.kept_of_direction();
  return {.s = s,
          .layer = layer,
          .direction = direction,
          .input = layer == 0 ? pass.inputs[0] : outputs_of(pass, s, layer - 1),
          .gates = kept,
          .cells = kept + s.steps() * s.gates(),
          .output = outputs_of(pass, s, layer) + direction * s.hidden};
}

void step_forward(const Direction& d, std::int64_t i) {
  const Sizes& s = d.s;
  const std::int64_t n = s.hidden;
  for (std::int64_t sample = 0; sample < s.batch; ++sample) {
    const std::int64_t at = sample * s.length + d.step(i);
    Array sigmoids = array(d.gates + at * s.gates(), 2 * n);
    Array cell_gate = array(d.gates + at * s.gates() + 2 * n, n);
    Array output_gate = array(d.gates + at * s.gates() + 3 * n, n);
    sigmoids = 1 / (1 + (-sigmoids).exp());
    cell_gate = cell_gate.tanh();
    output_gate = 1 / (1 + (-output_gate).exp());
    Array cell = array(d.cells + at * n, n);
    cell = sigmoids.head(n) * cell_gate;
    if (i > 0) cell += sigmoids.tail(n) * array(d.cells + (sample * s.length + d.before(i)) * n, n);
    array(d.output + at * s.out(), n) = output_gate * cell.tanh();
  }
}

void forward(const Pass& pass, const Direction& d) {
  const Sizes& s = d.s;
  const std::int64_t features = s.features(d.layer);
  const auto* const weights = pass.weights.data() + d.weight();
  for (std::int64_t row = 0; row < s.steps(); ++row)
    array(d.gates + row * s.gates(), s.gates()) = array(weights[2], s.gates()) + array(weights[3], s.gates());
  run_product(pass, {.a = d.input,
                     .a_stride = features,
                     .b = weights[0],
                     .b_stride = features,
                     .c = d.gates,
                     .c_stride = s.gates(),
                     .rows = s.steps(),
                     .columns = s.gates(),
                     .inner = features,
                     .b_transposed = true,
                     .add = true});
  for (std::int64_t i = 0; i < s.length; ++i) {
    if (i > 0)
      run_product(pass, {.a = d.output + d.before(i) * s.out(),
                         .a_stride = s.length * s.out(),
                         .b = weights[1],
                         .b_stride = s.hidden,
                         .c = d.gates + d.step(i) * s.gates(),
                         .c_stride = s.length * s.gates(),
                         .rows = s.batch,
                         .columns = s.gates(),
                         .inner = s.hidden,
                         .b_transposed = true,
                         .add = true});
    step_forward(d, i);
  }
}

/// Working memory of backward: [batch, length, 4 hidden], [batch, hidden] twice, and the gradients of two
/// layers' outputs.
struct Scratch {
  float* gates;
  float* state;
  float* cell;
  float* outputs[2];
};

Scratch scratch(const Pass& pass, const Sizes& s) {
  float* gates = pass.scratch;
  float* state = gates + s.steps() * s.gates();
  float* cell = state + s.batch * s.hidden;
  float* outputs = cell + s.batch * s.hidden;
  return {.gates = gates, .state = state, .cell = cell, .outputs = {outputs, outputs + s.steps() * s.out()}};
}

/// Computes the gradient of a step's gates, before their functions, from that of its output.
void step_backward(const Direction& d, const Scratch& room, const float* given, std::int64_t i) {
  const Sizes& s = d.s;
  const std::int64_t n = s.hidden;
  for (std::int64_t sample = 0; sample < s.batch; ++sample) {
    const std::int64_t at = sample * s.length + d.step(i);
    const float* gates = d.gates + at * s.gates();
    const ConstArray input = array(gates, n);
    const ConstArray forget = array(gates + n, n);
    const ConstArray cell_gate = array(gates + 2 * n, n);
    const ConstArray output = array(gates + 3 * n, n);
    const Eigen::ArrayXf tanh_cell = array(d.cells + at * n, n).tanh();
    const Eigen::ArrayXf dh = array(given + at * s.out(), n) + array(room.state + sample * n, n);
    Array dc = array(room.cell + sample * n, n);
    dc += dh * output * (1 - tanh_cell.square());
    float* out = room.gates + at * s.gates();
    array(out, n) = dc * cell_gate * input * (1 - input);
    if (i > 0)
      array(out + n, n) =
          dc * array(d.cells + (sample * s.length + d.before(i)) * n, n) * forget * (1 - forget);
    else
      array(out + n, n).setZero();
    array(out + 2 * n, n) = dc * input * (1 - cell_gate.square());
    array(out + 3 * n, n) = dh * tanh_cell * output * (1 - output);
    dc *= forget;
  }
}

void weight_gradients(const Pass& pass, const Direction& d, const Scratch& room) {
  const Sizes& s = d.s;
  const std::int64_t features = s.features(d.layer);
  const GradientRoom* rooms = pass.weight_gradients.data() + d.weight();
  run_product(pass, {.a = room.gates,
                     .a_stride = s.gates(),
                     .b = d.input,
                     .b_stride = features,
                     .c = rooms[0].data,
                     .c_stride = features,
                     .rows = s.gates(),
                     .columns = features,
                     .inner = s.steps(),
                     .a_transposed = true,
                     .add = rooms[0].add});
  // Each step except the first, against the output of the previous one.
  const std::int64_t later = d.direction == 0 ? 1 : 0;
  if (s.length == 1 && !rooms[1].add) array(rooms[1].data, s.gates() * s.hidden).setZero();
  for (std::int64_t sample = 0; s.length > 1 && sample < s.batch; ++sample)
    run_product(pass, {.a = room.gates + (sample * s.length + later) * s.gates(),
                       .a_stride = s.gates(),
                       .b = d.output + (sample * s.length + 1 - later) * s.out(),
                       .b_stride = s.out(),
                       .c = rooms[1].data,
                       .c_stride = s.hidden,
                       .rows = s.gates(),
                       .columns = s.hidden,
                       .inner = s.length - 1,
                       .a_transposed = true,
                       .add = rooms[1].add || sample > 0});
  put_column_sums(pass, room.gates, s.steps(), s.gates(), rooms[2]);
  put_column_sums(pass, room.gates, s.steps(), s.gates(), rooms[3]);
}

/// `given` is the gradient of its output, `wanted` the destination of that of its input.
void backward(const Pass& pass, const Direction& d, const float* given, const GradientRoom& wanted) {
  const Sizes& s = d.s;
  const Scratch room = scratch(pass, s);
  const auto* const weights = pass.weights.data() + d.weight();
  array(room.state, s.batch * s.hidden).setZero();
  array(room.cell, s.batch * s.hidden).setZero();
  for (std::int64_t i = s.length; i-- > 0;) {
    step_backward(d, room, given, i);
    if (i > 0)
      run_product(pass, {.a = room.gates + d.step(i) * s.gates(),
                         .a_stride = s.length * s.gates(),
                         .b = weights[1],
                         .b_stride = s.hidden,
                         .c = room.state,
                         .c_stride = s.hidden,
                         .rows = s.batch,
                         .columns = s.hidden,
                         .inner = s.gates()});
  }
  weight_gradients(pass, d, room);
  if (wanted.data == nullptr) return;
  const std::int64_t features = s.features(d.layer);
  run_product(pass, {.a = room.gates,
                     .a_stride = s.gates(),
                     .b = weights[0],
                     .b_stride = features,
                     .c = wanted.data,
                     .c_stride = features,
                     .rows = s.steps(),
                     .columns = features,
                     .inner = s.gates(),
                     .add = wanted.add});
}

}  // namespace

KernelRoom lstm_room(const LayerWork& work, double batch, int /*threads*/) {
  const Sizes s = sizes(work, 1);
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double steps = batch * number(s.length);
  const double gates = steps * number(s.gates());
  const double outputs = steps * number(s.out());
  const double cells = steps * number(s.hidden);
  return {.kept = number(s.layers * s.directions) * (gates + cells) + number(s.layers - 1) * outputs,
          .scratch = gates + 2 * batch * number(s.hidden) + 2 * outputs};
}

void lstm_forward(const Pass& pass) {
  const Sizes s = sizes(*pass.work, pass.batch);
  for (std::int64_t layer = 0; layer < s.layers; ++layer)
    for (std::int64_t direction = 0; direction < s.directions; ++direction)
      forward(pass, direction_of(pass, s, layer, direction));
}

void lstm_backward(const Pass& pass) {
  const Sizes s = sizes(*pass.work, pass.batch);
  const Scratch room = scratch(pass, s);
  const float* given = pass.output_gradient;
  for (std::int64_t layer = s.layers; layer-- > 0;) {
    GradientRoom wanted = pass.input_gradients[0];
    if (layer > 0) wanted = {.data = room.outputs[layer % 2], .add = false};
    for (std::int64_t direction = 0; direction < s.directions; ++direction) {
      backward(pass, direction_of(pass, s, layer, direction), given + direction * s.hidden, wanted);
      wanted.add = true;
    }
    given = wanted.data;
  }
}

}  // namespace profiler::cpu
