// Input that several commands read and check in the same way.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/field.hpp"
#include "core/limits.hpp"
#include "profiler/traces/importers/log.hpp"

namespace cli {

/// Throws InputError: "OPTION: expected WHAT, got 'VALUE'".
[[noreturn]] void reject(std::string_view option, std::string_view expected, std::string_view value);

/// The known name that the text is, whatever the case of its letters. Throws InputError, with a suggestion,
/// and with `condition` behind the names, such as "with --compressors".
std::string known_name(std::string_view option, const std::string& text,
                       const std::vector<std::string_view>& known, std::string_view condition = {});

/// Bits per second, from a text such as 1gbit.
double read_rate(std::string_view option, const std::string& text);
/// Microseconds, from a text such as 100us.
double read_delay_us(std::string_view option, const std::string& text);

/// The format of a file, if it is one of these.
std::string format_of(const core::Field& file, std::span<const std::string_view> formats);

/// The text of a file. Throws InputError if the file cannot be read or is too large.
std::string read_text(const std::string& file, std::size_t max_bytes = core::kMaxJsonBytes);

/// Reads logs for import and fit. Throws InputError if one of them cannot be read, or if they are too large.
std::vector<traces::LogFile> read_logs(const std::vector<std::string>& files);

}  // namespace cli
