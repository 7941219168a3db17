// The subcommands; each adds itself to the program and runs when it was chosen.

#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "cli/command_line.hpp"
#include "core/compressor_costs.hpp"
#include "core/network.hpp"
#include "core/profile.hpp"
#include "profiler/traces/import.hpp"

namespace cli {

void add_simulate(const Command& program);
void add_sweep(const Command& program);
void add_plan(const Command& program);
void add_import(const Command& program);
void add_estimate(const Command& program);
void add_measure(const Command& program);
void add_netlab(const Command& program);
void add_profile(const Command& program);
void add_fit(const Command& program);
void add_validate(const Command& program);
void add_show(const Command& program);
void add_schema(const Command& program);

/// What was validated is outside its tolerance; what() says what. The program exits with 3, its results
/// printed.
class OutOfTolerance : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Results go to stdout, all at once; throws EnvironmentError when it cannot be written.
void print(const std::string& text);

/// Throws InputError where it cannot be read.
traces::LogFile read_log(const std::string& path);

/// What a profile, network or file of measured compressors holds, in a few lines.
std::string summary(const core::Profile& profile);
std::string summary(const core::Network& network);
std::string summary(const core::CompressorCosts& costs);

/// Writes the text to the file and prints the summary or, without a file, prints the text.
void write_or_print(const std::string& file, const std::string& text, const std::string& summary);

/// Warnings go to stderr, a line each.
void warn(const std::vector<std::string>& warnings);

}  // namespace cli
