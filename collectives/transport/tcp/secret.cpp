#include "collectives/transport/tcp/secret.hpp"

#include <sodium.h>

namespace transport {
namespace {

unsigned char* characters(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* characters(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

}  // namespace

Nonce random_nonce() {
  if (::sodium_init() < 0) throw TransportError("no random numbers: libsodium cannot be used");
  Nonce nonce{};
  ::randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string random_secret() {
  const Nonce random = random_nonce();
  return {reinterpret_cast<const char*>(random.data()), random.size()};
}

Proof prove(const std::string& secret, Side side, const Nonces& nonces, std::span<const std::byte> message) {
  static_assert(std::tuple_size_v<Proof> == crypto_auth_hmacsha256_BYTES);
  const auto which = static_cast<std::byte>(side);
  crypto_auth_hmacsha256_state state;
  ::crypto_auth_hmacsha256_init(&state, reinterpret_cast<const unsigned char*>(secret.data()), secret.size());
  for (const std::span<const std::byte> part :
       {std::span(&which, 1), std::span<const std::byte>(nonces.acceptor),
        std::span<const std::byte>(nonces.connector), message})
    ::crypto_auth_hmacsha256_update(&state, characters(part.data()), part.size());
  Proof proof{};
  ::crypto_auth_hmacsha256_final(&state, characters(proof.data()));
  return proof;
}

bool is_proved(const std::string& secret, Side side, const Nonces& nonces, std::span<const std::byte> message,
               std::span<const std::byte> proof) {
  const Proof right = prove(secret, side, nonces, message);
  return proof.size() == right.size() && ::sodium_memcmp(right.data(), proof.data(), right.size()) == 0;
}

}  // namespace transport
