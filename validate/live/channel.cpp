#include "validate/live/channel.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "collectives/transport/bytes.hpp"
#include "collectives/transport/low_latency.hpp"
#include "core/errors.hpp"
#include "validate/live/fusion_buffer.hpp"

namespace live {
namespace {

/// The final part of a precise wait that is a spin loop. A longer one would keep other workers' threads off
/// the processors and delay them more than a timer does.
constexpr std::chrono::microseconds kSpun(5);
/// How much longer a collective may take than a message: the transport's error, which names a rank, comes
/// first.
constexpr std::chrono::milliseconds kBeyondMessage(1000);

std::string_view words(planner::TaskLabel::Kind kind) {
  using Kind = planner::TaskLabel::Kind;
  switch (kind) {
    case Kind::reduce_scatter: return "reduce-scatter";
    case Kind::all_gather:
    case Kind::forward_gather: return "all-gather";
    case Kind::backward_gather: return "all-gather before backward";
    default: return "all-reduce";
  }
}

}  // namespace

std::string text(const Request& request) {
  return fmt::format("{} of group {}", words(request.label.kind), request.group + 1);
}

Channel::Channel(transport::Transport& transport, const ChannelOptions& options,
                 std::function<void(const Request&)> carry)
    : transport_(transport), options_(options), carry_(std::move(carry)) {
  ::prctl(PR_SET_TIMERSLACK, 1000UL);
  thread_ = std::thread([this] {
    try {
      serve();
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      failure_ = std::current_exception();
      ended_.notify_all();
    }
  });
}

Channel::~Channel() {
  {
    const std::scoped_lock lock(mutex_);
    stops_ = true;
    posted_.notify_all();
  }
  thread_.join();
}

std::size_t Channel::post(const std::vector<Request>& requests) {
  const std::scoped_lock lock(mutex_);
  const std::size_t first = requests_.size();
  const Clock::time_point now = Clock::now();
  for (const Request& request : requests) {
    if (options_.credit) waiting_.push_back(requests_.size());
    requests_.push_back(request);
    requests_.back().ready = now;
    has_ended_.push_back(false);
  }
  if (options_.credit) hand_over();
  posted_.notify_all();
  return first;
}

Clock::time_point Channel::wait(std::size_t number) {
  std::unique_lock lock(mutex_);
  await(lock, [&] { return bool{has_ended_[number]}; });
  return requests_[number].end;
}

void Channel::await(std::unique_lock<std::mutex>& lock, const std::function<bool()>& is_there) {
  last_end_ = Clock::now();
  awaited_ = &is_there;
  const std::chrono::nanoseconds delay = transport_.scheduling_delay();
  const auto until = [&] {
    return last_end_ + kBeyondMessage +
           transport::grown(options_.deadline, transport_.scheduling_delay() - delay);
  };
  while (!failure_ && !is_there() && Clock::now() < until()) ended_.wait_until(lock, until());
  awaited_ = nullptr;
  if (is_there()) return;
  throw_failure();
  throw core::EnvironmentError(fmt::format("no collective has ended for {:g} s",
                                           std::chrono::duration<double>(options_.deadline).count()));
}

void Channel::sleep_until(Clock::time_point until, bool precisely) {
  const Clock::time_point woken = precisely ? until - kSpun : until;
  {
    std::unique_lock lock(mutex_);
    throw_failure();
    while (Clock::now() < woken) {
      ended_.wait_until(lock, woken);
      throw_failure();
    }
  }
  while (Clock::now() < until) {
  }
}

void Channel::throw_failure() const {
  if (failure_) std::rethrow_exception(failure_);
}

std::vector<Request> Channel::take() {
  const std::scoped_lock lock(mutex_);
  begun_ = 0;
  count_ended_ = 0;
  has_ended_.clear();
  return std::exchange(requests_, {});
}

std::string Channel::doing() const {
  const std::scoped_lock lock(mutex_);
  return running_ ? text(requests_[*running_]) : "";
}

void Channel::serve() {
  transport::use_low_latency_scheduling();
  while (const std::optional<std::size_t> number = next()) run(*number);
}

void Channel::run(std::size_t number) {
  Request request;
  {
    const std::scoped_lock lock(mutex_);
    running_ = number;
    request = requests_[number];
  }
  request.start = Clock::now();
  if (options_.negotiation.count() > 0) std::this_thread::sleep_for(options_.negotiation);
  carry_(request);
  const std::scoped_lock lock(mutex_);
  requests_[number].start = request.start;
  requests_[number].end = Clock::now();
  last_end_ = requests_[number].end;
  has_ended_[number] = true;
  ++count_ended_;
  if (options_.credit) {
    in_flight_ -= request.size;
    --flying_;
    hand_over();
  }
  running_.reset();
  if (awaited_ != nullptr && (*awaited_)()) ended_.notify_all();
}

std::optional<std::size_t> Channel::next() {
  std::unique_lock lock(mutex_);
  if (!options_.credit) return next_in_order(lock);
  return transport_.rank() == 0 ? next_decided(lock) : next_told(lock);
}

std::optional<std::size_t> Channel::next_in_order(std::unique_lock<std::mutex>& lock) {
  posted_.wait(lock, [&] { return stops_ || begun_ < requests_.size(); });
  if (stops_) return {};
  const Clock::time_point tick = requests_[begun_].not_before;
  while (!stops_ && Clock::now() < tick) posted_.wait_until(lock, tick);
  if (stops_) return {};
  return begun_++;
}

/// Hands over whole collectives within the credit; a larger one runs alone. Handed-over collectives cannot be
/// overtaken.
void Channel::hand_over() {
  while (!waiting_.empty()) {
    const auto first = std::ranges::min_element(
        waiting_, {}, [&](std::size_t number) { return std::pair(requests_[number].priority, number); });
    const std::size_t number = *first;
    if (flying_ > 0 && in_flight_ + requests_[number].size > *options_.credit) return;
    waiting_.erase(first);
    in_flight_ += requests_[number].size;
    ++flying_;
    handed_.push_back(number);
    to_tell_.push_back(number);
  }
}

std::optional<std::size_t> Channel::next_decided(std::unique_lock<std::mutex>& lock) {
  posted_.wait(lock, [&] { return stops_ || !handed_.empty(); });
  if (stops_) return {};
  std::vector<std::uint64_t> labels;
  for (; !to_tell_.empty(); to_tell_.pop_front())
    labels.push_back(requests_[to_tell_.front()].label.packed());
  const std::size_t number = handed_.front();
  handed_.pop_front();
  lock.unlock();
  for (const std::uint64_t label : labels)
    for (std::uint32_t rank = 1; rank < transport_.size(); ++rank)
      transport_.send(rank, tag_of(Tag::order), transport::to_bytes(std::span(&label, 1)));
  return number;
}

std::optional<std::size_t> Channel::next_told(std::unique_lock<std::mutex>& lock) {
  posted_.wait(lock, [&] { return stops_ || count_ended_ < requests_.size(); });
  if (stops_) return {};
  lock.unlock();
  std::uint64_t packed = 0;
  transport::recv_into<std::uint64_t>(transport_, 0, tag_of(Tag::order), std::span(&packed, 1));
  lock.lock();
  const auto label = planner::TaskLabel::unpack(packed);
  const auto place = [&] { return std::ranges::find(requests_, label, &Request::label); };
  posted_.wait(lock, [&] { return stops_ || place() != requests_.end(); });
  if (stops_) return {};
  return static_cast<std::size_t>(place() - requests_.begin());
}

}  // namespace live
