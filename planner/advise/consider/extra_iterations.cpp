// Parses the user's statement of the additional iterations that compressors need.

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "planner/advise/consider.hpp"
#include "planner/job/registry.hpp"

namespace planner {
namespace {

double number_in(std::string_view text, double min, double max, std::string_view what) {
  double out = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
  const bool is_number = problem == std::errc{} && end == text.data() + text.size();
  if (!is_number || !(out >= min && out <= max))
    throw core::InputError(fmt::format("--extra-iterations: expected {} from {} to {}, got '{}'", what, min,
                                       max, core::printable(text)));
  return out;
}

}  // namespace

ExtraIterations read_extra_iterations(std::string_view text, const std::vector<std::string>& known) {
  constexpr double kMaxTimes = 1000;
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos)
    throw core::InputError(
        fmt::format("--extra-iterations: expected COMPRESSOR=FACTOR or COMPRESSOR@DENSITY=FACTOR, got '{}'",
                    core::printable(text)));
  ExtraIterations out = {
      .compressor = std::string(text.substr(0, equals)),
      .density = {},
      .factor = number_in(text.substr(equals + 1), 1 / kMaxTimes, kMaxTimes, "a factor after '='")};
  const std::size_t at = out.compressor.rfind('@');
  if (at != std::string::npos && std::ranges::find(known, out.compressor) == known.end()) {
    out.density = number_in(text.substr(at + 1, equals - at - 1), 0, 1, "a density after '@'");
    out.compressor.resize(at);
  }
  const std::vector<std::string_view> names(known.begin(), known.end());
  if (std::ranges::find(known, out.compressor) == known.end())
    throw core::InputError(fmt::format("--extra-iterations: expected one of {}, got '{}'{}",
                                       fmt::join(names, ", "), core::printable(out.compressor),
                                       core::suggestion(out.compressor, names)));
  return out;
}

std::vector<std::string> considered_names(std::span<const Compressor> offered) {
  std::vector<std::string> out;
  for (const std::string_view name : names(built_in_compressors())) out.emplace_back(name);
  for (const SparseEntry& entry : sparse_collectives())
    if (!entry.is_alias) out.emplace_back(entry.name);
  for (const Compressor& compressor : offered)
    if (!compressor.is_none() && std::ranges::find(out, compressor.name) == out.end())
      out.push_back(compressor.name);
  return out;
}

}  // namespace planner
