#include "collectives/transport/tcp/mesh.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace transport {
namespace {

/// How long answers may take beyond the deadline, at which rank 0 reports which ranks are missing; also how
/// long a new connection to a process that has listened before may take.
constexpr std::chrono::seconds kAnswerTime(2);
/// The time between two attempts to introduce oneself.
constexpr std::chrono::milliseconds kPause(50);

/// Used by rank 0 while the other ranks connect.
class Registration {
 public:
  Registration(const Handshake& own, const std::string& secret, Clock::time_point deadline)
      : own_(own), secret_(secret), deadline_(deadline), roster_(own.size), guests_(own.size) {
    roster_[0] = own;
  }

  Mesh receive(const Descriptor& listener) && {
    Door door(listener, own_, secret_);
    for (std::uint32_t there = 1; there < own_.size;) {
      std::optional<Guest> guest = door.next(deadline_);
      if (!guest) refuse(missing(), std::move(door).close());
      const std::uint32_t rank = guest->handshake.rank;
      const std::string fault = fault_of(guest->handshake);
      if (!fault.empty()) {
        refused_ = std::move(guest);
        refuse(fault, std::move(door).close());
      }
      if (!guests_[rank].socket) ++there;
      roster_[rank] = guest->handshake;
      guests_[rank] = std::move(*guest);
    }
    answer(roster_);
    Mesh mesh = {.strangers = std::move(door).close()};
    for (const Handshake& handshake : roster_) mesh.processes.push_back(handshake.process);
    for (Guest& guest : guests_) mesh.sockets.push_back(std::move(guest.socket));
    return mesh;
  }

 private:
  /// A process may introduce itself again if its connection was dropped.
  std::string fault_of(const Handshake& handshake) const {
    if (handshake.size != own_.size)
      return fmt::format("{} is one of {}, and rank 0 one of {}", name(handshake.rank, handshake.process),
                         handshake.size, own_.size);
    if (handshake.rank >= own_.size)
      return fmt::format("{} is not a rank below {}", name(handshake.rank, handshake.process), own_.size);
    if (handshake.rank == 0 || (guests_[handshake.rank].socket && handshake != roster_[handshake.rank]))
      return fmt::format("{} and {} are the same rank", name(handshake.rank, roster_[handshake.rank].process),
                         name(handshake.rank, handshake.process));
    return "";
  }

  std::string missing() const {
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t rank = 1; rank < own_.size; ++rank)
      if (!guests_[rank].socket) ranks.push_back(rank);
    return fmt::format("rank 0 has timed out waiting for rank{} {} of {}", ranks.size() == 1 ? "" : "s",
                       fmt::join(ranks, ", "), own_.size);
  }

  void answer(const Answer& answer) {
    const Clock::time_point deadline = std::max(deadline_, Clock::now() + kAnswerTime);
    const auto send_to = [&](const Guest& guest) {
      if (guest.socket) (void)send_answer(guest.socket, answer, secret_, guest.nonces, deadline);
    };
    for (const Guest& guest : guests_) send_to(guest);
    if (refused_) send_to(*refused_);
  }

  [[noreturn]] void refuse(std::string why, const Strangers& strangers) {
    if (strangers.count > 0) why += "; " + text(strangers);
    answer(Rejection{.why = why});
    throw TransportError(why);
  }

  const Handshake& own_;
  const std::string& secret_;
  Clock::time_point deadline_;
  Roster roster_;
  std::vector<Guest> guests_;  // indexed by rank
  std::optional<Guest> refused_;
};

/// Returns the answer of the process at the other end of the socket; nothing if it has closed the connection.
/// Throws if it does not prove that it belongs to the job.
std::optional<Answer> answer_to(const Handshake& own, const std::string& secret, const Descriptor& socket,
                                const std::string& other, Clock::time_point deadline) {
  const std::optional<Bytes> said = receive_packed(socket, deadline);
  const std::optional<Challenge> challenge = said ? unpacked_challenge(*said) : std::nullopt;
  if (!challenge) return {};
  const std::string who = name(own.rank, own.process);
  if (challenge->version != own.version)
    throw TransportError(fmt::format("{} speaks version {} of the protocol, and {} version {}", who,
                                     own.version, other, challenge->version));
  const Nonces nonces = {.acceptor = challenge->nonce, .connector = random_nonce()};
  if (!send_packed(socket, pack_hello(own, secret, nonces), deadline)) return {};
  const std::optional<Bytes> answered = receive_packed(socket, deadline + kAnswerTime);
  if (!answered) return {};
  const auto message = opened(*answered, secret, Side::acceptor, nonces);
  std::optional<Answer> answer = message ? unpacked_answer(*message) : std::nullopt;
  if (!answer)
    throw TransportError(fmt::format("{}: {} does not prove that it knows the same secret", who, other));
  return answer;
}

