// The commands of the program. Each adds itself with its options, and runs when the command line names it.

#pragma once

#include <stdexcept>
#include <string_view>

#include "cli/command_line.hpp"

namespace cli {

void add_simulate(const Command& program);
void add_report(const Command& program);
void add_sweep(const Command& program);
void add_plan(const Command& program);
void add_import(const Command& program);
void add_estimate(const Command& program);
void add_measure(const Command& program);
void add_netlab(const Command& program);
void add_profile(const Command& program);
void add_compare(const Command& program);
void add_fit(const Command& program);
void add_validate(const Command& program);
void add_calibrate(const Command& program);
void add_doctor(const Command& program);
void add_init(const Command& program);
void add_show(const Command& program);
void add_schema(const Command& program);
void add_torch(const Command& program);

/// A result is outside its tolerance: the program prints its results and what() and exits with 3.
class OutOfTolerance : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace cli
