// Trains a small network on workers that are threads and exchange their gradients for real, so that what a
// compressor does to convergence is seen.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "training/aggregate.hpp"
#include "training/clusters.hpp"
#include "training/perceptron.hpp"

namespace training {

/// The defaults are the problem of docs/convergence.md: 10422 parameters, every worker another batch of new
/// samples in every iteration.
struct Job {
  Clusters data = {};
  std::vector<std::size_t> hidden = {84, 84};  ///< widths of the hidden layers
  std::uint32_t workers = 4;
  std::size_t samples = 8;  ///< of each worker in an iteration
  std::uint64_t iterations = 1500;
  double learning_rate = 0.05;       ///< of the first iteration
  double last_learning_rate = 0.02;  ///< changes to it in a straight line
  double momentum = 0;
  std::uint64_t seed = 1;  ///< of the data, the first parameters and what compressors draw
  std::string method = "dense";
  AggregateOptions aggregate = {};  ///< `seed` is the job's
};

struct Iteration {
  double loss = 0;                           ///< of the workers' batches before the step, the mean
  std::vector<Selected> selected;            ///< by rank
  std::vector<std::int64_t> words_received;  ///< by rank; 4 bytes each
};

struct Result {
  std::vector<Iteration> iterations;
  double first_loss = 0;  ///< of the held-out samples, before the first iteration
  /// Of the held-out samples, the mean of ten evenly spaced times in the last fifth of the iterations, the
  /// last one included: from step to step it moves by some per cent.
  double final_loss = 0;
  std::vector<Vector<float>> parameters;  ///< by rank, after the last iteration: all alike

  std::vector<double> loss_by_iteration() const;
  /// The mean over iterations of what the rank that receives most receives.
  double words_per_iteration() const;
};

/// SGD on the mean of the workers' gradients g: v = momentum v + g, parameters -= learning rate x v. The same
/// in any run of the same build. std::invalid_argument: no such method, no workers or samples.
Result train(const Job& job);

}  // namespace training
