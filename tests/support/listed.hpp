// The names of a table's entries, as messages list them: a new entry changes no test that expects such a
// message.

#pragma once

#include <span>
#include <string>

#include <fmt/ranges.h>

#include "planner/job/registry.hpp"

namespace support {

template <typename Entry>
std::string listed(std::span<const Entry> table) {
  return fmt::format("{}", fmt::join(planner::names(table), ", "));
}

}  // namespace support
