#include "training/perceptron.hpp"

#include <algorithm>
#include <cmath>

#include "sim/draws.hpp"

namespace training {
namespace {

Eigen::Index index(std::size_t i) { return static_cast<Eigen::Index>(i); }

/// Where the weights and biases of layer `layer` lie in a vector of parameters.
struct Place {
  std::size_t weights = 0;
  std::size_t inputs = 0;
  std::size_t outputs = 0;

  std::size_t biases() const { return weights + inputs * outputs; }
  std::size_t end() const { return biases() + outputs; }
};

std::vector<Place> places(const Shape& shape) {
  std::vector<Place> out;
  std::size_t begin = 0;
  for (std::size_t layer = 0; layer + 1 < shape.size(); ++layer) {
    out.push_back({.weights = begin, .inputs = shape[layer], .outputs = shape[layer + 1]});
    begin = out.back().end();
  }
  return out;
}

template <typename Scalar>
auto weights(const Vector<Scalar>& parameters, const Place& place) {
  return Eigen::Map<const Matrix<Scalar>>(parameters.data() + place.weights, index(place.outputs),
                                          index(place.inputs));
}

template <typename Scalar>
auto biases(const Vector<Scalar>& parameters, const Place& place) {
  return parameters.segment(index(place.biases()), index(place.outputs));
}

/// Turns a sample's outputs into the gradient of its loss, p - 1 for its class and p for the others, and
/// returns the loss. With our own exp and log, which are the same on any machine.
template <typename Outputs>
double softmax_loss(Outputs outputs, std::uint32_t label) {
  using Scalar = typename Outputs::Scalar;
  double greatest = outputs[0];
  for (const Scalar each : outputs) greatest = std::max(greatest, static_cast<double>(each));
  const double own = static_cast<double>(outputs[label]) - greatest;
  double sum = 0;
  for (Scalar& each : outputs) {
    const double power = sim::portable_exp(static_cast<double>(each) - greatest);
    sum += power;
    each = static_cast<Scalar>(power);
  }
  for (Scalar& each : outputs) each = static_cast<Scalar>(static_cast<double>(each) / sum);
  outputs[label] -= Scalar{1};
  return sim::portable_log(sum) - own;
}

/// What each layer gets as input, and last what comes out.
template <typename Scalar>
std::vector<Matrix<Scalar>> forward(const std::vector<Place>& layers, const Vector<Scalar>& parameters,
                                    const Matrix<Scalar>& inputs) {
  std::vector<Matrix<Scalar>> values = {inputs};
  for (const Place& layer : layers) {
    Matrix<Scalar> next = weights(parameters, layer) * values.back();
    next.colwise() += biases(parameters, layer);
    if (values.size() < layers.size()) next = next.cwiseMax(Scalar{0});
    values.push_back(std::move(next));
  }
  return values;
}

/// `delta` is the gradient of the outputs.
template <typename Scalar>
void backward(const std::vector<Place>& layers, const Vector<Scalar>& parameters,
              const std::vector<Matrix<Scalar>>& values, Matrix<Scalar> delta, Vector<Scalar>& gradient) {
  for (std::size_t i = layers.size(); i-- > 0;) {
    const Place& layer = layers[i];
    Eigen::Map<Matrix<Scalar>>(gradient.data() + layer.weights, index(layer.outputs), index(layer.inputs))
        .noalias() = delta * values[i].transpose();
    gradient.segment(index(layer.biases()), index(layer.outputs)) = delta.rowwise().sum();
    if (i == 0) break;
    const Matrix<Scalar> before = weights(parameters, layer).transpose() * delta;
    delta = (values[i].array() > Scalar{0}).select(before, Scalar{0});
  }
}

}  // namespace

std::size_t parameter_count(const Shape& shape) {
  const std::vector<Place> layers = places(shape);
  return layers.empty() ? 0 : layers.back().end();
}

Vector<float> initial_parameters(const Shape& shape, std::uint64_t seed) {
  Vector<float> out = Vector<float>::Zero(index(parameter_count(shape)));
  for (const Place& layer : places(shape)) {
    const double deviation = std::sqrt(2.0 / static_cast<double>(layer.inputs));
    for (std::size_t i = layer.weights; i < layer.biases(); ++i)
      out[index(i)] = static_cast<float>(deviation * sim::standard_normal(sim::hash(seed, i)));
  }
  return out;
}

template <typename Scalar>
double loss(const Shape& shape, const Vector<Scalar>& parameters, const Batch<Scalar>& batch,
            Vector<Scalar>* gradient) {
  const std::vector<Place> layers = places(shape);
  std::vector<Matrix<Scalar>> values = forward(layers, parameters, batch.inputs);
  Matrix<Scalar> delta = std::move(values.back());
  const auto samples = static_cast<double>(batch.labels.size());
  double sum = 0;
  for (std::size_t i = 0; i < batch.labels.size(); ++i)
    sum += softmax_loss(delta.col(index(i)), batch.labels[i]);
  if (gradient != nullptr) {
    gradient->resize(parameters.size());
    delta *= static_cast<Scalar>(1 / samples);
    backward(layers, parameters, values, std::move(delta), *gradient);
  }
  return sum / samples;
}

template double loss(const Shape&, const Vector<float>&, const Batch<float>&, Vector<float>*);
template double loss(const Shape&, const Vector<double>&, const Batch<double>&, Vector<double>*);

}  // namespace training
