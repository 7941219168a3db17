// The subcommands; each adds itself to the program and runs when it was chosen.

#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "traces/network.hpp"
#include "traces/profile.hpp"

namespace cli {

void add_simulate(CLI::App& app);
void add_plan(CLI::App& app);
void add_import(CLI::App& app);
void add_estimate(CLI::App& app);
void add_show(CLI::App& app);
void add_schema(CLI::App& app);

/// Results go to stdout, all at once; throws WorldError when it cannot be written.
void print(const std::string& text);

/// What a profile or network holds, in a few lines.
std::string summary(const traces::Profile& profile);
std::string summary(const traces::Network& network);

/// Writes the text to the file and prints the summary or, without a file, prints the text.
void write_or_print(const std::string& file, const std::string& text, const std::string& summary);

/// Warnings go to stderr, a line each.
void warn(const std::vector<std::string>& warnings);

}  // namespace cli
