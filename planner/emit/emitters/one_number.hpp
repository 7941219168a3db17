// Emitters for frameworks in which one number of elements determines all groups.

#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "planner/emit/emit.hpp"
#include "planner/emit/emitters/caps.hpp"
#include "planner/emit/emitters/report.hpp"

namespace planner {

struct OneNumber {
  std::string_view key;  ///< key of the number in `best_single_cap`
  CapRule rule;
  std::function<std::string(std::int64_t number)> text;  ///< the framework's configuration text for a number
};

/// Notes, if the plan was priced with another one, that the framework gathers parameters in the job's type.
void note_gather_type(Report& report, std::string_view framework);

/// Finds the best number, its groups and their loss against the plan. The report may already hold notes.
Emission emit_one_number(Report& report, const OneNumber& framework);

}  // namespace planner
