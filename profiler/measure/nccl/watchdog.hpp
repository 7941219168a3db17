// Ends this process where a call into a library does not return: what NCCL waits for inside, nobody can stop.

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace measure {

class Watchdog {
 public:
  /// `check_others` throws if another rank has failed; it is asked while a call is watched.
  Watchdog(std::string who, std::function<void()> check_others);
  /// Goes on watching what has begun and not ended.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// From now on `what`, a literal, has until the deadline; then one line on standard error, and exit code 1.
  /// Where another rank has failed it is given a second more. Takes no lock: between timed calls.
  void begin(const char* what, std::chrono::milliseconds deadline);
  void end();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Watched for as long as it lives.
class Watched {
 public:
  Watched(Watchdog& dog, const char* what, std::chrono::milliseconds deadline) : dog_(dog) {
    dog_.begin(what, deadline);
  }
  ~Watched() { dog_.end(); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  Watchdog& dog_;
};

}  // namespace measure
