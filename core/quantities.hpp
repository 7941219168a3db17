// Numbers with a unit, on a command line (1gbit, 64MiB, 100us) and in words.

#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace core {

/// "1gbit", "2.5Gbit", "800mbit", "1e9bit": bits per second, 1000-based, as in tc. Returns nothing for
/// anything else and for 0.
std::optional<double> parse_rate(std::string_view text);

/// "100us", "1.5ms", "0s": microseconds.
std::optional<double> parse_delay_us(std::string_view text);

/// "4096", "4096B", "64KiB" (2^10), "64KB" (10^3), MiB, MB, GiB, GB: bytes.
std::optional<std::int64_t> parse_bytes(std::string_view text);

/// A comma-separated list of sizes; "1KiB..64MiB" means all doublings from the first to the last. Sorted,
/// without duplicates.
std::optional<std::vector<std::int64_t>> parse_sizes(std::string_view text);

/// "64 KiB", "1 MiB", "1000 B": the largest binary unit that gives a whole number.
std::string bytes_text(std::int64_t bytes);

/// "2, 4, 8"; of more than 12 the first three and the last: "2, 3, 4, ..., 99 (98 numbers)".
std::string list_text(std::span<const std::int64_t> numbers);

/// "1 group", "2 groups".
template <std::integral Number>
std::string counted(Number count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace core
