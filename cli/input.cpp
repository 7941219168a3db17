#include "cli/input.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/file_format.hpp"
#include "core/files.hpp"
#include "core/ignoring_case.hpp"
#include "core/quantities.hpp"
#include "profiler/traces/kineto/gzip_stream.hpp"

namespace cli {

using core::InputError;

void reject(std::string_view option, std::string_view expected, std::string_view value) {
  throw InputError(fmt::format("{}: expected {}, got '{}'", option, expected, core::printable(value)));
}

std::string known_name(std::string_view option, const std::string& text,
                       const std::vector<std::string_view>& known, std::string_view condition) {
  std::string name = core::ignoring_case(text, known);
  if (std::ranges::find(known, name) != known.end()) return name;
  throw InputError(fmt::format("{}: expected one of {}{}{}, got '{}'{}", option, fmt::join(known, ", "),
                               condition.empty() ? "" : " ", condition, core::printable(text),
                               core::suggestion(text, known)));
}

std::string format_of(const core::Field& file, std::span<const std::string_view> formats) {
  if (file.is_object() && !file.has("format"))
    throw InputError(
        fmt::format("{}: /format: {}", file.source(),
                    core::no_format(formats, [&](std::string_view key) { return file.has(key); })));
  return file.at("format").one_of(formats);
}

double read_rate(std::string_view option, const std::string& text) {
  const std::optional<double> rate = core::parse_rate(text);
  if (!rate) reject(option, "a rate in kbit, mbit, gbit or tbit (a second), such as 1gbit", text);
  return *rate;
}

double read_delay_us(std::string_view option, const std::string& text) {
  const std::optional<double> delay_us = core::parse_delay_us(text);
  if (!delay_us) reject(option, "a time such as 100us", text);
  return *delay_us;
}

std::string read_text(const std::string& file, std::size_t max_bytes) {
  try {
    return core::read_file(file, max_bytes);
  } catch (const core::ReadError& error) {
    throw InputError(
        fmt::format("{}: /: expected a file that can be read, got: {}", core::one_line(file), error.what()));
  }
}

namespace {

/// The text of a log that may be gzip.
std::string unpacked(const std::string& file) {
  std::string text = read_text(file, core::kMaxLogBytes);
  if (text.rfind("\x1f\x8b", 0) != 0) return text;
  kineto::GzipStream stream(file);
  std::array<char, 1U << 16U> part{};
  text.clear();
  for (std::streamsize size = 1; size > 0;) {
    size = stream.sgetn(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(size));
    stream.end_token();
    if (text.size() > core::kMaxLogBytes)
      throw InputError(fmt::format("{}: /: expected a log of at most {} MiB, got more", core::one_line(file),
                                   core::kMaxLogBytes >> 20U));
  }
  return text;
}

}  // namespace

std::vector<traces::LogFile> read_logs(const std::vector<std::string>& files) {
  std::vector<traces::LogFile> out;
  std::size_t bytes = 0;
  for (const std::string& file : files) {
    out.push_back({.path = file, .text = unpacked(file)});
    bytes += out.back().text.size();
    if (bytes > core::kMaxLogBytesInAll)
      throw InputError(fmt::format("{}: /: expected logs of at most {} MiB in all, got more",
                                   core::one_line(file), core::kMaxLogBytesInAll >> 20U));
  }
  return out;
}

}  // namespace cli
