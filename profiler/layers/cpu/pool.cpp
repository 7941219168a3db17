#include "profiler/layers/cpu/pool.hpp"

#include <algorithm>
#include <cassert>

namespace profiler {

Pool::Pool(int threads) {
  assert(threads >= 1);
  try {
    for (int i = 1; i < threads; ++i) helpers_.emplace_back([this, i] { help(i); });
  } catch (...) {  // the system provides no more threads
    end();
    throw;
  }
}

Pool::~Pool() { end(); }

void Pool::end() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  begun_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void Pool::take_pieces(const Work& work, std::int64_t count, int thread) {
  for (std::int64_t piece = next_++; piece < count; piece = next_++) work(piece, thread);
}

void Pool::help(int thread) {
  std::unique_lock lock(mutex_);
  for (std::uint64_t seen = 0;;) {
    begun_.wait(lock, [&] { return is_over_ || round_ != seen; });
    if (is_over_) return;
    seen = round_;
    const Work& work = *work_;
    const std::int64_t count = count_;
    lock.unlock();
    take_pieces(work, count, thread);
    lock.lock();
    if (--busy_ == 0) ended_.notify_one();
  }
}

void Pool::run(std::int64_t count, const Work& work) {
  if (count <= 1 || helpers_.empty()) {
    for (std::int64_t piece = 0; piece < count; ++piece) work(piece, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    count_ = count;
    next_ = 0;
    busy_ = static_cast<int>(helpers_.size());
    ++round_;
  }
  begun_.notify_all();
  take_pieces(work, count, 0);
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return busy_ == 0; });
}

void run_ranges(Pool& pool, std::int64_t count, std::int64_t grain,
                const std::function<void(std::int64_t begin, std::int64_t end, int part)>& work) {
  const std::int64_t share = std::max(grain, (count + pool.threads() - 1) / pool.threads());
  const std::int64_t parts = (count + share - 1) / share;
  pool.run(parts, [&](std::int64_t part, int) {
    work(part * share, std::min(count, (part + 1) * share), static_cast<int>(part));
  });
}

}  // namespace profiler
