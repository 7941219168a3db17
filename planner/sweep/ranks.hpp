// The processes of a sweep: one, or those that mpirun started, of which the first hands out and collects.

#pragma once

#include <functional>
#include <string>

#include "planner/sweep/work_queue.hpp"

namespace sweep {

/// There is at most one at a time; MPI ends with it. Outside mpirun, and in a build without MPI, the only
/// process is the first of one.
class Ranks {
 public:
  /// Throws EnvironmentError in a build without MPI where mpirun started several processes.
  Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks();

  int count() const { return count_; }
  bool is_first() const { return rank_ == 0; }

  /// Runs a step in every process. Where it throws in any, the first process throws that error, and in the
  /// others this returns false: there is nothing left to do but end.
  bool together(const std::function<void()>& step) const;

  /// The first process's text, in every process.
  std::string broadcast(std::string text) const;

  /// Computes what the board hands out on so many threads of each process. Only the board of the first
  /// counts, and gets everything; the others return when nothing is left.
  void compute(const Sweep& sweep, Rows rows, WorkQueue& work_queue, int threads) const;

 private:
  int rank_ = 0;
  int count_ = 1;
  bool is_mpi_ = false;
};

/// How many processes mpirun or the like started; 0 where nothing did.
int launched_processes();

}  // namespace sweep
