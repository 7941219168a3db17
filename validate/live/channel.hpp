// The communication thread of a worker: runs collectives one after the other, in the order in which they are
// issued or, where its stream has a credit, by priority.

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
  std::int32_t priority = 0;       ///< with a credit: the lowest value of those that wait goes first
  std::int64_t size = 0;           ///< with a credit: what it counts
  Clock::time_point not_before{};  ///< without a credit
  Clock::time_point ready{};       ///< set when it is posted
  Clock::time_point start{};       ///< set by the thread, as is `end`
  Clock::time_point end{};
};

struct ChannelOptions {
  /// Goes by priority, as sim::Window has it. Rank 0 decides and tells the others which collective is next,
  /// as each rank may see gradients become ready at other times. None: collectives run in the order of
  /// posting.
  std::optional<std::int64_t> credit = {};
  std::chrono::nanoseconds negotiation{};  ///< spent before each collective
  /// No wait lasts longer than this beyond the last collective that ended.
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

  /// Posts what gets ready at one moment: with a credit none of it is handed over before all of it is there
  /// to choose from. Returns the number of the first to wait for; the others' numbers follow.
  std::size_t post(const std::vector<Request>& requests);
  /// Returns when the request had ended. What the thread has thrown is thrown here and by sleep_until().
  Clock::time_point wait(std::size_t number);
  /// With `precisely` the last bit is spun.
  void sleep_until(Clock::time_point until, bool precisely);

  /// Returns all requests since the last call, which must have ended.
  std::vector<Request> take();

  /// What the thread runs, for messages: "all-reduce of group 3".
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
  std::condition_variable posted_;  // for the thread
  std::condition_variable ended_;   // for compute: what it waits for is there, or never will be
  /// What compute waits for: to wake it for anything else would take a processor from those that communicate.
  const std::function<bool()>* awaited_ = nullptr;
  Clock::time_point last_end_;
  std::vector<Request> requests_;
  std::vector<bool> has_ended_;
  std::size_t count_ended_ = 0;
  std::size_t begun_ = 0;             // in order: of the requests
  std::vector<std::size_t> waiting_;  // with a credit: not handed over
  std::deque<std::size_t> handed_;    // and not begun
  std::deque<std::size_t> to_tell_;   // handed over, and not told to other ranks
  std::int64_t in_flight_ = 0;        // bytes
  std::size_t flying_ = 0;
  std::optional<std::size_t> running_;
  std::exception_ptr failure_;
  bool stops_ = false;
  std::thread thread_;
};

/// "all-reduce of group 3", counted from 1.
std::string text(const Request& request);

}  // namespace live
