// A thread pool for numbered pieces of work.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace profiler {

/// The destructor ends its threads. Work must not throw, and one run() must end before the next begins.
class Pool {
 public:
  /// The caller is one of the threads.
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return static_cast<int>(helpers_.size()) + 1; }

  /// Calls work(piece, thread) for each piece from 0 to count - 1, in any order, on any thread (from 0 to
  /// threads() - 1), and returns when all have ended.
  using Work = std::function<void(std::int64_t piece, int thread)>;
  void run(std::int64_t count, const Work& work);

 private:
  void help(int thread);
  void end();
  void take_pieces(const Work& work, std::int64_t count, int thread);

  std::mutex mutex_;
  std::condition_variable begun_;
  std::condition_variable ended_;
  const Work* work_ = nullptr;
  std::int64_t count_ = 0;
  std::uint64_t round_ = 0;
  int busy_ = 0;
  bool is_over_ = false;
  std::atomic<std::int64_t> next_ = 0;
  std::vector<std::thread> helpers_;
};

/// Splits 0 .. count into one range for each thread, all but the last of at least `grain`; always the same
/// ranges for the same number of threads.
void run_ranges(Pool& pool, std::int64_t count, std::int64_t grain,
                const std::function<void(std::int64_t begin, std::int64_t end, int part)>& work);

}  // namespace profiler
