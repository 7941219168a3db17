#include "profiler/measure/overlap/overlap.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <thread>

#include <fmt/format.h>

#include "collectives/transport/bytes.hpp"
#include "collectives/transport/collectives.hpp"
#include "core/errors.hpp"
#include "core/statistics.hpp"
#include "profiler/measure/exchange_texts.hpp"

namespace profiler {
namespace {

using Clock = std::chrono::steady_clock;
using measure::Collective;

constexpr std::uint32_t kTag = 300;
constexpr double kMaxCollectives = 100'000;
constexpr int kRounds = 3;
constexpr int kMaxRounds = 8;
/// Collectives beside iterations continue for this multiple of the time of the iterations alone.
constexpr double kLonger = 1.5;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

std::string as_text(const std::vector<double>& numbers) {
  const auto* bytes = reinterpret_cast<const char*>(numbers.data());
  return {bytes, numbers.size() * sizeof(double)};
}

std::vector<double> as_numbers(const std::string& text) {
  std::vector<double> out(text.size() / sizeof(double));
  std::memcpy(out.data(), text.data(), out.size() * sizeof(double));
  return out;
}

class Measurement {
 public:
  Measurement(transport::Transport& control, measure::Engine& engine, const std::function<double()>& compute,
              const OverlapOptions& options)
      : control_(control), engine_(engine), compute_(compute), options_(options) {
    const std::vector<float> zeros(static_cast<std::size_t>(options.bytes) / sizeof(float));
    engine_.load(zeros);
  }

  /// Runs in rounds, so that a gradual slow-down of the machine is not attributed to the overlap.
  OverlapSamples run() {
    for (int i = 0; i < options_.warm_up; ++i) (void)compute("warm-up");
    std::vector<double> warm_up;
    communicate(options_.warm_up, warm_up);
    for (int round = 1; round <= kMaxRounds; ++round) {
      transport::barrier(control_, kTag);
      for (int i = 0; i < share_; ++i)
        out_.compute_alone.push_back(compute(fmt::format("round {}, iterations alone", round)));
      communicate(share_, out_.communication_alone);
      const double ratio =
          core::statistics(out_.compute_alone).median / core::statistics(out_.communication_alone).median;
      communicate(static_cast<int>(std::min(std::ceil(kLonger * share_ * max(ratio)) + 1, kMaxCollectives)),
                  out_.communication_overlapped, &out_.compute_overlapped,
                  fmt::format("round {}, iterations during all_reduces", round));
      const double min = -max(-static_cast<double>(out_.compute_overlapped.size()));
      if (round >= kRounds && min >= options_.repetitions) return out_;
    }
    throw core::EnvironmentError(fmt::format(
        "overlap: fewer than {} iterations end while collectives of {} bytes run: expected larger "
        "collectives or a smaller batch",
        options_.repetitions, options_.bytes));
  }

 private:
  /// One iteration, and its time.
  double compute(const std::string& what) {
    const double in_rounds = kRounds * (1 + kLonger) * share_;
    if (options_.progress)
      options_.progress(static_cast<std::size_t>(options_.warm_up + std::lround(in_rounds)), what);
    return compute_();
  }

  /// Returns the maximum over all ranks, so that all continue alike.
  double max(double own) {
    double out = own;
    for (const std::string& text : measure::exchange_texts(control_, kTag, as_text({own})))
      out = std::max(out, as_numbers(text).at(0));
    return out;
  }

  /// Runs in its own thread, as in training, and uses control and engine meanwhile. Computes at the same time
  /// if there is something to compute; only iterations that begin and end meanwhile count.
  void communicate(int collectives, std::vector<double>& into,
                   std::vector<double>* compute_overlapped = nullptr, const std::string& what = "") {
    transport::barrier(control_, kTag);
    std::atomic<bool> is_over = false;
    std::exception_ptr failure;
    std::thread communication([&] {
      try {
        engine_.enter_thread();
        for (int i = 0; i < collectives; ++i) {
          const Clock::time_point begin = Clock::now();
          engine_.start(Collective::all_reduce);
          engine_.finish();
          into.push_back(us_since(begin));
        }
      } catch (...) {
        failure = std::current_exception();
      }
      is_over = true;
    });
    while (compute_overlapped != nullptr && !is_over) {
      const double us = compute(what);
      if (!is_over) compute_overlapped->push_back(us);
    }
    communication.join();
    if (failure) std::rethrow_exception(failure);
  }

  transport::Transport& control_;
  measure::Engine& engine_;
  const std::function<double()>& compute_;
  OverlapOptions options_;
  const int share_ = (options_.repetitions + kRounds - 1) / kRounds;  ///< of the repetitions, in each round
  OverlapSamples out_;
};

double slowdown(const std::vector<double>& alone, const std::vector<double>& overlapped) {
  return core::statistics(overlapped).median / core::statistics(alone).median - 1;
}

}  // namespace

double OverlapSamples::compute_slowdown() const { return slowdown(compute_alone, compute_overlapped); }
double OverlapSamples::communication_slowdown() const {
  return slowdown(communication_alone, communication_overlapped);
}

std::vector<OverlapSamples> measure_overlap(transport::Transport& control, measure::Engine& engine,
                                            const std::function<double()>& compute,
                                            const OverlapOptions& options) {
  const OverlapSamples own = Measurement(control, engine, compute, options).run();
  std::vector<OverlapSamples> all(control.size());
  for (const auto member :
       {&OverlapSamples::compute_alone, &OverlapSamples::compute_overlapped,
        &OverlapSamples::communication_alone, &OverlapSamples::communication_overlapped}) {
    const std::vector<std::string> texts = measure::exchange_texts(control, kTag, as_text(own.*member));
    for (std::size_t rank = 0; rank < all.size(); ++rank) all[rank].*member = as_numbers(texts[rank]);
  }
  return all;
}

}  // namespace profiler
