// Lets the processes of a job in: serves all connections to a listening socket side by side, and drops those
// of strangers.

#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "collectives/transport/tcp/handshake.hpp"

namespace transport {

/// Connections that were dropped before their process had proved that it belongs to the job.
struct Strangers {
  std::uint64_t count = 0;
  std::vector<std::string> named;  ///< address and reason of the first few

  void add(std::string who);
};

/// "2 connections of strangers were dropped: 10.0.0.9:4242 (...), 10.0.0.9:4243 (...)"; empty if there are
/// none.
std::string text(const Strangers& strangers);

/// A process that has proved that it belongs to the job.
struct Guest {
  Handshake handshake;
  Descriptor socket;
  Nonces nonces;
};

class Door {
 public:
  /// All of them must outlive the door.
  Door(const Descriptor& listener, const Handshake& own, const std::string& secret)
      : listener_(listener), own_(own), secret_(secret) {}

  /// Returns nothing if no process of the job comes before the deadline.
  std::optional<Guest> next(Clock::time_point deadline);
  /// Drops the connections that have proved nothing yet, and returns all strangers.
  Strangers close() &&;

 private:
  struct Visitor {
    Descriptor socket;
    Nonce challenge;
    Clock::time_point until;  ///< when it has to have said everything
    Bytes said;
    std::string address;
  };

  void let_in();
  bool listen_to(Visitor& visitor, std::string& why);
  std::optional<Guest> judge(Visitor& visitor, std::string& why);
  void drop(const Visitor& visitor, const std::string& why);

  const Descriptor& listener_;
  const Handshake& own_;
  const std::string& secret_;
  std::list<Visitor> visitors_;  ///< in the order in which they came
  Strangers strangers_;
};

/// Sends the answer with this process's proof.
bool send_answer(const Descriptor& socket, const Answer& answer, const std::string& secret,
                 const Nonces& nonces, Clock::time_point deadline);

}  // namespace transport
