#include "collectives/transport/tcp/door.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace transport {
namespace {

/// How many connections may wait for their proof at once; beyond it the oldest gives way. Its process
/// connects again if it is one of the job.
constexpr std::size_t kMaxVisitors = 256;
/// How long a connection may take until its proof is complete.
constexpr std::chrono::seconds kMaxVisit(10);
constexpr std::size_t kMaxNamed = 5;

}  // namespace

void Strangers::add(std::string who) {
  ++count;
  if (named.size() < kMaxNamed) named.push_back(std::move(who));
}

std::string text(const Strangers& strangers) {
  if (strangers.count == 0) return "";
  return fmt::format("{} of strangers {} dropped: {}{}",
                     strangers.count == 1 ? "a connection" : fmt::format("{} connections", strangers.count),
                     strangers.count == 1 ? "was" : "were", fmt::join(strangers.named, ", "),
                     strangers.count > strangers.named.size() ? ", ..." : "");
}

std::optional<Guest> Door::next(Clock::time_point deadline) {
  for (;;) {
    Clock::time_point until = deadline;
    std::vector<pollfd> polled = {{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const Visitor& visitor : visitors_) {
      polled.push_back({.fd = visitor.socket.get(), .events = POLLIN, .revents = 0});
      until = std::min(until, visitor.until);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (::poll(polled.data(), polled.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000))) < 0)
      for (pollfd& each : polled) each.revents = 0;
    std::optional<Guest> guest;
    std::size_t place = 1;
    for (auto visitor = visitors_.begin(); visitor != visitors_.end() && !guest; ++place) {
      std::string why;
      if (polled[place].revents != 0 && listen_to(*visitor, why)) guest = judge(*visitor, why);
      if (!guest && why.empty() && Clock::now() >= visitor->until) why = "did not prove anything in time";
      if (!why.empty()) drop(*visitor, why);
      visitor = guest || !why.empty() ? visitors_.erase(visitor) : std::next(visitor);
    }
    if (guest) return guest;
    if (polled[0].revents != 0) let_in();
    if (Clock::now() >= deadline) return {};
  }
}

void Door::let_in() {
  std::optional<Descriptor> socket;
  try {
    socket = accept_on(listener_, Clock::now());
  } catch (const NoDescriptors&) {  // connections that have proved nothing may have used up the descriptors
    if (visitors_.empty()) throw;
    drop(visitors_.front(), "gave way to later connections");
    visitors_.pop_front();
    return;
  }
  if (!socket) return;
  if (visitors_.size() == kMaxVisitors) {
    drop(visitors_.front(), "gave way to later connections");
    visitors_.pop_front();
  }
  Visitor& visitor = visitors_.emplace_back();
  visitor = {.socket = std::move(*socket), .challenge = random_nonce(), .until = Clock::now() + kMaxVisit};
  visitor.address = peer_address(visitor.socket);
  const Challenge challenge = {.version = own_.version, .nonce = visitor.challenge};
  if (send_packed(visitor.socket, packed(challenge), Clock::now())) return;
  drop(visitor, "closed the connection");
  visitors_.pop_back();
}

/// Reads what has arrived, and returns whether it is all. Sets `why` for a stranger.
bool Door::listen_to(Visitor& visitor, std::string& why) {
  std::array<std::byte, kFrontBytes + kMaxHelloBytes> buffer{};
  Bytes& said = visitor.said;
  for (;;) {
    std::size_t wanted = kFrontBytes;
    if (said.size() >= kFrontBytes) {
      const auto length = length_after(std::span(said).first<kFrontBytes>());
      if (!length || *length > kMaxHelloBytes) {
        why = length ? "announced more than a handshake" : "sent something else than a handshake";
        return false;
      }
      wanted += *length;
    }
    if (said.size() == wanted) return true;
    const ssize_t got = ::recv(visitor.socket.get(), buffer.data(), wanted - said.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0) {
      why = "closed the connection";
      return false;
    }
    said.insert(said.end(), buffer.begin(), buffer.begin() + got);
  }
}

/// Sets `why` for a stranger, and tells it if it may be a process that was started with other settings.
std::optional<Guest> Door::judge(Visitor& visitor, std::string& why) {
  Hello hello = read_hello(std::span(visitor.said).subspan(kFrontBytes), secret_, visitor.challenge);
  if (hello.version && *hello.version != own_.version) {
    why = fmt::format("speaks version {} of the protocol instead of {}", *hello.version, own_.version);
    return {};
  }
  if (hello.handshake && hello.handshake->job == own_.job)
    return Guest{.handshake = std::move(*hello.handshake),
                 .socket = std::move(visitor.socket),
                 .nonces = hello.nonces};
  why = hello.handshake ? "is of another job" : "did not prove that it knows the secret";
  (void)send_answer(visitor.socket, Rejection{.why = "this process " + why}, secret_, hello.nonces,
                    Clock::now());
  return {};
}

void Door::drop(const Visitor& visitor, const std::string& why) {
  strangers_.add(fmt::format("{} ({})", visitor.address, why));
}

Strangers Door::close() && {
  for (const Visitor& visitor : visitors_) drop(visitor, "did not prove anything");
  visitors_.clear();
  return std::move(strangers_);
}

bool send_answer(const Descriptor& socket, const Answer& answer, const std::string& secret,
                 const Nonces& nonces, Clock::time_point deadline) {
  return send_packed(socket, sealed(packed(answer), secret, Side::acceptor, nonces), deadline);
}

}  // namespace transport
