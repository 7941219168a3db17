#include "collectives/transport/local_job.hpp"

#include <unistd.h>

#include <random>

#include "collectives/transport/tcp/secret.hpp"

namespace transport {

LocalJob::LocalJob(std::uint32_t size)
    : common_({.size = size, .job = std::to_string(::getpid()), .secret = random_secret()}),
      listener_(listen_on({.host = "127.0.0.1", .port = 0})) {
  common_.master = local_address(listener_);
}

LocalJob::LocalJob(std::uint32_t size, const std::string& host)
    : common_({.size = size, .job = std::to_string(::getpid()), .secret = random_secret()}) {
  common_.master = {.host = host, .port = static_cast<std::uint16_t>(20000 + std::random_device()() % 30000)};
}

Membership LocalJob::enter(std::uint32_t rank) {
  Membership own = common_;
  own.rank = rank;
  own.listener = rank == 0 ? listener_.release() : -1;
  listener_.reset();
  return own;
}

}  // namespace transport
