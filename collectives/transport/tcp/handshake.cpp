#include "collectives/transport/tcp/handshake.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

namespace transport {
namespace {

constexpr std::uint64_t kMagic = 0x6573697765737566;  // "fusewise"
constexpr std::uint32_t kMaxRanks = 1 << 16;
/// Memory is allocated for so much of a message before it arrives.
constexpr std::size_t kStep = 1 << 16;

class Packer {
 public:
  template <typename T>
  void number(T value) {
    static_assert(std::is_integral_v<T>);
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  void text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    raw(std::as_bytes(std::span(value)));
  }
  void raw(std::span<const std::byte> value) { bytes_.insert(bytes_.end(), value.begin(), value.end()); }
  Bytes done() && { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

/// Reads the output of a Packer; after the first missing value everything is zero, and good() is false.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T number() {
    T value = 0;
    if (take(sizeof value)) std::memcpy(&value, bytes_.data() + at_ - sizeof value, sizeof value);
    return value;
  }
  std::string text() {
    const auto size = number<std::uint32_t>();
    if (!take(size)) return "";
    return {reinterpret_cast<const char*>(bytes_.data()) + at_ - size, size};
  }
  void raw(std::span<std::byte> into) {
    if (take(into.size())) std::memcpy(into.data(), bytes_.data() + at_ - into.size(), into.size());
  }
  bool good() const { return good_; }
  bool at_end() const { return good_ && at_ == bytes_.size(); }

 private:
  bool take(std::size_t size) {
    good_ = good_ && size <= bytes_.size() - at_;
    if (good_) at_ += size;
    return good_;
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool good_ = true;
};

/// The version comes first, so that all later versions can read it.
void pack(Packer& out, const Handshake& handshake) {
  out.number(handshake.version);
  out.number(handshake.rank);
  out.number(handshake.size);
  out.text(handshake.job);
  out.text(handshake.process.host);
  out.number(handshake.process.pid);
  out.text(handshake.listens.host);
  out.number(handshake.listens.port);
}

Handshake unpack_handshake(Unpacker& in) {
  Handshake handshake;
  handshake.version = in.number<std::uint32_t>();
  handshake.rank = in.number<std::uint32_t>();
  handshake.size = in.number<std::uint32_t>();
  handshake.job = in.text();
  handshake.process.host = in.text();
  handshake.process.pid = in.number<std::int64_t>();
  handshake.listens.host = in.text();
  handshake.listens.port = in.number<std::uint16_t>();
  return handshake;
}

}  // namespace

std::string name(std::uint32_t rank, const Process& process) {
  return fmt::format("rank {} (host {}, pid {})", rank, process.host, process.pid);
}

Process this_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return {.host = host.data(), .pid = ::getpid()};
}

Bytes packed(const Challenge& challenge) {
  Packer out;
  out.number(challenge.version);
  out.raw(challenge.nonce);
  return std::move(out).done();
}

Bytes packed(const Handshake& handshake) {
  Packer out;
  pack(out, handshake);
  return std::move(out).done();
}

Bytes packed(const Answer& answer) {
  Packer out;
  if (const auto* rejection = std::get_if<Rejection>(&answer)) {
    out.number(std::uint32_t{0});
    out.text(rejection->why);
  } else {
    const Roster& roster = std::get<Roster>(answer);
    out.number(static_cast<std::uint32_t>(roster.size()));
    for (const Handshake& handshake : roster) pack(out, handshake);
  }
  return std::move(out).done();
}

std::optional<Challenge> unpacked_challenge(std::span<const std::byte> bytes) {
  Unpacker in(bytes);
  Challenge challenge = {.version = in.number<std::uint32_t>()};
  if (in.good() && challenge.version != kTcpVersion) return challenge;
  in.raw(challenge.nonce);
  return in.at_end() ? std::optional(challenge) : std::nullopt;
}

std::optional<Handshake> unpacked_handshake(std::span<const std::byte> bytes) {
  Unpacker in(bytes);
  Handshake handshake = unpack_handshake(in);
  return in.at_end() ? std::optional(std::move(handshake)) : std::nullopt;
}

std::optional<Answer> unpacked_answer(std::span<const std::byte> bytes) {
  Unpacker in(bytes);
  const auto count = in.number<std::uint32_t>();
  if (count > kMaxRanks) return {};
  Answer answer;
  if (count == 0) {
    answer = Rejection{.why = in.text()};
  } else {
    Roster roster;
    for (std::uint32_t i = 0; i < count && in.good(); ++i) roster.push_back(unpack_handshake(in));
    answer = std::move(roster);
  }
  return in.at_end() ? std::optional(std::move(answer)) : std::nullopt;
}

Bytes sealed(Bytes message, const std::string& secret, Side side, const Nonces& nonces) {
  const Proof proof = prove(secret, side, nonces, message);
  message.insert(message.end(), proof.begin(), proof.end());
  return message;
}

std::optional<std::span<const std::byte>> opened(std::span<const std::byte> sealed, const std::string& secret,
                                                 Side side, const Nonces& nonces) {
  constexpr std::size_t kProof = std::tuple_size_v<Proof>;
  if (sealed.size() < kProof) return {};
  const std::span<const std::byte> message = sealed.first(sealed.size() - kProof);
  if (!is_proved(secret, side, nonces, message, sealed.last(kProof))) return {};
  return message;
}

Bytes pack_hello(const Handshake& handshake, const std::string& secret, const Nonces& nonces) {
  Packer out;
  pack(out, handshake);
  out.raw(nonces.connector);
  return sealed(std::move(out).done(), secret, Side::connector, nonces);
}

Hello read_hello(std::span<const std::byte> bytes, const std::string& secret, const Nonce& challenge) {
  constexpr std::size_t kNonce = std::tuple_size_v<Nonce>;
  constexpr std::size_t kTail = kNonce + std::tuple_size_v<Proof>;
  Hello hello = {.version = {}, .nonces = {.acceptor = challenge}};
  Unpacker in(bytes);
  const auto version = in.number<std::uint32_t>();
  if (in.good()) hello.version = version;
  if (bytes.size() < kTail) return hello;
  Unpacker(bytes.last(kTail)).raw(hello.nonces.connector);
  const auto message = opened(bytes, secret, Side::connector, hello.nonces);
  if (message && version == kTcpVersion)
    hello.handshake = unpacked_handshake(message->first(message->size() - kNonce));
  return hello;
}

std::optional<std::uint64_t> length_after(std::span<const std::byte, kFrontBytes> front) {
  Unpacker in(front);
  if (in.number<std::uint64_t>() != kMagic) return {};
  return in.number<std::uint64_t>();
}

bool send_packed(const Descriptor& socket, const Bytes& bytes, Clock::time_point deadline) {
  Packer out;
  out.number(kMagic);
  out.number(static_cast<std::uint64_t>(bytes.size()));
  out.raw(bytes);
  return write_all(socket, std::move(out).done(), deadline);
}

std::optional<Bytes> receive_packed(const Descriptor& socket, Clock::time_point deadline) {
  std::array<std::byte, kFrontBytes> front{};
  if (!read_all(socket, front, deadline)) return {};
  const std::optional<std::uint64_t> size = length_after(front);
  if (!size || *size > kMaxAnswerBytes) return {};
  Bytes bytes;
  while (bytes.size() < *size) {
    const std::size_t at = bytes.size();
    bytes.resize(std::min<std::size_t>(*size, at + kStep));
    if (!read_all(socket, std::span(bytes).subspan(at), deadline)) return {};
  }
  return bytes;
}

}  // namespace transport
