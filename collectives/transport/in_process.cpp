#include "collectives/transport/in_process.hpp"

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include <fmt/format.h>

namespace transport {
namespace {

struct Source {
  std::uint32_t from;
  std::uint32_t tag;
  bool operator==(const Source&) const = default;
  bool operator<(const Source& other) const {
    return from != other.from ? from < other.from : tag < other.tag;
  }
};

/// Messages that wait for one rank.
struct Inbox {
  std::map<Source, std::deque<Bytes>> messages;
  std::optional<Source> awaited;  ///< the message for which the rank sleeps
  std::condition_variable changed;
  bool left = false;  ///< the rank has returned or thrown
};

/// The state that the threads share. One lock is enough: messages are moved under it, never copied.
class Hub {
 public:
  explicit Hub(std::uint32_t size) : inboxes_(size), awake_(size) {}

  std::uint32_t size() const { return static_cast<std::uint32_t>(inboxes_.size()); }

  void send(std::uint32_t from, std::uint32_t to, std::uint32_t tag, Bytes message) {
    if (to >= inboxes_.size() || to == from)
      throw std::invalid_argument(fmt::format("rank {} of {} sends to rank {}", from, inboxes_.size(), to));
    const std::scoped_lock lock(mutex_);
    if (first_error_) throw TransportError(fmt::format("rank {} sends after another rank has failed", from));
    Inbox& inbox = inboxes_[to];
    inbox.messages[{from, tag}].push_back(std::move(message));
    if (inbox.awaited == Source{from, tag}) wake(inbox);
  }

  Bytes recv(std::uint32_t rank, Source source) {
    if (source.from >= inboxes_.size() || source.from == rank)
      throw std::invalid_argument(
          fmt::format("rank {} of {} receives from rank {}", rank, inboxes_.size(), source.from));
    std::unique_lock lock(mutex_);
    Inbox& inbox = inboxes_[rank];
    for (bool slept = false;; slept = true) {
      const auto found = inbox.messages.find(source);
      if (found != inbox.messages.end()) return take(inbox, found);
      if (!slept) wait_for_message(inbox, source);
      const std::string reason = why_undeliverable(rank, source);
      if (!reason.empty()) {
        if (inbox.awaited) wake(inbox);
        throw TransportError(reason);
      }
      inbox.changed.wait(lock);
    }
  }

  /// The rank has returned, or thrown `error`.
  void leave(std::uint32_t rank, const std::exception_ptr& error) {
    const std::scoped_lock lock(mutex_);
    if (error && !first_error_) first_error_ = error;
    inboxes_[rank].left = true;
    --awake_;
    for (Inbox& inbox : inboxes_) inbox.changed.notify_all();
  }

  /// Throws the first error. To be called when all ranks have left.
  void check() const {
    if (first_error_) std::rethrow_exception(first_error_);
    for (std::size_t rank = 0; rank < inboxes_.size(); ++rank)
      if (!inboxes_[rank].messages.empty()) {
        const auto& [source, unread] = *inboxes_[rank].messages.begin();
        throw TransportError(fmt::format("rank {} left a message of {} bytes (tag {}) from rank {} unread",
                                         rank, unread.front().size(), source.tag, source.from));
      }
  }

 private:
  static Bytes take(Inbox& inbox, std::map<Source, std::deque<Bytes>>::iterator found) {
    Bytes message = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) inbox.messages.erase(found);
    return message;
  }

  void wait_for_message(Inbox& inbox, Source source) {
    inbox.awaited = source;
    --awake_;
  }

  void wake(Inbox& inbox) {
    inbox.awaited.reset();
    ++awake_;
    inbox.changed.notify_one();
  }

  /// Returns why the message cannot arrive any more; empty if it still can.
  std::string why_undeliverable(std::uint32_t rank, Source source) const {
    const std::string wait =
        fmt::format("rank {} waits for a message (tag {}) from rank {}", rank, source.tag, source.from);
    if (first_error_) return wait + ", but a rank has failed";
    if (inboxes_[source.from].left) return wait + ", which has left";
    if (awake_ == 0) return wait + ", and no other rank is awake to send one";
    return "";
  }

  std::mutex mutex_;
  std::vector<Inbox> inboxes_;
  std::size_t awake_;  ///< ranks that have not left and do not sleep in recv
  std::exception_ptr first_error_;
};

class InProcess final : public Transport {
 public:
  InProcess(Hub& hub, std::uint32_t rank) : hub_(hub), rank_(rank) {}

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t size() const override { return hub_.size(); }
  void send(std::uint32_t to, std::uint32_t tag, Bytes message) override {
    hub_.send(rank_, to, tag, std::move(message));
  }

 private:
  Bytes receive(std::uint32_t from, std::uint32_t tag, std::size_t /*max_bytes*/) override {
    return hub_.recv(rank_, {from, tag});
  }

  Hub& hub_;
  std::uint32_t rank_;
};

void run_rank(Hub& hub, std::uint32_t rank, const std::function<void(Transport&)>& run) {
  std::exception_ptr error;
  try {
    InProcess end(hub, rank);
    run(end);
  } catch (...) {
    error = std::current_exception();
  }
  hub.leave(rank, error);
}

}  // namespace

void run_ranks(std::uint32_t size, const std::function<void(Transport&)>& rank) {
  if (size == 0) throw std::invalid_argument("a collective needs at least one rank");
  Hub hub(size);
  std::vector<std::thread> threads;
  threads.reserve(size);
  for (std::uint32_t r = 0; r < size; ++r) {
    try {
      threads.emplace_back([&hub, &rank, r] { run_rank(hub, r, rank); });
    } catch (...) {  // no more threads are available: the running ranks must not wait for this one
      hub.leave(r, std::current_exception());
    }
  }
  for (std::thread& thread : threads) thread.join();
  hub.check();
}

}  // namespace transport
