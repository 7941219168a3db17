#include "profiler/measure/nccl/watchdog.hpp"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include <fmt/format.h>

namespace measure {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
constexpr milliseconds kLook(50);
constexpr milliseconds kAfterOthers(1000);
constexpr std::int64_t kNever = INT64_MAX;

std::int64_t now_ms() {
  return std::chrono::duration_cast<milliseconds>(Clock::now().time_since_epoch()).count();
}

[[noreturn]] void exit_process(std::string line) {
  line += '\n';
  (void)!::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(1);
}

}  // namespace

struct Watchdog::State {
  std::string who;
  std::atomic<const char*> what{""};
  std::atomic<std::int64_t> allowed_ms{0};
  std::atomic<std::int64_t> limit_ms{kNever};
  std::atomic<bool> is_done{false};
  std::mutex asking;
  std::function<void()> check_others;

  void watch() {
    while (!is_done || limit_ms != kNever) {
      std::this_thread::sleep_for(kLook);
      const std::int64_t limit = limit_ms;
      if (limit == kNever) continue;
      if (now_ms() >= limit)
        exit_process(fmt::format("{}: {} has not returned within {:g} s", who, what.load(),
                                 static_cast<double>(allowed_ms.load()) / 1000));
      if (const std::string why = failure_of_others(); !why.empty()) {
        std::this_thread::sleep_for(kAfterOthers);
        if (limit_ms == limit) exit_process(why);
      }
    }
  }

  std::string failure_of_others() {
    const std::scoped_lock lock(asking);
    try {
      check_others();
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  }
};

Watchdog::Watchdog(std::string who, std::function<void()> check_others) : state_(std::make_shared<State>()) {
  state_->who = std::move(who);
  state_->check_others = std::move(check_others);
  std::thread([state = state_] { state->watch(); }).detach();
}

Watchdog::~Watchdog() {
  {
    const std::scoped_lock lock(state_->asking);
    state_->check_others = [] {};  // refers to an object that is destroyed next
  }
  state_->is_done = true;
}

void Watchdog::begin(const char* what, milliseconds deadline) {
  state_->what = what;
  state_->allowed_ms = deadline.count();
  state_->limit_ms = now_ms() + deadline.count();
}

void Watchdog::end() { state_->limit_ms = kNever; }

}  // namespace measure
