#include "cli/input.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/files.hpp"
#include "core/quantities.hpp"

namespace cli {

using core::InputError;

void reject(std::string_view option, std::string_view expected, std::string_view value) {
  throw InputError(fmt::format("{}: expected {}, got '{}'", option, expected, core::printable(value)));
}

void check_name(std::string_view option, const std::string& name,
                const std::vector<std::string_view>& known) {
  if (std::ranges::find(known, name) != known.end()) return;
  throw InputError(fmt::format("{}: expected one of {}, got '{}'{}", option, fmt::join(known, ", "),
                               core::printable(name), core::suggestion(name, known)));
}

double read_rate(std::string_view option, const std::string& text) {
  const std::optional<double> rate = core::parse_rate(text);
  if (!rate) reject(option, "a rate such as 1gbit", text);
  return *rate;
}

double read_delay_us(std::string_view option, const std::string& text) {
  const std::optional<double> delay_us = core::parse_delay_us(text);
  if (!delay_us) reject(option, "a time such as 100us", text);
  return *delay_us;
}

std::string read_text(const std::string& file) {
  try {
    return core::read_file(file);
  } catch (const std::system_error& error) {
    throw InputError(fmt::format("{}: /: expected a file that can be read, got: {}", core::one_line(file),
                                 error.code().message()));
  }
}

void check_different_files(const std::vector<std::pair<std::string_view, std::string>>& files) {
  const auto normal = [](const std::string& file) { return std::filesystem::path(file).lexically_normal(); };
  for (std::size_t i = 1; i < files.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!files[i].second.empty() && normal(files[i].second) == normal(files[j].second))
        throw InputError(
            fmt::format("{}: expected a file of its own, got the one of {}", files[i].first, files[j].first));
}

}  // namespace cli
