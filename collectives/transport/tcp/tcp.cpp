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

/// How often the thread looks whether the other hosts answer.
constexpr std::chrono::milliseconds kBeat(250);
/// A thread that is later than this has had to wait for a processor.
constexpr std::chrono::milliseconds kLate(50);
/// How long a failing rank may take to report its failure.
constexpr std::chrono::milliseconds kFailureReportTime(500);
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 36;
constexpr std::uint64_t kMaxReasonBytes = 1 << 16;
constexpr std::size_t kMaxAtOnce = 1 << 20;
/// A message takes memory in steps: this much first, then twice what has arrived. What may wait here anyway
/// is reserved at once, so that it is not copied; it becomes memory when it is written to.
constexpr std::size_t kFirstStep = 1 << 20;
/// How much of one rank may wait here before somebody asks for it. Beyond it, it waits on the other host.
constexpr std::size_t kMaxUnread = 64 << 20;
/// What a message counts for in addition to its bytes, so that empty ones are limited, too.
constexpr std::size_t kMessageCost = 1024;

enum class Kind : std::uint32_t { message = 1, delay, bye, failure };

/// Precedes every message.
struct Header {
  Kind kind = Kind::delay;
  std::uint32_t tag = 0;  ///< for a failure: the rank where it began; for a delay: milliseconds
  std::uint64_t bytes = 0;
};

bool is_sound(const Header& header) {
  switch (header.kind) {
    case Kind::message: return header.bytes <= kMaxBytes;
    case Kind::failure: return header.bytes <= kMaxReasonBytes;
    case Kind::delay:
    case Kind::bye: return header.bytes == 0;
  }
  return false;
}

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

  bool has_header() const { return got >= sizeof header; }
  bool is_complete() const { return has_header() && got == sizeof header + header.bytes; }
};

struct Peer {
  Descriptor socket;
  std::deque<Outgoing> queue;
  Incoming incoming;
  std::size_t unread = 0;    ///< complete messages that wait here
  std::size_t room = 0;      ///< how much more may be read; used by the thread only
  bool is_held = false;      ///< nothing is read from it until somebody asks
  std::uint32_t silent = 0;  ///< consecutive beats without an answer from its host
  bool has_left = false;
  bool is_open = false;   ///< more may arrive
  bool is_stuck = false;  ///< its socket accepts no more bytes for now
  bool is_long = false;   ///< a long message has begun to arrive
};

/// The message for which somebody waits.
struct Awaited {
  std::uint32_t from = 0;
  std::uint32_t tag = 0;
  std::size_t max_bytes = 0;
};

/// A wait that has begun: its limit grows by the delays that are measured from then on.
struct Wait {
  Clock::time_point begun;
  Clock::duration delay;  ///< that was measured before
};

/// The rank where a failure began, and a complete description.
struct Failure {
  std::uint32_t rank = 0;
  std::string why;
};

