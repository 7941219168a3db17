#include "collectives/transport/tcp/mesh.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace transport {
namespace {

/// How long a connecting process may take to identify itself.
constexpr std::chrono::seconds kHandshakeTime(2);

struct PendingPeer {
  Handshake handshake;
  Descriptor socket;
};

/// Returns nothing for a stranger, or if nobody connects before the deadline.
std::optional<PendingPeer> accept_handshake(const Descriptor& listener, Clock::time_point deadline) {
  std::optional<Descriptor> socket = accept_on(listener, deadline);
  if (!socket) return {};
  const std::optional<Bytes> said =
      receive_packed(*socket, std::min(deadline, Clock::now() + kHandshakeTime));
  if (!said) return {};
  std::optional<Handshake> handshake = unpacked_handshake(*said);
  if (!handshake) return {};
  return PendingPeer{.handshake = std::move(*handshake), .socket = std::move(*socket)};
}

/// Used by rank 0 while the other ranks connect.
class Registration {
 public:
  Registration(const Handshake& own, Clock::time_point deadline)
      : own_(own), deadline_(deadline), roster_(own.size), mesh_{.processes = {}, .sockets = {}} {
    mesh_.sockets.resize(own.size);
    roster_[0] = own;
  }

  Mesh receive(const Descriptor& listener) && {
    for (std::uint32_t there = 1; there < own_.size;) {
      std::optional<PendingPeer> peer = accept_handshake(listener, deadline_);
      if (!peer && Clock::now() >= deadline_) refuse(missing());
      if (!peer) continue;
      const std::string fault = fault_of(peer->handshake);
      const std::uint32_t rank = peer->handshake.rank;
      if (!fault.empty()) {
        refused_ = std::move(peer->socket);
        refuse(fault);
      }
      mesh_.sockets[rank] = std::move(peer->socket);
      roster_[rank] = std::move(peer->handshake);
      ++there;
    }
    answer(roster_);
    for (const Handshake& handshake : roster_) mesh_.processes.push_back(handshake.process);
    return std::move(mesh_);
  }

 private:
  std::string fault_of(const Handshake& handshake) const {
    if (handshake.version != own_.version)
      return fmt::format("{} speaks version {} of the protocol, and rank 0 version {}",
                         name(handshake.rank, handshake.process), handshake.version, own_.version);
    if (handshake.job != own_.job)
      return fmt::format("{} is of another job", name(handshake.rank, handshake.process));
    if (handshake.size != own_.size)
      return fmt::format("{} is one of {}, and rank 0 one of {}", name(handshake.rank, handshake.process),
                         handshake.size, own_.size);
    if (handshake.rank >= own_.size)
      return fmt::format("{} is not a rank below {}", name(handshake.rank, handshake.process), own_.size);
    if (handshake.rank == 0 || mesh_.sockets[handshake.rank])
      return fmt::format("{} and {} are the same rank", name(handshake.rank, roster_[handshake.rank].process),
                         name(handshake.rank, handshake.process));
    return "";
  }

  std::string missing() const {
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t rank = 1; rank < own_.size; ++rank)
      if (!mesh_.sockets[rank]) ranks.push_back(rank);
    return fmt::format("rank 0 has timed out waiting for rank{} {} of {}", ranks.size() == 1 ? "" : "s",
                       fmt::join(ranks, ", "), own_.size);
  }

  void answer(const Answer& answer) {
    const Bytes bytes = packed(answer);
    const Clock::time_point deadline = std::max(deadline_, Clock::now() + kHandshakeTime);
    for (std::uint32_t rank = 1; rank < own_.size; ++rank)
      if (mesh_.sockets[rank]) (void)send_packed(mesh_.sockets[rank], bytes, deadline);
    if (refused_) (void)send_packed(refused_, bytes, deadline);
  }

  [[noreturn]] void refuse(const std::string& why) {
    answer(Rejection{.why = why});
    throw TransportError(why);
  }

  const Handshake& own_;
  Clock::time_point deadline_;
  Roster roster_;
  Mesh mesh_;
  Descriptor refused_;  // a connection that is refused
};

Roster introduce(const Descriptor& to_master, const Handshake& own, const Address& master,
                 Clock::time_point deadline) {
  const std::string who = name(own.rank, own.process);
  // At the deadline rank 0 reports which ranks are missing.
  const Clock::time_point patience = deadline + kHandshakeTime;
  if (!send_packed(to_master, packed(own), deadline))
    throw TransportError(fmt::format("{}: rank 0 at {} has closed the connection", who, text(master)));
  const std::optional<Bytes> said = receive_packed(to_master, patience);
  const std::optional<Answer> answer = said ? unpacked_answer(*said) : std::nullopt;
  if (!answer)
    throw TransportError(fmt::format("{}: no answer from rank 0 at {}{}", who, text(master),
                                     Clock::now() < patience ? ", which has closed the connection" : ""));
  if (const auto* rejection = std::get_if<Rejection>(&*answer))
    throw TransportError(fmt::format("{}: refused by rank 0: {}", who, rejection->why));
  const Roster& roster = std::get<Roster>(*answer);
  if (roster.size() != own.size) throw TransportError(who + ": rank 0 has another number of ranks");
  return roster;
}

/// Each rank connects to the ranks below its own and accepts those above.
void connect_others(Mesh& mesh, const Handshake& own, const Roster& roster, const Descriptor& listener,
                    Clock::time_point deadline) {
  for (std::uint32_t rank = 1; rank < own.rank; ++rank) {
    mesh.sockets[rank] = connect_to(roster[rank].listens, deadline);
    (void)send_packed(mesh.sockets[rank], packed(own), deadline);
  }
  for (std::uint32_t awaited = own.size - 1 - own.rank; awaited > 0;) {
    std::optional<PendingPeer> peer = accept_handshake(listener, deadline);
    if (!peer && Clock::now() >= deadline)
      throw TransportError(fmt::format("{}: {} of the ranks above it have not connected",
                                       name(own.rank, own.process), awaited));
    if (!peer) continue;
    const std::uint32_t rank = peer->handshake.rank;
    if (rank <= own.rank || rank >= own.size || mesh.sockets[rank] || peer->handshake != roster[rank])
      continue;
    mesh.sockets[rank] = std::move(peer->socket);
    --awaited;
  }
}

}  // namespace

Mesh connect_mesh(const Membership& membership, Clock::time_point deadline, std::uint32_t version) {
  Handshake own = {.version = version,
                   .rank = membership.rank,
                   .size = membership.size,
                   .job = membership.job,
                   .process = this_process(),
                   .listens = {}};
  if (own.rank == 0) {
    Descriptor listener(membership.listener);
    if (own.size > 1 && !listener) listener = listen_on(membership.master);
    return Registration(own, deadline).receive(listener);
  }
  Descriptor to_master = connect_to(membership.master, deadline);
  const Descriptor listener = listen_on({.host = local_address(to_master).host, .port = 0});
  own.listens = local_address(listener);
  const Roster roster = introduce(to_master, own, membership.master, deadline);
  Mesh mesh;
  for (const Handshake& handshake : roster) mesh.processes.push_back(handshake.process);
  mesh.sockets.resize(own.size);
  mesh.sockets[0] = std::move(to_master);
  connect_others(mesh, own, roster, listener, deadline);
  return mesh;
}

}  // namespace transport
