// Sums gradients for bench/convergence.py: `aggregate_driver METHOD DENSITY RECOMPUTE_EVERY RANKS ELEMENTS
// SEEDS [TENSORS]`, where only power-sgd needs the tensors: their sizes, such as 32x84,84. A job is a seed
// with error feedback, from 1 on, and then each seed without. In each iteration the program reads the
// gradients of all ranks of all jobs, RANKS x ELEMENTS floats a job. It writes for each job the words that
// each rank received, how many elements each rank selected and how many all selected together, as 64-bit
// integers, and then the sums, ELEMENTS floats a job. It fails where ranks end with other sums.

#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "collectives/low_rank/power_sgd.hpp"
#include "collectives/sparse/wire.hpp"
#include "collectives/transport/counted.hpp"
#include "collectives/transport/in_process.hpp"
#include "tests/collectives/sparse/aggregate.hpp"

namespace {

using Gradients = std::vector<std::vector<float>>;

struct Job {
  aggregate::Options options;
  std::vector<aggregate::State> states;  ///< indexed by rank, as the next
  Gradients gradients;
  std::vector<std::int64_t> counts;
  std::vector<low_rank::PowerSgd> power_sgd;  ///< by rank
};

std::vector<low_rank::Matrix> read_tensors(const std::string& text) {
  std::vector<low_rank::Matrix> out;
  std::istringstream in(text);
  for (std::string each; std::getline(in, each, ',');) {
    const std::size_t by = each.find('x');
    out.push_back(
        {.rows = std::stoul(each), .columns = by == std::string::npos ? 1 : std::stoul(each.substr(by + 1))});
  }
  return out;
}

/// False at the end of the input.
bool read(Gradients& gradients) {
  for (std::vector<float>& each : gradients)
    if (std::fread(each.data(), sizeof(float), each.size(), stdin) != each.size()) return false;
  return true;
}

template <typename Value>
void write(const std::vector<Value>& values) {
  std::fwrite(values.data(), sizeof(Value), values.size(), stdout);
}

/// Sums by the method, or by PowerSGD if there is none.
aggregate::Selected sum_with(const aggregate::Method* method, Job& job, transport::Transport& end) {
  const std::uint32_t rank = end.rank();
  std::vector<float>& gradient = job.gradients[rank];
  if (method != nullptr) return method->aggregate(*method, end, job.options, job.states[rank], gradient);
  job.power_sgd[rank].sum(end, gradient);
  return {.local = gradient.size(), .global = gradient.size()};
}

void sum(const aggregate::Method* method, Job& job, transport::Transport& end) {
  transport::Counted counted(end);
  const std::uint32_t rank = end.rank();
  const aggregate::Selected selected = sum_with(method, job, counted);
  job.counts[rank] = counted.total().bytes_received / sparse::kBytesPerWord;
  job.counts[end.size() + rank] = static_cast<std::int64_t>(selected.local);
  if (rank == 0) job.counts.back() = static_cast<std::int64_t>(selected.global);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool is_power_sgd = arguments.size() == 7 && arguments[0] == "power-sgd";
  const aggregate::Method* method = arguments.size() == 6 ? aggregate::find_method(arguments[0]) : nullptr;
  if (method == nullptr && !is_power_sgd) return 2;
  const std::vector<low_rank::Matrix> tensors = read_tensors(is_power_sgd ? arguments[6] : "");
  const auto ranks = static_cast<std::uint32_t>(std::stoul(arguments[3]));
  std::vector<Job> jobs;
  for (const bool error_feedback : {true, false})
    for (std::uint64_t seed = 1; seed <= std::stoul(arguments[5]); ++seed) {
      const aggregate::Options options = {.density = std::stod(arguments[1]),
                                          .error_feedback = error_feedback,
                                          .seed = seed,
                                          .recompute_every = std::stoul(arguments[2])};
      jobs.push_back({.options = options,
                      .states = std::vector(ranks, aggregate::initial_state(options)),
                      .gradients = Gradients(ranks, std::vector<float>(std::stoul(arguments[4]))),
                      .counts = std::vector<std::int64_t>(2 * ranks + 1),
                      .power_sgd = std::vector(
                          ranks, low_rank::PowerSgd(
                                     tensors, {.rank = 1, .error_feedback = error_feedback, .seed = seed}))});
    }
  for (;;) {
    for (Job& job : jobs)
      if (!read(job.gradients)) return 0;
    transport::run_ranks(ranks, [&](transport::Transport& end) {
      for (Job& job : jobs) sum(method, job, end);
    });
    for (const Job& job : jobs)
      for (const std::vector<float>& each : job.gradients)
        if (each != job.gradients[0]) return 1;
    for (const Job& job : jobs) write(job.counts);
    for (const Job& job : jobs) write(job.gradients[0]);
    std::fflush(stdout);
  }
}
