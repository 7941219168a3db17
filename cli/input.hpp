// Input that several commands read and check in the same way.

#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cli {

/// Throws InputError: "OPTION: expected WHAT, got 'VALUE'".
[[noreturn]] void reject(std::string_view option, std::string_view expected, std::string_view value);

/// Throws InputError, with a suggestion, if the name is not a known one.
void check_name(std::string_view option, const std::string& name, const std::vector<std::string_view>& known);

/// Bits per second, from a text such as 1gbit.
double read_rate(std::string_view option, const std::string& text);
/// Microseconds, from a text such as 100us.
double read_delay_us(std::string_view option, const std::string& text);

/// The text of a file. Throws InputError if the file cannot be read.
std::string read_text(const std::string& file);

/// Throws InputError if two of these files are the same. Each has the name of its option; an empty path is
/// skipped.
void check_different_files(const std::vector<std::pair<std::string_view, std::string>>& files);

}  // namespace cli
