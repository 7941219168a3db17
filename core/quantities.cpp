#include "core/quantities.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "core/ignoring_case.hpp"

namespace core {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kMax = 1e15;

/// Reads a number >= 0 and one of the units, ignoring case.
std::optional<double> parse(std::string_view text, std::span<const Unit> units) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return {};
  const std::string unit = in_small_letters(text.substr(static_cast<std::size_t>(end - text.data())));
  for (const Unit& each : units)
    if (unit == each.name) {
      const double value = number * each.factor;
      return value >= 0 && value <= kMax ? std::optional(value) : std::nullopt;
    }
  return {};
}

}  // namespace

std::optional<double> parse_rate(std::string_view text) {
  static constexpr Unit kUnits[] = {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"tbit", 1e12}};
  const std::optional<double> rate = parse(text, kUnits);
  return rate && *rate >= 1 ? rate : std::nullopt;
}

std::optional<double> parse_delay_us(std::string_view text) {
  static constexpr Unit kUnits[] = {{"us", 1}, {"ms", 1e3}, {"s", 1e6}};
  return parse(text, kUnits);
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  static constexpr Unit kUnits[] = {
      {"", 1},     {"b", 1},    {"kib", 1024.0}, {"mib", 1048576.0}, {"gib", 1073741824.0},
      {"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}};
  const std::optional<double> bytes = parse(text, kUnits);
  if (!bytes || *bytes != std::floor(*bytes)) return {};
  return static_cast<std::int64_t>(*bytes);
}

std::optional<std::vector<std::int64_t>> parse_sizes(std::string_view text) {
  std::vector<std::int64_t> sizes;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view item = text.substr(at, end - at);
    const std::size_t dots = item.find("..");
    const std::optional<std::int64_t> first = parse_bytes(item.substr(0, dots));
    const std::optional<std::int64_t> last =
        dots == std::string_view::npos ? first : parse_bytes(item.substr(dots + 2));
    if (!first || !last || *first <= 0 || *last < *first) return {};
    for (std::int64_t size = *first; size <= *last; size *= 2) sizes.push_back(size);
    at = end + 1;
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::string bytes_text(std::int64_t bytes) {
  for (const auto& [name, shift] : {std::pair("GiB", 30), std::pair("MiB", 20), std::pair("KiB", 10)})
    if (bytes > 0 && bytes % (std::int64_t{1} << shift) == 0)
      return fmt::format("{} {}", bytes >> shift, name);
  return fmt::format("{} B", bytes);
}

std::string list_text(std::span<const std::int64_t> numbers) {
  constexpr std::size_t kMaxListed = 12;
  constexpr std::size_t kFirst = 3;
  if (numbers.size() <= kMaxListed) return fmt::format("{}", fmt::join(numbers, ", "));
  return fmt::format("{}, ..., {} ({} numbers)", fmt::join(numbers.first(kFirst), ", "), numbers.back(),
                     numbers.size());
}

}  // namespace core
