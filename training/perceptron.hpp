// A multi-layer perceptron small enough to train in a test: fully connected layers with ReLU between them,
// softmax cross entropy at the end. Parameters and gradients are one vector each, as a collective wants them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <Eigen/Core>

namespace training {

template <typename Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic>;
template <typename Scalar>
using Vector = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;

/// Widths from the inputs over the hidden layers to the classes; at least two, none of them 0.
using Shape = std::vector<std::size_t>;

/// Of each layer in turn the weights, a column for each of its inputs, and then the biases.
std::size_t parameter_count(const Shape& shape);

/// Weights of mean 0 and variance 2 / inputs (He et al. 2015), biases 0; the same on any machine.
Vector<float> initial_parameters(const Shape& shape, std::uint64_t seed);

/// Samples side by side, each a column, and the class of each.
template <typename Scalar>
struct Batch {
  Matrix<Scalar> inputs;
  std::vector<std::uint32_t> labels;
};

/// The mean cross entropy in nats; its gradient replaces `gradient` where one is asked for. Eigen sums in an
/// order that depends on the vector instructions it was compiled for, so results of different builds differ
/// in their last bits; in one build they are always the same. Scalar is float or double.
template <typename Scalar>
double loss(const Shape& shape, const Vector<Scalar>& parameters, const Batch<Scalar>& batch,
            Vector<Scalar>* gradient = nullptr);

}  // namespace training
