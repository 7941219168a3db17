#include "core/file_format.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace core {
namespace {

/// What the file seems to be; empty if its keys do not show it.
std::string_view recognized(const std::function<bool(std::string_view)>& has_key) {
  if (has_key("traceEvents"))
    return "a trace of the PyTorch profiler, of which fusewise import makes a profile";
  if (has_key("hidden_size") && (has_key("model_type") || has_key("architectures")))
    return "the configuration of a Hugging Face model, see docs/profiling.md, From a Hugging Face model";
  if (has_key("not_overlapped_us") && has_key("settings"))
    return "what fusewise torch printed; job.json beside it is the scenario";
  if (has_key("profile") && has_key("network"))
    return R"(a scenario, which needs "format": "fusewise.scenario", "version": 1)";
  return "";
}

}  // namespace

std::string no_format(std::span<const std::string_view> formats,
                      const std::function<bool(std::string_view)>& has_key) {
  const std::string_view seems = recognized(has_key);
  return fmt::format("expected {}{}, got nothing{}", formats.size() > 1 ? "one of " : "",
                     fmt::join(formats, ", "),
                     seems.empty() ? "" : fmt::format(" (it seems to be {})", seems));
}

}  // namespace core
