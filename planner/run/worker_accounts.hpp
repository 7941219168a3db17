// Adds up what each worker does, task by task, whichever way workers are simulated.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/run/all_workers.hpp"
#include "planner/run/predict.hpp"
#include "planner/schedule/setting.hpp"

namespace planner {

class WorkerAccounts {
 public:
  WorkerAccounts(const Setting& setting, const Run& run, const std::vector<std::int64_t>& shown);

  std::size_t workers() const { return out_.busy.size(); }

  /// A worker computes so long, outages aside.
  void computes(std::size_t worker, const TaskLabel& label, sim::Time duration);
  /// A collective that each worker has begun and left at these times.
  void meets(const TaskLabel& label, std::span<const sim::Time> begins, std::span<const sim::Time> ends);
  /// Any task, by worker.
  void ran(sim::TaskId task, std::span<const sim::Time> begins, std::span<const sim::Time> ends);

  AllWorkers take() && { return std::move(out_); }

 private:
  /// Of spans, told in the order in which they end.
  class Union {
   public:
    /// By how much it grows.
    sim::Time add(sim::Time begin, sim::Time end);

   private:
    std::vector<sim::Span> spans_;  // apart from one another, in order
  };

  const Run& run_;
  std::vector<std::vector<std::size_t>> marks_by_task_;
  std::array<std::size_t, TaskLabel::kKinds> first_of_{};  // iteration that counts, by kind
  AllWorkers out_;
  Union busy_;  // of any channel, in the iterations that count
  Union all_busy_;
};

}  // namespace planner
