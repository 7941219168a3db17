#include "collectives/transport/tcp/tcp.hpp"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "collectives/transport/low_latency.hpp"
#include "collectives/transport/tcp/mesh.hpp"
#include "collectives/transport/tcp/pacer.hpp"

namespace transport {
namespace {

/// Number of heartbeats within the silence limit.
constexpr std::uint32_t kHeartbeatsPerSilence = 8;
/// How long a failing rank may take to report its failure.
constexpr std::chrono::milliseconds kFailureReportTime(500);
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 36;
constexpr std::size_t kMaxAtOnce = 1 << 20;

enum class Kind : std::uint32_t { message = 1, heartbeat, bye, failure };

/// Precedes every message.
struct Header {
  Kind kind = Kind::heartbeat;
  std::uint32_t tag = 0;  ///< for a failure: the rank where it began
  std::uint64_t bytes = 0;
};

struct Outgoing {
  Header header;
  Bytes bytes;
  std::size_t sent = 0;  ///< header and content
  Clock::time_point since{};

  std::size_t size() const { return sizeof header + bytes.size(); }
};

struct Incoming {
  Header header;
  Bytes bytes;
  std::size_t got = 0;  ///< header and content
};

struct Peer {
  Descriptor socket;
  std::deque<Outgoing> queue;
  Incoming incoming;
  bool is_heard = false;     ///< since the last heartbeat
  std::uint32_t silent = 0;  ///< consecutive heartbeats without a message from it
  bool has_spoken = false;   ///< ever: it has met all others
  bool has_left = false;
  bool is_open = false;   ///< more may arrive
  bool is_stuck = false;  ///< its socket accepts no more bytes for now
};

/// The rank where a failure began, and a complete description.
struct Failure {
  std::uint32_t rank = 0;
  std::string why;
};

std::string reason(int error) { return std::generic_category().message(error); }

bool is_for_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

Bytes bytes_of(std::string_view text) {
  Bytes out(text.size());
  if (!text.empty()) std::memcpy(out.data(), text.data(), text.size());
  return out;
}

}  // namespace

/// The connections and the thread that serves them. The lock protects everything that both threads use.
class Tcp::Links {
 public:
  Links(const Membership& membership, const TcpOptions& options)
      : options_(options), rank_(membership.rank), peers_(membership.size) {
    met_by_ = Clock::now() + options.meeting;
    Mesh mesh = connect_mesh(membership, met_by_, options.version);
    processes_ = std::move(mesh.processes);
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      peers_[rank].socket = std::move(mesh.sockets[rank]);
      peers_[rank].is_open = rank != rank_;
    }
    if (options.bytes_per_second) {
      out_.emplace(*options.bytes_per_second);
      in_.emplace(*options.bytes_per_second);
    }
    wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_) throw TransportError(fmt::format("cannot make an eventfd: {}", reason(errno)));
    send_heartbeats();  // tells the others that this rank has met all of them
    thread_ = std::thread([this] {
      try {
        serve();
      } catch (
          // No memory for a message, for example; fail() reports it to the others.
          const std::exception& error) {
        const std::scoped_lock lock(mutex_);
        if (!failure_)
          failure_ =
              Failure{.rank = rank_, .why = fmt::format("{} has failed: {}", named(rank_), error.what())};
        changed_.notify_all();
      }
    });
  }
  ~Links() {
    {
      const std::scoped_lock lock(mutex_);
      stops_ = true;
    }
    wake();
    thread_.join();
  }
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(peers_.size()); }
  const Process& process(std::uint32_t rank) const { return processes_.at(rank); }

  void send(std::uint32_t to, std::uint32_t tag, Bytes message) {
    check_other(to, "sends to");
    const std::scoped_lock lock(mutex_);
    throw_failure();
    Peer& peer = peers_[to];
    if (has_left_) throw TransportError(fmt::format("rank {} sends after it has left", rank_));
    if (peer.has_left)
      throw TransportError(fmt::format("rank {} sends to {}, which has left", rank_, named(to)));
    const Header header = {.kind = Kind::message, .tag = tag, .bytes = message.size()};
    const bool was_idle = peer.queue.empty();
    enqueue(peer, header, std::move(message));
    if (!out_ && was_idle) write_some(peer);
    if (!peer.queue.empty()) wake();
  }

  Bytes recv(std::uint32_t from, std::uint32_t tag) {
    check_other(from, "receives from");
    const Clock::time_point deadline = Clock::now() + options_.deadline;
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto found = inbox_.find({from, tag});
      if (found != inbox_.end()) return take(found);
      throw_failure();
      if (peers_[from].has_left)
        throw TransportError(fmt::format("rank {} waits for a message (tag {}) from {}, which has left",
                                         rank_, tag, named(from)));
      if (Clock::now() >= deadline)
        throw TransportError(fmt::format("rank {} has waited {:g} s for a message (tag {}) from {}", rank_,
                                         std::chrono::duration<double>(options_.deadline).count(), tag,
                                         named(from)));
      changed_.wait_until(lock, deadline);
    }
  }

  void check() {
    const std::scoped_lock lock(mutex_);
    throw_failure();
  }

  void fail(std::string_view why) {
    std::unique_lock lock(mutex_);
    if (has_failed_) return;
    has_failed_ = true;
    if (!failure_)
      failure_ = Failure{.rank = rank_, .why = fmt::format("{} has failed: {}", named(rank_), why)};
    out_.reset();
    for (Peer& peer : peers_) {
      if (peer.queue.size() > 1) peer.queue.resize(1);  // a message that has begun must be completed
      if (!peer.queue.empty() && peer.queue.front().sent == 0) peer.queue.clear();
      if (peer.is_open && !peer.has_left)
        enqueue(peer, {.kind = Kind::failure, .tag = failure_->rank, .bytes = failure_->why.size()},
                bytes_of(failure_->why));
    }
    wake();
    changed_.wait_for(lock, kFailureReportTime, [&] { return all_is_sent(); });
  }

  void leave() {
    std::unique_lock lock(mutex_);
    throw_failure();
    if (!inbox_.empty()) {
      const auto& [source, unread] = *inbox_.begin();
      throw TransportError(fmt::format("rank {} leaves a message of {} bytes (tag {}) from rank {} unread",
                                       rank_, unread.front().size(), source.second, source.first));
    }
    has_left_ = true;
    for (Peer& peer : peers_)  // ranks that have left wait for it, too
      if (peer.is_open) enqueue(peer, {.kind = Kind::bye}, {});
    wake();
    const Clock::time_point deadline = Clock::now() + options_.deadline;
    while (!all_is_sent() || !all_has_arrived()) {
      throw_failure();
      if (Clock::now() >= deadline)
        throw TransportError(fmt::format("rank {} could not deliver its last messages within {:g} s", rank_,
                                         std::chrono::duration<double>(options_.deadline).count()));
      changed_.wait_for(lock, std::chrono::milliseconds(1));
    }
    has_failed_ = true;  // nothing more may be sent
  }

 private:
  using Source = std::pair<std::uint32_t, std::uint32_t>;  // rank and tag
  using Inbox = std::map<Source, std::deque<Bytes>>;

  std::string named(std::uint32_t rank) const { return name(rank, processes_[rank]); }

  void check_other(std::uint32_t other, std::string_view what) const {
    if (other >= size() || other == rank_)
      throw std::invalid_argument(fmt::format("rank {} of {} {} rank {}", rank_, size(), what, other));
  }

  void throw_failure() const {
    if (failure_) throw TransportError(fmt::format("rank {}: {}", rank_, failure_->why));
  }

  Bytes take(Inbox::iterator found) {
    Bytes message = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) inbox_.erase(found);
    return message;
  }

  static void enqueue(Peer& peer, const Header& header, Bytes bytes) {
    peer.queue.push_back({.header = header, .bytes = std::move(bytes), .since = Clock::now()});
  }

  void wake() const {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
  }

  bool all_is_sent() const {
    for (const Peer& peer : peers_)
      if (!peer.queue.empty()) return false;
    return true;
  }
  /// Returns whether all bytes have reached the other hosts' kernels.
  bool all_has_arrived() const {
    for (const Peer& peer : peers_) {
      int waiting = 0;
      if (peer.is_open && ::ioctl(peer.socket.get(), SIOCOUTQ, &waiting) == 0 && waiting > 0) return false;
    }
    return true;
  }

  void lose(std::uint32_t rank, const std::string& how) {
    peers_[rank].is_open = false;
    peers_[rank].queue.clear();
    if (peers_[rank].has_left || failure_ || has_failed_) return;
    failure_ = Failure{.rank = rank, .why = fmt::format("lost {}: {}", named(rank), how)};
    changed_.notify_all();
  }

  /// Writes what the socket accepts, at most `max` bytes, and returns the number.
  std::size_t write_some(Peer& peer, std::size_t max = SIZE_MAX) {
    std::size_t written = 0;
    while (!peer.queue.empty() && written < max) {
      Outgoing& next = peer.queue.front();
      const std::size_t wanted = std::min({next.size() - next.sent, max - written, kMaxAtOnce});
      const ssize_t sent = send_piece(peer, next, wanted);
      if (sent < 0) {
        peer.is_stuck = is_for_later(errno);
        if (!peer.is_stuck) peer.queue.clear();  // reading reports what happened to the other rank
        return written;
      }
      next.sent += static_cast<std::size_t>(sent);
      written += static_cast<std::size_t>(sent);
      if (next.sent == next.size()) peer.queue.pop_front();
    }
    peer.is_stuck = false;
    return written;
  }

  static ssize_t send_piece(const Peer& peer, Outgoing& next, std::size_t wanted) {
    std::array<iovec, 2> pieces{};
    const std::size_t of_header =
        next.sent < sizeof(Header) ? std::min(sizeof(Header) - next.sent, wanted) : 0;
    pieces[0] = {.iov_base = reinterpret_cast<char*>(&next.header) + std::min(next.sent, sizeof(Header)),
                 .iov_len = of_header};
    const std::size_t from = next.sent + of_header - sizeof(Header);
    if (wanted > of_header) pieces[1] = {.iov_base = next.bytes.data() + from, .iov_len = wanted - of_header};
    msghdr message = {};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    return ::sendmsg(peer.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  /// The main loop of the thread.
  void serve() {
    use_low_latency_scheduling();
    Clock::time_point beat = Clock::now();
    for (;;) {
      const Clock::time_point now = Clock::now();
      const bool is_beat = now >= beat;
      {
        const std::scoped_lock lock(mutex_);
        if (stops_) return;
        if (is_beat) {
          beat = now + options_.silence / kHeartbeatsPerSilence;
          send_heartbeats();
        }
        write_what_may(now);
        prepare_poll(now);
      }
      sleep(is_beat ? now : std::min(beat, until_));  // reads what has arrived before silence is counted
      read_what_came();
      if (is_beat) count_silence(now);
    }
  }

  /// Heartbeats bypass the pacer, because bytes for one rank may delay those of another for long. A heartbeat
  /// goes before messages that have not begun; if one has begun, a few more of its bytes serve as the sign of
  /// life.
  void send_heartbeats() {
    for (Peer& peer : peers_) {
      if (!peer.is_open || peer.has_left || has_failed_) continue;
      if (peer.queue.empty() && has_left_) continue;
      const bool has_begun = !peer.queue.empty() && (peer.queue.front().sent > 0 ||
                                                     peer.queue.front().header.kind == Kind::heartbeat);
      if (!has_begun)
        peer.queue.push_front({.header = {.kind = Kind::heartbeat}, .bytes = {}, .since = Clock::now()});
      write_some(peer, sizeof(Header));
    }
  }

  /// Silence is counted in beats of this process, not by the clock: any time during which this process was
  /// stopped counts as one beat, so that other ranks, which may have been stopped with it, have time to send.
  /// Some ranks may still be connecting to each other when this rank has met them all.
  void count_silence(Clock::time_point now) {
    const std::scoped_lock lock(mutex_);
    if (failure_ || has_failed_) return;
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      Peer& peer = peers_[rank];
      const bool is_patient = !peer.has_spoken && now < met_by_;
      peer.silent = std::exchange(peer.is_heard, false) || is_patient ? 0 : peer.silent + 1;
      if (peer.is_open && !peer.has_left && peer.silent >= kHeartbeatsPerSilence)
        lose(rank,
             fmt::format("no heartbeat for {:g} s", std::chrono::duration<double>(options_.silence).count()));
    }
  }

  void write_what_may(Clock::time_point now) {
    const bool had = !all_is_sent();
    if (!out_) {
      for (Peer& peer : peers_) write_some(peer);
    } else {
      while (write_piece(now)) {
      }
    }
    if (had && all_is_sent()) changed_.notify_all();
  }

  /// Writes the next piece of the message that waits longest, if it has passed the link by now.
  bool write_piece(Clock::time_point now) {
    Peer* next = nullptr;
    for (Peer& peer : peers_)
      if (!peer.queue.empty() && !peer.is_stuck &&
          (next == nullptr || peer.queue.front().since < next->queue.front().since))
        next = &peer;
    until_ = Clock::time_point::max();
    if (next == nullptr) return false;
    const Outgoing& message = next->queue.front();
    const std::size_t bytes = std::min(message.size() - message.sent, out_->piece());
    const Clock::time_point passed = out_->passes(message.since, bytes);
    until_ = passed;
    if (passed > now) return false;
    const std::size_t written = write_some(*next, bytes);
    if (written > 0) out_->pass(written == bytes ? passed : now);
    return written > 0;
  }

  void prepare_poll(Clock::time_point now) {
    if (!out_) until_ = Clock::time_point::max();
    const bool may_read = !in_ || in_->free() <= now;
    if (!may_read) until_ = std::min(until_, in_->free());
    polled_.clear();
    polled_.push_back({.fd = wake_.get(), .events = POLLIN, .revents = 0});
    for (const Peer& peer : peers_) {
      const bool writes = !peer.queue.empty() && (!out_ || peer.is_stuck);
      const auto events = static_cast<short>((may_read ? POLLIN : 0) | (writes ? POLLOUT : 0));
      polled_.push_back({.fd = peer.is_open ? peer.socket.get() : -1, .events = events, .revents = 0});
    }
  }

  void sleep(Clock::time_point until) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::max(until - Clock::now(), Clock::duration::zero()));
    const timespec wait = {.tv_sec = left.count() / 1'000'000'000, .tv_nsec = left.count() % 1'000'000'000};
    if (::ppoll(polled_.data(), polled_.size(), &wait, nullptr) < 0)
      for (pollfd& one : polled_) one.revents = 0;
  }

  void read_what_came() {
    if ((polled_[0].revents & POLLIN) != 0) {
      std::uint64_t count = 0;
      (void)!::read(wake_.get(), &count, sizeof count);
    }
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      const short events = polled_[rank + 1].revents;
      if ((events & POLLOUT) != 0) {
        const std::scoped_lock lock(mutex_);
        peers_[rank].is_stuck = false;
      }
      if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) read_some(rank);
    }
  }

  /// Only this thread reads; the lock protects the shared results.
  void read_some(std::uint32_t rank) {
    Peer& peer = peers_[rank];
    std::size_t left = in_ ? in_->piece() : 4 * kMaxAtOnce;
    std::size_t all = 0;
    while (left > 0) {
      const ssize_t got = read_piece(peer.incoming, peer.socket, left);
      if (got <= 0) {
        if (got == 0 || !is_for_later(errno)) {
          const std::string how = got == 0 ? "its connection was closed" : reason(errno);
          const std::scoped_lock lock(mutex_);
          lose(rank, how);
        }
        break;
      }
      left -= static_cast<std::size_t>(got);
      all += static_cast<std::size_t>(got);
      if (peer.incoming.got >= sizeof(Header) && !complete(rank)) break;
    }
    const Clock::time_point now = Clock::now();
    const std::scoped_lock lock(mutex_);
    if (all > 0) peer.is_heard = peer.has_spoken = true;
    if (in_ && all > 0) in_->pass(in_->passes(now - in_->takes(in_->piece()), all));
  }

  static ssize_t read_piece(Incoming& incoming, const Descriptor& socket, std::size_t max) {
    const bool in_header = incoming.got < sizeof(Header);
    std::byte* into = in_header ? reinterpret_cast<std::byte*>(&incoming.header) + incoming.got
                                : incoming.bytes.data() + (incoming.got - sizeof(Header));
    const std::size_t wanted =
        in_header ? sizeof(Header) - incoming.got : incoming.bytes.size() - (incoming.got - sizeof(Header));
    const ssize_t got = ::recv(socket.get(), into, std::min(wanted, max), MSG_DONTWAIT);
    if (got > 0) incoming.got += static_cast<std::size_t>(got);
    return got;
  }

  /// The header is complete. Returns false if nothing more is to be read from this rank.
  bool complete(std::uint32_t rank) {
    Incoming& incoming = peers_[rank].incoming;
    if (incoming.got == sizeof(Header)) {
      const bool is_sound = incoming.header.kind >= Kind::message && incoming.header.kind <= Kind::failure &&
                            incoming.header.bytes <= kMaxBytes;
      if (!is_sound) {
        const std::scoped_lock lock(mutex_);
        lose(rank, "it sent an invalid message");
        return false;
      }
      incoming.bytes.resize(incoming.header.bytes);
    }
    if (incoming.got < sizeof(Header) + incoming.bytes.size()) return true;
    Incoming whole = std::exchange(incoming, {});
    const std::scoped_lock lock(mutex_);
    deliver(rank, std::move(whole));
    return peers_[rank].is_open;
  }

  void deliver(std::uint32_t rank, Incoming whole) {
    switch (whole.header.kind) {
      case Kind::heartbeat: return;
      case Kind::bye: peers_[rank].has_left = true; break;
      case Kind::message: inbox_[{rank, whole.header.tag}].push_back(std::move(whole.bytes)); break;
      case Kind::failure:
        peers_[rank].is_open = false;
        if (!failure_ && !has_failed_)
          failure_ = Failure{.rank = whole.header.tag,
                             .why = {reinterpret_cast<const char*>(whole.bytes.data()), whole.bytes.size()}};
        break;
    }
    changed_.notify_all();
  }

  TcpOptions options_;
  std::uint32_t rank_;
  std::vector<Process> processes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  Inbox inbox_;
  Clock::time_point met_by_{};
  std::optional<Failure> failure_;
  bool has_failed_ = false;  ///< or left: this rank reports nothing any more
  bool has_left_ = false;
  bool stops_ = false;
  std::optional<Pacer> out_;
  std::optional<Pacer> in_;
  Clock::time_point until_ = Clock::time_point::max();  // used by the thread only, like the next
  std::vector<pollfd> polled_;
  Descriptor wake_;
  std::thread thread_;
};

Tcp::Tcp(const Membership& membership, const TcpOptions& options)
    : links_(std::make_unique<Links>(membership, options)) {}
Tcp::~Tcp() { links_->fail("it ended without leave()"); }

std::uint32_t Tcp::rank() const { return links_->rank(); }
std::uint32_t Tcp::size() const { return links_->size(); }
const Process& Tcp::process(std::uint32_t rank) const { return links_->process(rank); }
void Tcp::send(std::uint32_t to, std::uint32_t tag, Bytes message) {
  links_->send(to, tag, std::move(message));
}
Bytes Tcp::recv(std::uint32_t from, std::uint32_t tag) { return links_->recv(from, tag); }
void Tcp::check() const { links_->check(); }
void Tcp::fail(std::string_view why) { links_->fail(why); }
void Tcp::leave() { links_->leave(); }

}  // namespace transport
