// Work in a thread of its own.

#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include "collectives/transport/low_latency.hpp"

namespace {

TEST_CASE("low latency: work runs in another thread, and its exceptions are rethrown") {
  std::thread::id where = std::this_thread::get_id();
  transport::run_with_low_latency([&] { where = std::this_thread::get_id(); });
  CHECK(where != std::this_thread::get_id());
  CHECK_THROWS_WITH_AS(transport::run_with_low_latency([] { throw std::runtime_error("no"); }), "no",
                       std::runtime_error);
}

}  // namespace
