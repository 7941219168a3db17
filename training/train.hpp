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

struct Job {
  Clusters data = {};
  std::vector<std::size_t> hidden = {64, 64};  ///< widths of the hidden layers
  std::uint32_t workers = 4;
  std::size_t samples = 16;  ///< of each worker in an iteration
  std::uint64_t iterations = 400;
  double learning_rate = 0.05;       ///< of the first iteration
  double last_learning_rate = 0.05;  ///< falls or grows to it in a straight line
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
  double first_loss = 0;                  ///< of the held-out samples, before the first iteration
  double final_loss = 0;                  ///< of the held-out samples, after the last
  std::vector<Vector<float>> parameters;  ///< by rank, after the last iteration: all alike

  std::vector<double> loss_by_iteration() const;
  /// The mean over iterations of what the rank that receives most receives.
  double words_per_iteration() const;
};

/// Plain SGD, or with momentum as PyTorch has it, on the mean of the workers' gradients. The same in any run
/// of the same build. std::invalid_argument: no such method, no workers or samples.
Result train(const Job& job);

}  // namespace training