std::string reason(int error) { return std::generic_category().message(error); }

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

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
    Mesh mesh = connect_mesh(membership, Clock::now() + options.meeting, options.version);
    processes_ = std::move(mesh.processes);
    strangers_ = text(mesh.strangers);
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      peers_[rank].socket = std::move(mesh.sockets[rank]);
      peers_[rank].is_open = rank != rank_;
      if (rank != rank_) keep_asking(peers_[rank].socket);
    }
    if (options.bytes_per_second) {
      out_.emplace(*options.bytes_per_second);
      in_.emplace(*options.bytes_per_second);
    }
    beat_ = Clock::now() + kBeat;
    wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_) throw TransportError(fmt::format("cannot make an eventfd: {}", reason(errno)));
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
  const std::string& strangers() const { return strangers_; }

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

  Bytes receive(const Awaited& awaited) {
    const std::uint32_t from = awaited.from;
    const std::uint32_t tag = awaited.tag;
    check_other(from, "receives from");
    std::unique_lock lock(mutex_);
    const Wait wait = begin_wait();
    for (;;) {
      const auto found = inbox_.find({from, tag});
      if (found != inbox_.end()) return take(found);
      throw_failure();
      if (peers_[from].has_left)
        throw TransportError(fmt::format("rank {} waits for a message (tag {}) from {}, which has left",
                                         rank_, tag, named(from)));
      const Clock::time_point end = end_of(wait);
      if (Clock::now() >= end)
        throw TransportError(fmt::format("rank {} has waited {:g} s for a message (tag {}) from {}{}", rank_,
                                         seconds(options_.deadline), tag, named(from), delay_text(wait)));
      awaited_ = awaited;
      if (peers_[from].is_held || peers_[from].is_long) wake();
      changed_.wait_until(lock, end);
      awaited_.reset();
    }
  }

  std::chrono::nanoseconds delay() {
    const std::scoped_lock lock(mutex_);
    return delay_until(Clock::now());
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
    failure_->why.resize(std::min<std::size_t>(failure_->why.size(), kMaxReasonBytes));
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
    const Wait wait = begin_wait();
    while (!all_is_sent() || !all_has_arrived()) {
      throw_failure();
      if (Clock::now() >= end_of(wait))
        throw TransportError(fmt::format("rank {} could not deliver its last messages within {:g} s{}", rank_,
                                         seconds(options_.deadline), delay_text(wait)));
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

  /// Time for which this rank or another has waited for a processor: what was reported, and the lateness of
  /// the present beat.
  Clock::duration delay_until(Clock::time_point now) const {
    return delay_ + (now - beat_ > kLate ? now - beat_ : Clock::duration::zero());
  }
  Wait begin_wait() const {
    const Clock::time_point now = Clock::now();
    return {.begun = now, .delay = delay_until(now)};
  }
  Clock::time_point end_of(const Wait& wait) const {
    return wait.begun + grown(options_.deadline, delay_until(Clock::now()) - wait.delay);
  }
  std::string delay_text(const Wait& wait) const {
    const Clock::duration delay = delay_until(Clock::now()) - wait.delay;
    if (delay <= kLate) return "";
    return fmt::format(", and longer because ranks waited for a processor, {:.1f} s in all", seconds(delay));
  }

  void throw_failure() const {
    if (failure_) throw TransportError(fmt::format("rank {}: {}", rank_, failure_->why));
  }

  Bytes take(Inbox::iterator found) {
    Bytes message = std::move(found->second.front());
    Peer& peer = peers_[found->first.first];
    peer.unread -= message.size() + kMessageCost;
    found->second.pop_front();
    if (found->second.empty()) inbox_.erase(found);
    if (peer.is_held) wake();
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
    for (;;) {
      const Clock::time_point now = Clock::now();
      {
        const std::scoped_lock lock(mutex_);
        if (stops_) return;
        if (now >= beat_) {
          note_delay(now - beat_);
          beat_ = now + kBeat;
          look_for_the_lost();
        }
        write_what_may(now);
        prepare_poll(now);
      }
      sleep(std::min(beat_, until_));
      read_what_came();
    }
  }

  /// The thread needs hardly any processor time: where it is late, this process waits for a processor, or was
  /// stopped. The others are told, as they wait for it.
  void note_delay(Clock::duration late) {
    if (late < kLate) return;
    delay_ += late;
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(late).count();
    for (Peer& peer : peers_) {
      if (!peer.is_open || peer.has_left || has_failed_ || has_left_) continue;
      const bool has_begun = !peer.queue.empty() && peer.queue.front().sent > 0;
      peer.queue.insert(peer.queue.begin() + (has_begun ? 1 : 0),
                        {.header = {.kind = Kind::delay, .tag = static_cast<std::uint32_t>(ms)},
                         .bytes = {},
                         .since = Clock::now()});
    }
  }

  /// A rank is lost if its host does not answer: the kernel there does, whether the process gets a processor
  /// or not. Silence is counted in beats, so that time during which this process itself did not run counts as
  /// one.
  void look_for_the_lost() {
    if (failure_ || has_failed_) return;
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      Peer& peer = peers_[rank];
      if (!peer.is_open || peer.has_left) continue;
      peer.silent = is_unanswered(peer.socket, kBeat) ? peer.silent + 1 : 0;
      if (peer.silent * kBeat >= options_.silence)
        lose(rank, fmt::format("its host has not answered for {:g} s", seconds(peer.silent * kBeat)));
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
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      Peer& peer = peers_[rank];
      find_room(rank);
      const bool reads = may_read && !peer.is_held;
      const bool writes = !peer.queue.empty() && (!out_ || peer.is_stuck);
      const auto events = static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
      const bool is_polled = peer.is_open && (!peer.is_held || writes);
      polled_.push_back({.fd = is_polled ? peer.socket.get() : -1, .events = events, .revents = 0});
    }
  }

  /// What nobody has asked for is left with its sender beyond a limit. A rank that sends so much before what
  /// is awaited of it is lost.
  void find_room(std::uint32_t rank) {
    Peer& peer = peers_[rank];
    const bool is_awaited = awaited_ && awaited_->from == rank;
    const std::size_t limit =
        kMaxUnread + (is_awaited ? std::min(awaited_->max_bytes, kAnySize - kMaxUnread) : 0);
    const std::size_t held = peer.unread + peer.incoming.got;
    peer.room = held < limit ? limit - held : 0;
    peer.is_held = peer.room == 0;
    if (peer.is_held && is_awaited && peer.is_open && !inbox_.contains({rank, awaited_->tag}))
      lose(rank, fmt::format("it has sent {} bytes that nobody has asked for", held));
    if (!is_awaited || !peer.is_open || !peer.incoming.has_header()) return;
    // the header may have come before anybody asked for the message
    if (const std::string fault = fault_of(peer.incoming.header, rank); !fault.empty()) lose(rank, fault);
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
    while (left > 0 && peer.room > 0) {
      const ssize_t got = read_piece(peer.incoming, peer.socket, std::min(left, peer.room));
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
      peer.room -= static_cast<std::size_t>(got);
      if (peer.incoming.has_header() && !look_at(rank)) break;
    }
    if (in_ && all > 0) in_->pass(in_->passes(Clock::now() - in_->takes(in_->piece()), all));
  }

  /// Memory grows with what arrives, whatever the header announces.
  static ssize_t read_piece(Incoming& incoming, const Descriptor& socket, std::size_t max) {
    std::byte* into = reinterpret_cast<std::byte*>(&incoming.header) + incoming.got;
    std::size_t wanted = sizeof(Header) - incoming.got;
    if (incoming.has_header()) {
      const std::size_t at = incoming.got - sizeof(Header);
      if (at == 0) incoming.bytes.reserve(std::min<std::size_t>(incoming.header.bytes, kMaxUnread));
      if (at == incoming.bytes.size())
        incoming.bytes.resize(std::min<std::size_t>(incoming.header.bytes, std::max(kFirstStep, 2 * at)));
      into = incoming.bytes.data() + at;
      wanted = incoming.bytes.size() - at;
    }
    const ssize_t got = ::recv(socket.get(), into, std::min(wanted, max), MSG_DONTWAIT);
    if (got > 0) incoming.got += static_cast<std::size_t>(got);
    return got;
  }

  /// The header is complete. Returns false if nothing more is to be read from this rank.
  bool look_at(std::uint32_t rank) {
    Peer& peer = peers_[rank];
    Incoming& incoming = peer.incoming;
    if (incoming.got == sizeof(Header) &&
        (!is_sound(incoming.header) || incoming.header.bytes > kFirstStep)) {
      const std::scoped_lock lock(mutex_);
      if (const std::string fault = fault_of(incoming.header, rank); !fault.empty()) {
        lose(rank, fault);
        return false;
      }
      peer.is_long = true;
    }
    if (!incoming.is_complete()) return true;
    Incoming whole = std::exchange(incoming, {});
    peer.room -= std::min(peer.room, kMessageCost);
    const std::scoped_lock lock(mutex_);
    peer.is_long = false;
    deliver(rank, std::move(whole));
    return peer.is_open;
  }

  /// The length of a short message is checked when it is received.
  std::string fault_of(const Header& header, std::uint32_t from) const {
    if (!is_sound(header)) return "it sent an invalid message";
    const bool is_awaited = awaited_ && header.kind == Kind::message && awaited_->from == from &&
                            awaited_->tag == header.tag && !inbox_.contains({from, header.tag});
    if (!is_awaited || header.bytes <= awaited_->max_bytes) return "";
    return fmt::format("it sent a message of {} bytes (tag {}) where at most {} were expected", header.bytes,
                       header.tag, awaited_->max_bytes);
  }

  void deliver(std::uint32_t rank, Incoming whole) {
    switch (whole.header.kind) {
      case Kind::delay: delay_ += std::chrono::milliseconds(whole.header.tag); break;
      case Kind::bye: peers_[rank].has_left = true; break;
      case Kind::message:
        peers_[rank].unread += whole.bytes.size() + kMessageCost;
        inbox_[{rank, whole.header.tag}].push_back(std::move(whole.bytes));
        break;
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
  std::optional<Awaited> awaited_;
  std::string strangers_;
  Clock::time_point beat_;   ///< when the thread looks at the others next
  Clock::duration delay_{};  ///< time for which ranks have waited for a processor, in all
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
Tcp::~Tcp() { links_->fail("it ended without closing the connection"); }

std::uint32_t Tcp::rank() const { return links_->rank(); }
std::uint32_t Tcp::size() const { return links_->size(); }
void Tcp::send(std::uint32_t to, std::uint32_t tag, Bytes message) {
  links_->send(to, tag, std::move(message));
}
Bytes Tcp::receive(std::uint32_t from, std::uint32_t tag, std::size_t max_bytes) {
  return links_->receive({.from = from, .tag = tag, .max_bytes = max_bytes});
}
std::chrono::nanoseconds Tcp::scheduling_delay() { return links_->delay(); }
const std::string& Tcp::strangers() const { return links_->strangers(); }
void Tcp::check() const { links_->check(); }
void Tcp::fail(std::string_view why) { links_->fail(why); }
void Tcp::leave() { links_->leave(); }

}  // namespace transport