struct Introduced {
  Descriptor socket;
  Roster roster;
};

/// Connects to a listening process of the job. It may have dropped a connection in favour of others, so this
/// tries until the deadline, while somebody listens there.
Introduced introduce(Descriptor socket, const Handshake& own, const std::string& secret,
                     const Address& address, const std::string& other, Clock::time_point deadline) {
  for (;;) {
    std::optional<Answer> answer = answer_to(own, secret, socket, other, deadline);
    const std::string who = name(own.rank, own.process);
    if (!answer && Clock::now() + kPause >= deadline)
      throw TransportError(fmt::format("{}: no answer from {}", who, other));
    if (!answer) {
      std::this_thread::sleep_for(kPause);
      socket = connect_to(address, std::min(deadline, Clock::now() + kAnswerTime));
      continue;
    }
    if (const auto* rejection = std::get_if<Rejection>(&*answer))
      throw TransportError(fmt::format("{}: refused by {}: {}", who, other, rejection->why));
    return {.socket = std::move(socket), .roster = std::get<Roster>(std::move(*answer))};
  }
}

/// Each rank connects to the ranks below its own and accepts those above.
void connect_others(Mesh& mesh, const Handshake& own, const std::string& secret, const Roster& roster,
                    const Descriptor& listener, Clock::time_point deadline) {
  for (std::uint32_t rank = 1; rank < own.rank; ++rank) {
    const Address& address = roster[rank].listens;
    const std::string other = name(rank, roster[rank].process);
    Introduced there = introduce(connect_to(address, deadline), own, secret, address, other, deadline);
    if (there.roster != Roster{roster[rank]})
      throw TransportError(
          fmt::format("{}: another process answers for {}", name(own.rank, own.process), other));
    mesh.sockets[rank] = std::move(there.socket);
  }
  Door door(listener, own, secret);
  for (std::uint32_t awaited = own.size - 1 - own.rank; awaited > 0;) {
    std::optional<Guest> guest = door.next(deadline);
    if (!guest) {
      const Strangers strangers = std::move(door).close();
      throw TransportError(fmt::format("{}: {} of the ranks above it have not connected{}{}",
                                       name(own.rank, own.process), awaited, strangers.count > 0 ? "; " : "",
                                       text(strangers)));
    }
    const std::uint32_t rank = guest->handshake.rank;
    if (rank <= own.rank || rank >= own.size || guest->handshake != roster[rank]) continue;
    if (!send_answer(guest->socket, Roster{own}, secret, guest->nonces, deadline)) continue;
    if (!mesh.sockets[rank]) --awaited;
    mesh.sockets[rank] = std::move(guest->socket);
  }
  mesh.strangers = std::move(door).close();
}

}  // namespace

Mesh connect_mesh(const Membership& membership, Clock::time_point deadline, std::uint32_t version) {
  if (membership.size > 1 && membership.secret.empty())
    throw std::invalid_argument("the processes of a job need a secret");
  Handshake own = {.version = version,
                   .rank = membership.rank,
                   .size = membership.size,
                   .job = membership.job,
                   .process = this_process()};
  if (own.rank == 0) {
    Descriptor listener(membership.listener);
    if (own.size > 1 && !listener) listener = listen_on(membership.master);
    return Registration(own, membership.secret, deadline).receive(listener);
  }
  Descriptor to_master = connect_to(membership.master, deadline);
  const Descriptor listener = listen_on({.host = local_address(to_master).host, .port = 0});
  own.listens = local_address(listener);
  Introduced there = introduce(std::move(to_master), own, membership.secret, membership.master,
                               fmt::format("rank 0 at {}", text(membership.master)), deadline);
  if (there.roster.size() != own.size)
    throw TransportError(name(own.rank, own.process) + ": rank 0 has another number of ranks");
  Mesh mesh;
  for (const Handshake& handshake : there.roster) mesh.processes.push_back(handshake.process);
  mesh.sockets.resize(own.size);
  mesh.sockets[0] = std::move(there.socket);
  connect_others(mesh, own, membership.secret, there.roster, listener, deadline);
  return mesh;
}

}  // namespace transport
