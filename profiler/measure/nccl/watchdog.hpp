// Ends this process if a library call does not return, because nothing can interrupt waits inside NCCL.

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace measure {

class Watchdog {
 public:
  /// `check_others` throws if another rank has failed; it is called while a call is watched.
  Watchdog(std::string who, std::function<void()> check_others);
  /// Continues to watch a call that has begun and not ended.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// From now on `what`, a literal, must end before the deadline; otherwise prints one line on standard error
  /// and exits with code 1. If another rank has failed, allows one more second. Takes no lock, so it may be
  /// used between timed calls.
  void begin(const char* what, std::chrono::milliseconds deadline);
  void end();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Watches a call during its lifetime.
class WatchScope {
 public:
  WatchScope(Watchdog& dog, const char* what, std::chrono::milliseconds deadline) : dog_(dog) {
    dog_.begin(what, deadline);
  }
  ~WatchScope() { dog_.end(); }
  WatchScope(const WatchScope&) = delete;
  WatchScope& operator=(const WatchScope&) = delete;

 private:
  Watchdog& dog_;
};

}  // namespace measure
