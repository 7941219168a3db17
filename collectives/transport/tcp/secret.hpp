// The secret that the processes of a job share, and proofs that a process knows it.

#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "collectives/transport/transport.hpp"

namespace transport {

/// A random number that is used once.
using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

/// Returns a secret for the processes that this one starts.
std::string random_secret();
Nonce random_nonce();

/// The numbers that both sides of a connection have drawn. Proofs cover them, so that none can be used again.
struct Nonces {
  Nonce acceptor{};
  Nonce connector{};
};

/// The side that proves something. A proof of one side is none of the other.
enum class Side : unsigned char { acceptor = 1, connector };

/// Proves that `side` knows the secret and has sent this message: HMAC-SHA-256.
Proof prove(const std::string& secret, Side side, const Nonces& nonces, std::span<const std::byte> message);

/// Takes equally long for right and wrong proofs.
bool is_proved(const std::string& secret, Side side, const Nonces& nonces, std::span<const std::byte> message,
               std::span<const std::byte> proof);

}  // namespace transport
