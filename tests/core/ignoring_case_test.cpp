#include "core/ignoring_case.hpp"

#include <vector>

#include <doctest/doctest.h>

namespace core {
namespace {

TEST_CASE("names: one that differs only in case from exactly one candidate is that one") {
  const std::vector<std::string_view> known = {"wfbp", "Mine", "mine", "DeAR", "wfbp"};
  CHECK(ignoring_case("WFBP", known) == "wfbp");
  CHECK(ignoring_case("dear", known) == "DeAR");
  CHECK(ignoring_case("Mine", known) == "Mine");
  CHECK(ignoring_case("MINE", known) == "MINE");
  CHECK(ignoring_case("wfbp2", known) == "wfbp2");
}

}  // namespace
}  // namespace core
