// Emitters for frameworks in which one number of elements decides all groups.

#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "planner/emit/emit.hpp"
#include "planner/emit/emitters/caps.hpp"
#include "planner/emit/emitters/report.hpp"

namespace planner {

struct OneNumber {
  std::string_view framework;
  std::string_view key;  ///< of the number, in `best_single_cap`
  std::function<Capped(std::int64_t cap)> rule;
  std::function<std::string(std::int64_t number)> text;  ///< the framework's own words
};

/// Finds the best number, says what it makes and what that loses. The report may hold notes already.
Emission emit_one_number(Report& report, const OneNumber& framework);

}  // namespace planner
