// The subcommands; each adds itself to the program and runs when it was chosen.

#pragma once

#include <string>

#include <CLI/App.hpp>

namespace cli {

void add_simulate(CLI::App& app);
void add_plan(CLI::App& app);
void add_import(CLI::App& app);
void add_estimate(CLI::App& app);
void add_show(CLI::App& app);
void add_schema(CLI::App& app);

/// Results go to stdout, all at once; throws WorldError when it cannot be written.
void print(const std::string& text);

/// Warnings go to stderr, a line each.
void warn(const std::vector<std::string>& warnings);

}  // namespace cli
