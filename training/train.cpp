#include "training/train.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include <fmt/core.h>

#include "collectives/sparse/wire.hpp"
#include "collectives/transport/counted.hpp"
#include "collectives/transport/in_process.hpp"

namespace training {
namespace {

using transport::Counted;
using transport::Transport;

constexpr std::size_t kHeldOut = 1024;

/// What all workers see and none changes.
struct Setting {
  const Job& job;
  const Method& method;
  AggregateOptions options;
  Clusters data;
  Matrix<float> centres;
  Shape shape;
  Vector<float> start;
  Batch<float> held_out;
};

Setting setting_of(const Job& job) {
  const Method* method = find_method(job.method);
  if (method == nullptr) throw std::invalid_argument(fmt::format("train: no method \"{}\"", job.method));
  if (job.workers == 0 || job.samples == 0)
    throw std::invalid_argument("train: at least one worker and one sample");
  Setting out{.job = job, .method = *method, .options = job.aggregate, .data = job.data};
  out.options.seed = job.seed;
  out.data.seed = job.seed;
  out.centres = centres(out.data);
  out.shape = {job.data.dimensions};
  out.shape.insert(out.shape.end(), job.hidden.begin(), job.hidden.end());
  out.shape.push_back(job.data.classes);
  out.start = initial_parameters(out.shape, job.seed);
  out.held_out = draw_held_out(out.data, out.centres, kHeldOut);
  return out;
}

/// One iteration on one worker, as one sees it.
struct Step {
  double loss = 0;
  Selected selected;
  std::int64_t words_received = 0;
};

struct Worker {
  Vector<float> parameters;
  Vector<float> velocity;
  AggregateState state;
  std::vector<Step> steps = {};
  std::vector<double> held_out_losses = {};  ///< of rank 0: all have the same
};

/// Whether the loss after this iteration counts for the final one.
bool is_evaluated(const Job& job, std::uint64_t iteration) {
  constexpr std::uint64_t kTimes = 10;
  constexpr std::uint64_t kPart = 5;
  const std::uint64_t distance = std::max<std::uint64_t>(job.iterations / (kTimes * kPart), 1);
  const std::uint64_t left = job.iterations - 1 - iteration;
  return left % distance == 0 && left / distance < kTimes;
}

double learning_rate(const Job& job, std::uint64_t iteration) {
  const auto steps = static_cast<double>(std::max<std::uint64_t>(job.iterations, 2) - 1);
  return job.learning_rate +
         (job.last_learning_rate - job.learning_rate) * static_cast<double>(iteration) / steps;
}

void descend(const Job& job, std::uint64_t iteration, const std::vector<float>& sum, Worker& worker) {
  const Eigen::Map<const Vector<float>> gradient(sum.data(), static_cast<Eigen::Index>(sum.size()));
  worker.velocity =
      static_cast<float>(job.momentum) * worker.velocity + gradient / static_cast<float>(job.workers);
  worker.parameters -= static_cast<float>(learning_rate(job, iteration)) * worker.velocity;
}

Step iterate(const Setting& setting, Counted& transport, std::uint64_t iteration, Worker& worker) {
  const Job& job = setting.job;
  const Batch<float> batch = draw_batch(
      setting.data, setting.centres,
      {.worker = transport.rank(), .workers = job.workers, .iteration = iteration, .samples = job.samples});
  Vector<float> gradient;
  const double own_loss = loss(setting.shape, worker.parameters, batch, &gradient);
  std::vector<float> sum(gradient.begin(), gradient.end());
  transport.reset();
  const Selected selected =
      setting.method.aggregate(setting.method, transport, setting.options, worker.state, sum);
  descend(job, iteration, sum, worker);
  return {own_loss, selected, transport.total().bytes_received / sparse::kBytesPerWord};
}

Worker work(const Setting& setting, Transport& end) {
  Counted transport(end);
  Worker worker{.parameters = setting.start,
                .velocity = Vector<float>::Zero(setting.start.size()),
                .state = initial_state(setting.options)};
  for (std::uint64_t i = 0; i < setting.job.iterations; ++i) {
    worker.steps.push_back(iterate(setting, transport, i, worker));
    if (end.rank() == 0 && is_evaluated(setting.job, i))
      worker.held_out_losses.push_back(loss(setting.shape, worker.parameters, setting.held_out));
  }
  return worker;
}

/// `otherwise` of none.
double mean(const std::vector<double>& x, double otherwise) {
  if (x.empty()) return otherwise;
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

Iteration iteration_of(const std::vector<Worker>& workers, std::uint64_t i) {
  Iteration out;
  for (const Worker& worker : workers) {
    const Step& step = worker.steps[i];
    out.loss += step.loss / static_cast<double>(workers.size());
    out.selected.push_back(step.selected);
    out.words_received.push_back(step.words_received);
  }
  return out;
}

}  // namespace

std::vector<double> Result::loss_by_iteration() const {
  std::vector<double> out;
  for (const Iteration& iteration : iterations) out.push_back(iteration.loss);
  return out;
}

double Result::words_per_iteration() const {
  std::int64_t sum = 0;
  for (const Iteration& iteration : iterations) sum += *std::ranges::max_element(iteration.words_received);
  return iterations.empty() ? 0 : static_cast<double>(sum) / static_cast<double>(iterations.size());
}

Result train(const Job& job) {
  const Setting setting = setting_of(job);
  std::vector<Worker> workers(job.workers);
  transport::run_ranks(job.workers, [&](Transport& end) { workers[end.rank()] = work(setting, end); });
  Result result;
  for (std::uint64_t i = 0; i < job.iterations; ++i) result.iterations.push_back(iteration_of(workers, i));
  result.first_loss = loss(setting.shape, setting.start, setting.held_out);
  result.final_loss = mean(workers.front().held_out_losses, result.first_loss);
  for (Worker& worker : workers) result.parameters.push_back(std::move(worker.parameters));
  return result;
}

}  // namespace training
