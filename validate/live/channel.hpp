// The communication thread of a worker: runs collectives sequentially, in issue order or, if its stream has a
// credit, by priority.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/transport/transport.hpp"
#include "planner/graph/lowered.hpp"

namespace live {

using Clock = std::chrono::steady_clock;

/// A collective that compute has issued: a task of the channel's stream.
struct Request {
  planner::TaskLabel label;
  std::uint32_t group = 0;
  std::int32_t priority = 0;       ///< with a credit: the lowest value that waits runs first
  std::int64_t size = 0;           ///< with a credit: bytes that count against it
  Clock::time_point not_before{};  ///< without a credit: earliest start
  Clock::time_point ready{};       ///< set when it is posted
  Clock::time_point start{};       ///< set by the thread; `end` likewise
  Clock::time_point end{};
};

struct ChannelOptions {
  /// If set, collectives run by priority under this credit, as in sim::Window. Rank 0 chooses the next
  /// collective and announces it to the others, as ranks may see gradients become ready at different times.
  /// If absent, collectives run in posting order.
  std::optional<std::int64_t> credit = {};
  std::chrono::nanoseconds negotiation{};  ///< time before each collective
  /// The maximum wait beyond the end of the last collective.
  std::chrono::milliseconds deadline{60'000};
};

class Channel {
 public:
  /// `carry` runs a collective; nothing else may use the transport while requests are open.
  Channel(transport::Transport& transport, const ChannelOptions& options,
          std::function<void(const Request&)> carry);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Posts the requests that become ready at one moment; with a credit all of them are queued before one is
  /// chosen. Returns the number of the first, for wait(); the others are numbered consecutively.
  std::size_t post(const std::vector<Request>& requests);
  /// Waits for a request and returns its end time. Exceptions of the thread are rethrown here and by
  /// sleep_until().
  Clock::time_point wait(std::size_t number);
  /// Sleeps until a time; with `precisely` the last part is a spin loop.
  void sleep_until(Clock::time_point until, bool precisely);

  /// Returns all requests since the last call; they must have ended.
  std::vector<Request> take();

  /// The collective that the thread currently runs, for messages: "all-reduce of group 3".
  std::string doing() const;

 private:
  void serve();
  std::optional<std::size_t> next();
  std::optional<std::size_t> next_in_order(std::unique_lock<std::mutex>& lock);
  std::optional<std::size_t> next_decided(std::unique_lock<std::mutex>& lock);
  std::optional<std::size_t> next_told(std::unique_lock<std::mutex>& lock);
  void run(std::size_t number);
  void hand_over();
  void await(std::unique_lock<std::mutex>& lock, const std::function<bool()>& is_there);
  void throw_failure() const;

  transport::Transport& transport_;
  ChannelOptions options_;
  std::function<void(const Request&)> carry_;

  mutable std::mutex mutex_;
  std::condition_variable posted_;  // notifies the thread
  std::condition_variable ended_;   // notifies compute: its condition holds, or the thread has failed
  /// The condition for which compute waits. Compute is woken only for it, since other wake-ups would take a
  /// processor from communicating threads.
  const std::function<bool()>* awaited_ = nullptr;
  Clock::time_point last_end_;
  std::vector<Request> requests_;
  std::vector<bool> has_ended_;
  std::size_t count_ended_ = 0;
  std::size_t begun_ = 0;             // in order mode: number of requests begun
  std::vector<std::size_t> waiting_;  // with a credit: not handed over yet
  std::deque<std::size_t> handed_;    // handed over and not begun
  std::deque<std::size_t> to_tell_;   // handed over and not yet announced to other ranks
  std::int64_t in_flight_ = 0;        // bytes
  std::size_t flying_ = 0;
  std::optional<std::size_t> running_;
  std::exception_ptr failure_;
  bool stops_ = false;
  std::thread thread_;
};

/// Formats "all-reduce of group 3", counted from 1.
std::string text(const Request& request);

}  // namespace live
