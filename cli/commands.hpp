// The subcommands; each adds itself to the program and runs when it was chosen.

#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>

#include "core/compressor_costs.hpp"
#include "core/network.hpp"
#include "core/profile.hpp"
#include "profiler/traces/import.hpp"

namespace cli {

void add_simulate(CLI::App& app);
void add_sweep(CLI::App& app);
void add_plan(CLI::App& app);
void add_import(CLI::App& app);
void add_estimate(CLI::App& app);
void add_measure(CLI::App& app);
void add_netlab(CLI::App& app);
void add_profile(CLI::App& app);
void add_fit(CLI::App& app);
void add_validate(CLI::App& app);
void add_show(CLI::App& app);
void add_schema(CLI::App& app);

/// What was validated is outside its tolerance; what() says what. The program exits with 3, its results
/// printed.
class OutOfTolerance : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Results go to stdout, all at once; throws EnvironmentError when it cannot be written.
void print(const std::string& text);

/// Takes numbers from `least` to `most`; unlike CLI::Range no NaN.
CLI::Validator number_in(double min, double max);
/// Takes the name of a file to write.
CLI::Validator file_name();

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
