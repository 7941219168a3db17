// Work in a thread of its own.

#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include "collectives/transport/prompt.hpp"

namespace {

TEST_CASE("prompt: runs in another thread, and what it throws comes out") {
  std::thread::id where = std::this_thread::get_id();
  transport::run_promptly([&] { where = std::this_thread::get_id(); });
  CHECK(where != std::this_thread::get_id());
  CHECK_THROWS_WITH_AS(transport::run_promptly([] { throw std::runtime_error("no"); }), "no",
                       std::runtime_error);
}

}  // namespace
