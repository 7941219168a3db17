// What commands print: results on stdout, everything else on stderr.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/compressor_costs.hpp"
#include "core/network.hpp"
#include "core/profile.hpp"

namespace cli {

/// Prints a result to stdout. Throws EnvironmentError if stdout cannot be written.
void print(const std::string& text);

/// Prints tables and sentences for people; on a terminal, long lines are broken so that they fit it.
void print_for_people(const std::string& text);

/// Prints a script; on a terminal, long comments are broken so that they fit it.
void print_script(const std::string& text);

/// Whether an output that is a page for people by default is asked for as JSON: its name ends in .json.
bool is_json_file(std::string_view file);

/// Writes the text to the file and prints the summary; without a file name, or with --json, prints the text.
void write_or_print(const std::string& file, const std::string& text, const std::string& summary,
                    bool json = false);

/// Each function prints one line to stderr for each text, with control characters escaped.
void print_warnings(const std::vector<std::string>& warnings);
void print_progress(std::string_view message);
void print_error(std::string_view message);

/// From now on print_warnings() and print_progress() print nothing, and shows_progress() is false.
void be_quiet();
/// Whether progress is shown while it is made: on a terminal.
bool shows_progress();

/// Escapes the control characters of a text, but not its line breaks.
std::string printable_lines(const std::string& text);

/// Describes the contents of a file in a few lines.
std::string summary(const core::Profile& profile);
std::string summary(const core::Network& network);
std::string summary(const core::CompressorCosts& costs);

}  // namespace cli
