// The communication thread of a worker: runs collectives one after the other, in the order in which they are
// issued or, as ByteScheduler does, the one for the layer nearest the input first.

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
#include "planner/graph/lower.hpp"
#include "planner/pipeline/pipeline.hpp"

namespace live {

using Clock = std::chrono::steady_clock;

/// A collective that compute has issued.
struct Request {
  planner::TaskLabel::Kind label = planner::TaskLabel::Kind::all_reduce;
  std::uint32_t item = 0;  ///< as TaskLabel has it
  std::uint32_t group = 0;
  core::CollectiveKind kind = core::CollectiveKind::all_reduce;
  std::int32_t layer = 0;          ///< nearest the input of those it carries; where the channel goes by layer
  std::int64_t bytes = 0;          ///< likewise, for the credit
  Clock::time_point not_before{};  ///< its tick
  Clock::time_point ready{};       ///< set by post(), the next two by the thread
  Clock::time_point start{};
  Clock::time_point end{};
};

/// Where the channel goes by layer, rank 0 decides and tells the others which is next, as each rank may see
/// gradients become ready at other times.
class Channel {
 public:
  /// `carry` runs a collective; nothing else may use the transport while requests are open. No wait here
  /// lasts longer than `deadline` beyond the last collective that ended.
  Channel(transport::Transport& transport, const planner::Program& program,
          std::function<void(const Request&)> carry, std::chrono::milliseconds deadline);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// A number to wait for.
  std::size_t post(Request request);
  /// What gets ready at one moment, at once: where the channel goes by layer none of it is handed over before
  /// all of it is there to choose from. The number of the first; the others' follow.
  std::size_t post_all(std::vector<Request> requests);
  /// When it had ended. What the thread has thrown is thrown here, and by the next three.
  Clock::time_point wait(std::size_t number);
  /// When the last had ended; nothing where none was posted.
  std::optional<Clock::time_point> wait_all();
  /// With `precisely` the last bit is spun.
  void sleep_until(Clock::time_point until, bool precisely);

  /// All requests since the last call, which must have ended.
  std::vector<Request> take();

  /// What the thread runs, for whom it may concern: "all-reduce of group 3".
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
  std::optional<planner::ByLayer> by_layer_;
  std::chrono::nanoseconds negotiation_;
  std::function<void(const Request&)> carry_;
  std::chrono::milliseconds deadline_;

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
  std::vector<std::size_t> waiting_;  // by layer: not handed over
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
