// The implementation of Ranks for builds with MPI. Other processes request points from the first and return
// their results; the first also computes, on separate threads, while its main thread, the only one that calls
// MPI, serves requests.

#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "planner/sweep/ranks.hpp"

namespace sweep {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

/// The kind of a message.
enum Tag : int { points_tag = 1, finished_tag, failure_tag };

/// A failure in the form sent to the first process.
struct Failure {
  int code = 0;  ///< 0: none; 1: environment error; 2: input error
  std::string text;
};

void send(int to, Tag tag, const std::string& text) {
  MPI_Send(text.data(), static_cast<int>(text.size()), MPI_BYTE, to, tag, MPI_COMM_WORLD);
}

std::string receive(int from, int tag) {
  MPI_Status status;
  MPI_Probe(from, tag, MPI_COMM_WORLD, &status);
  int size = 0;
  MPI_Get_count(&status, MPI_BYTE, &size);
  std::string out(static_cast<std::size_t>(size), '\0');
  MPI_Recv(out.data(), size, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return out;
}

Failure failure_of(const std::function<void()>& step) {
  try {
    step();
    return {};
  } catch (const core::InputError& error) {
    return {.code = 2, .text = error.what()};
  } catch (const std::bad_alloc&) {
    return {.code = 1, .text = "out of memory"};
  } catch (const std::exception& error) {
    return {.code = 1, .text = error.what()};
  }
}

[[noreturn]] void raise(const Failure& failure) {
  if (failure.code == 2) throw core::InputError(failure.text);
  throw core::EnvironmentError(failure.text);
}

/// Serializes leniently: file names in a message need not be UTF-8.
std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

/// A message of another process: the points finished since its last request, and the time they took.
struct Delivery {
  double seconds = 0;
  std::vector<Finished> finished;
  std::size_t failed_point = 0;
  Failure failure;
};

std::string to_text(const Delivery& delivery) {
  json finished = json::array();
  for (const Finished& each : delivery.finished)
    finished.push_back({each.point, each.record.row, each.record.warnings});
  return dump(
      {delivery.seconds, finished, delivery.failed_point, delivery.failure.code, delivery.failure.text});
}

Delivery delivery_from(const std::string& text) {
  const json value = json::parse(text);
  Delivery out = {.seconds = value.at(0),
                  .finished = {},
                  .failed_point = value.at(2),
                  .failure = {.code = value.at(3), .text = value.at(4)}};
  for (const json& each : value.at(1))
    out.finished.push_back({.point = each.at(0), .record = {.row = each.at(1), .warnings = each.at(2)}});
  return out;
}

void accept(const Delivery& delivery, WorkQueue& work_queue) {
  for (const Finished& each : delivery.finished) {
    try {
      work_queue.finish({each});
    } catch (...) {
      work_queue.fail(each.point, std::current_exception());
    }
  }
  if (delivery.failure.code == 0) return;
  try {
    raise(delivery.failure);
  } catch (...) {
    work_queue.fail(delivery.failed_point, std::current_exception());
  }
}

/// Serves requests until every other process knows that no points are left.
void serve(WorkQueue& work_queue, int processes) {
  const Portion portion = {.seconds = 0.02, .sharers = static_cast<std::size_t>(processes)};
  int asking = processes - 1;
  while (asking > 0) {
    int is_there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, finished_tag, MPI_COMM_WORLD, &is_there, &status);
    if (is_there == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));  // leaves the core to the computing
                                                                    // threads
      continue;
    }
    const Delivery delivery = delivery_from(receive(status.MPI_SOURCE, finished_tag));
    accept(delivery, work_queue);
    const std::vector<std::size_t> next =
        work_queue.take(portion.next(delivery.finished.size(), delivery.seconds, work_queue.left()));
    send(status.MPI_SOURCE, points_tag, json(next).dump());
    if (next.empty()) --asking;
  }
}

Delivery computed(const Sweep& sweep, Rows rows, std::vector<std::size_t> points, int threads) {
  Delivery out;
  const Clock::time_point begun = Clock::now();
  WorkQueue work_queue(std::move(points),
                       [&](Finished finished) { out.finished.push_back(std::move(finished)); });
  compute(sweep, rows, work_queue, threads);
  out.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  out.failure = failure_of([&] { work_queue.rethrow(); });
  if (const std::optional<std::size_t> point = work_queue.failed_point()) out.failed_point = *point;
  return out;
}

void work(const Sweep& sweep, Rows rows, int threads) {
  Delivery delivery;
  for (;;) {
    send(0, finished_tag, to_text(delivery));
    std::vector<std::size_t> points = json::parse(receive(0, points_tag));
    if (points.empty()) return;
    delivery = computed(sweep, rows, std::move(points), threads);
  }
}

/// Aborts all processes on failure: the others would wait forever for a reply.
void or_abort(const std::function<void()>& step) {
  const Failure failure = failure_of(step);
  if (failure.code == 0) return;
  fmt::print(stderr, "{}\n", core::one_line(failure.text));
  MPI_Abort(MPI_COMM_WORLD, failure.code);
}

}  // namespace

Ranks::Ranks() {
  if (launched_processes() == 0) return;
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  is_mpi_ = true;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &count_);
  if (provided < MPI_THREAD_FUNNELED)
    throw core::EnvironmentError("expected an MPI that works in programs with threads (MPI_THREAD_FUNNELED)");
}

Ranks::~Ranks() {
  if (is_mpi_) MPI_Finalize();
}

bool Ranks::together(const std::function<void()>& step) const {
  if (count_ == 1) {
    step();
    return true;
  }
  const Failure own = failure_of(step);
  const int candidate = own.code == 0 ? count_ : rank_;
  int first_failed = 0;
  MPI_Allreduce(&candidate, &first_failed, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (first_failed == count_) return true;
  if (is_first() && first_failed == 0) raise(own);
  if (rank_ == first_failed) send(0, failure_tag, dump({own.code, own.text}));
  if (!is_first()) return false;
  const json failure = json::parse(receive(first_failed, failure_tag));
  raise({.code = failure.at(0),
         .text = fmt::format("{} (process {})", failure.at(1).get<std::string>(), first_failed)});
}

std::string Ranks::broadcast(std::string text) const {
  if (count_ == 1) return text;
  auto size = static_cast<int>(text.size());
  MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD);
  text.resize(static_cast<std::size_t>(size));
  MPI_Bcast(text.data(), size, MPI_BYTE, 0, MPI_COMM_WORLD);
  return text;
}

void Ranks::compute(const Sweep& sweep, Rows rows, WorkQueue& work_queue, int threads) const {
  if (count_ == 1) return sweep::compute(sweep, rows, work_queue, threads);
  if (!is_first()) return or_abort([&] { work(sweep, rows, threads); });
  const std::jthread own([&] { sweep::compute(sweep, rows, work_queue, threads); });
  or_abort([&] { serve(work_queue, count_); });
}

}  // namespace sweep
