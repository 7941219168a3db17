// The implementation of Ranks for builds with MPI. Other processes request points from the first and return
// their results; the first also computes, on separate threads, while its main thread, the only one that calls
// MPI, serves requests.

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
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
enum Tag : int { request_tag = 1, points_tag, finished_tag, rows_tag, failure_tag };

/// A failure in the form sent to the first process.
struct Failure {
  int code = 0;  ///< 0: none; 1: environment error; 2: input error
  std::string text;
};

void send(int to, Tag tag, const std::string& text) {
  MPI_Send(text.data(), static_cast<int>(text.size()), MPI_BYTE, to, tag, MPI_COMM_WORLD);
}

/// Leniently: file names in a message need not be UTF-8.
void send(int to, Tag tag, const json& value) {
  send(to, tag, value.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string receive(int from, Tag tag) {
  MPI_Status status;
  MPI_Probe(from, tag, MPI_COMM_WORLD, &status);
  int size = 0;
  MPI_Get_count(&status, MPI_BYTE, &size);
  std::string out(static_cast<std::size_t>(size), '\0');
  MPI_Recv(out.data(), size, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return out;
}

json receive_json(int from, Tag tag) { return json::parse(receive(from, tag)); }

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

/// What another process has done since its last request for points.
struct Delivery {
  double seconds = 0;
  std::vector<Finished> finished;
  std::size_t failed_point = 0;
  Failure failure;
};

/// A request for points: how fast the last ones were, and whether one failed. The rows follow when the answer
/// has been received, so that a process need not wait until the first one has read them.
json request_of(const Delivery& delivery) {
  return {delivery.finished.size(), delivery.seconds, delivery.failed_point, delivery.failure.code,
          delivery.failure.text};
}

/// The points of rows, how long each row is, and warnings; and the rows as they are, as hundreds of thousands
/// of them a second pass through the first process.
struct Sent {
  json about;
  std::string rows;
};

Sent sent(const std::vector<Finished>& finished) {
  json points = json::array();
  json sizes = json::array();
  json warnings = json::array();
  Sent out;
  for (const Finished& each : finished) {
    if (!each.record.warnings.empty()) warnings.push_back({points.size(), each.record.warnings});
    points.push_back(each.point);
    sizes.push_back(each.record.row.size());
    out.rows += each.record.row;
  }
  out.about = {{"points", std::move(points)}, {"sizes", std::move(sizes)}, {"warnings", std::move(warnings)}};
  return out;
}

std::vector<Finished> receive_finished(int from) {
  const json about = receive_json(from, finished_tag);
  const std::string rows = receive(from, rows_tag);
  const json& points = about.at("points");
  std::vector<Finished> out;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t size = about.at("sizes").at(i);
    out.push_back({.point = points.at(i), .record = {.row = rows.substr(begin, size), .warnings = {}}});
    begin += size;
  }
  for (const json& each : about.at("warnings")) out.at(each.at(0)).record.warnings = each.at(1);
  return out;
}

void fail(const json& request, WorkQueue& work_queue) {
  const Failure failure = {.code = request.at(3), .text = request.at(4)};
  if (failure.code == 0) return;
  try {
    raise(failure);
  } catch (...) {
    work_queue.fail(request.at(2), std::current_exception());
  }
}

void finish(std::vector<Finished> finished, WorkQueue& work_queue) {
  if (finished.empty()) return;
  const std::size_t first = finished.front().point;
  try {
    work_queue.finish(std::move(finished));
  } catch (...) {
    work_queue.fail(first, std::current_exception());
  }
}

/// Serves requests until every other process knows that no points are left.
void serve(WorkQueue& work_queue, int processes) {
  const Portion portion = {.seconds = 0.02, .sharers = static_cast<std::size_t>(processes)};
  int asking = processes - 1;
  while (asking > 0) {
    int is_there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, request_tag, MPI_COMM_WORLD, &is_there, &status);
    if (is_there == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));  // leaves the core to the computing
                                                                    // threads
      continue;
    }
    const json request = receive_json(status.MPI_SOURCE, request_tag);
    fail(request, work_queue);
    const std::vector<std::size_t> next =
        work_queue.take(portion.next(request.at(0), request.at(1), work_queue.left()));
    send(status.MPI_SOURCE, points_tag, json(next));
    finish(receive_finished(status.MPI_SOURCE), work_queue);
    if (next.empty()) --asking;
  }
}

Delivery computed(const Sweep& sweep, Rows rows, std::vector<std::size_t> points, int threads) {
  Delivery out;
  const Clock::time_point begun = Clock::now();
  WorkQueue work_queue(std::move(points), [&](std::vector<Finished> finished) {
    std::move(finished.begin(), finished.end(), std::back_inserter(out.finished));
  });
  compute(sweep, rows, work_queue, threads);
  out.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  out.failure = failure_of([&] { work_queue.rethrow(); });
  if (const std::optional<std::size_t> point = work_queue.failed_point()) out.failed_point = *point;
  return out;
}

void work(const Sweep& sweep, Rows rows, int threads) {
  Delivery delivery;
  for (;;) {
    const Sent last = sent(delivery.finished);
    send(0, request_tag, request_of(delivery));
    std::vector<std::size_t> points = receive_json(0, points_tag);
    send(0, finished_tag, last.about);
    send(0, rows_tag, last.rows);
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
  if (rank_ == first_failed) send(0, failure_tag, json{own.code, own.text});
  if (!is_first()) return false;
  const json failure = receive_json(first_failed, failure_tag);
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
