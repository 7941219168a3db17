// The processes of a sweep: one, or those that mpirun started, of which the first distributes points and
// collects rows.

#pragma once

#include <functional>
#include <string>

#include "planner/sweep/work_queue.hpp"

namespace sweep {

/// At most one object exists at a time; MPI is finalized with it. Outside mpirun, and in a build without MPI,
/// this process is the only one.
class Ranks {
 public:
  /// Throws EnvironmentError if mpirun started several processes of a build without MPI.
  Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks();

  int count() const { return count_; }
  bool is_first() const { return rank_ == 0; }

  /// Runs a step in every process. If it throws in any process, the first process throws that error and all
  /// others return false; they should then exit.
  bool together(const std::function<void()>& step) const;

  /// Returns the first process's text in every process.
  std::string broadcast(std::string text) const;

  /// Computes the points of the queue with this number of threads per process. Only the queue of the first
  /// process is used, and it receives all results; the other processes return when no points are left.
  void compute(const Sweep& sweep, Rows rows, WorkQueue& work_queue, int threads) const;

 private:
  int rank_ = 0;
  int count_ = 1;
  bool is_mpi_ = false;
};

/// The number of processes that mpirun or a similar launcher started; 0 without a launcher.
int launched_processes();

}  // namespace sweep
