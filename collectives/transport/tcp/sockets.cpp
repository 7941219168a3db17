#include "collectives/transport/tcp/sockets.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "collectives/transport/transport.hpp"

namespace transport {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

/// Returns 0, or the error of getaddrinfo().
int look_up(const Address& address, int flags, Addresses& into) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (error == 0) into.reset(list);
  return error;
}

Addresses resolve(const Address& address) {
  Addresses found;
  const int error = look_up(address, 0, found);
  if (error != 0)
    throw TransportError(fmt::format("{}: cannot find this host: {}", text(address), ::gai_strerror(error)));
  return found;
}

bool is_everywhere(const addrinfo& address) {
  if (address.ai_family == AF_INET)
    return reinterpret_cast<const sockaddr_in*>(address.ai_addr)->sin_addr.s_addr == INADDR_ANY;
  if (address.ai_family != AF_INET6) return false;
  const in6_addr& host = reinterpret_cast<const sockaddr_in6*>(address.ai_addr)->sin6_addr;
  const bool is_mapped = IN6_IS_ADDR_V4MAPPED(&host) && std::all_of(host.s6_addr + 12, host.s6_addr + 16,
                                                                    [](auto byte) { return byte == 0; });
  return IN6_IS_ADDR_UNSPECIFIED(&host) || is_mapped;
}

Descriptor new_socket(const addrinfo& address) {
  Descriptor socket(
      ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol));
  if (!socket) throw TransportError(fmt::format("cannot make a socket: {}", reason(errno)));
  return socket;
}

/// Returns whether the event happened before the deadline.
bool wait_for(const Descriptor& socket, short event, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd one = {.fd = socket.get(), .events = event, .revents = 0};
    const int ready = ::poll(&one, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (left <= 0) return false;
  }
}

/// Returns 0, or the error number.
int connect_once(const Descriptor& socket, const addrinfo& address, Clock::time_point deadline) {
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!wait_for(socket, POLLOUT, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

/// Calls getsockname or getpeername.
template <typename Get>
std::optional<Address> address_by(const Get& get, const Descriptor& socket) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (get(socket.get(), address, &size) != 0 ||
      ::getnameinfo(address, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {};
  return Address{.host = host.data(), .port = static_cast<std::uint16_t>(std::stoul(port.data()))};
}

bool may_come_later(int error) {
  return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH || error == ECONNRESET;
}

}  // namespace

std::string text(const Address& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("[{}]:{}", address.host, address.port)
                 : fmt::format("{}:{}", address.host, address.port);
}

std::optional<Address> parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return {};
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const std::string_view port = text.substr(colon + 1);
  Address address = {.host = std::string(host)};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size() || host.empty() || address.port == 0)
    return {};
  return address;
}

bool is_everywhere(const std::string& host) {
  Addresses found;
  return look_up({.host = host, .port = 0}, AI_NUMERICHOST, found) == 0 && is_everywhere(*found);
}

Descriptor listen_on(const Address& address) {
  const Addresses found = resolve(address);
  if (is_everywhere(*found))
    throw TransportError(
        fmt::format("{}: expected the address of one interface, got that of all", text(address)));
  Descriptor socket = new_socket(*found);
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(socket.get(), SOMAXCONN) != 0)
    throw TransportError(fmt::format("{}: cannot listen: {}", text(address), reason(errno)));
  return socket;
}

Descriptor connect_to(const Address& address, Clock::time_point deadline) {
  const Addresses found = resolve(address);
  for (std::chrono::milliseconds pause(2);; pause = std::min(2 * pause, std::chrono::milliseconds(200))) {
    Descriptor socket = new_socket(*found);
    const int error = connect_once(socket, *found, deadline);
    if (error == 0) {
      const int yes = 1;
      ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      return socket;
    }
    if (!may_come_later(error) || Clock::now() + pause >= deadline)
      throw TransportError(fmt::format("{}: cannot connect: {}", text(address), reason(error)));
    std::this_thread::sleep_for(pause);
  }
}

std::optional<Descriptor> accept_on(const Descriptor& listener, Clock::time_point deadline) {
  while (wait_for(listener, POLLIN, deadline)) {
    Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket && (errno == EMFILE || errno == ENFILE))
      throw NoDescriptors(fmt::format("cannot accept a connection: {}", reason(errno)));
    if (!socket && (errno == ENOMEM || errno == EINVAL))
      throw TransportError(fmt::format("cannot accept a connection: {}", reason(errno)));
    if (!socket) continue;  // the connection is closed again
    const int yes = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return socket;
  }
  return {};
}

Address local_address(const Descriptor& socket) {
  const std::optional<Address> address = address_by(::getsockname, socket);
  if (!address) throw TransportError("cannot read a socket's own address");
  return *address;
}

std::string peer_address(const Descriptor& socket) {
  const std::optional<Address> address = address_by(::getpeername, socket);
  return address ? text(*address) : "?";
}

void keep_asking(const Descriptor& socket) {
  constexpr int kSeconds = 1;
  constexpr int kMaxUnanswered = 127;  // of the kernel; is_unanswered() tells earlier
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket.get(), level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_KEEPIDLE, kSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kMaxUnanswered);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
}

bool is_unanswered(const Descriptor& socket, std::chrono::milliseconds for_at_least) {
  tcp_info info = {};
  socklen_t size = sizeof info;
  if (::getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  return info.tcpi_probes + info.tcpi_retransmits > 0 &&
         std::chrono::milliseconds(std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv)) >=
             for_at_least;
}

bool write_all(const Descriptor& socket, std::span<const std::byte> bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0)
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    else if (errno != EAGAIN && errno != EINTR)
      return false;
    else if (!wait_for(socket, POLLOUT, deadline))
      return false;
  }
  return true;
}

bool read_all(const Descriptor& socket, std::span<std::byte> bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (got > 0)
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
      return false;
    else if (!wait_for(socket, POLLIN, deadline))
      return false;
  }
  return true;
}

}  // namespace transport
