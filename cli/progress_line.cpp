#include "cli/progress_line.hpp"

#include <unistd.h>

#include <cstdio>
#include <string>

#include <fmt/format.h>

namespace cli {
namespace {

std::string text(const scenarios::Progress& progress) {
  std::string out = fmt::format("{} of {} simulations", progress.done, progress.total);
  if (progress.samples > 0)
    out += fmt::format(", sample {} of {} of the next interval", progress.samples_done, progress.samples);
  return out;
}

}  // namespace

ProgressLine::ProgressLine() : is_terminal_(::isatty(STDERR_FILENO) == 1) {}

void ProgressLine::operator()(const scenarios::Progress& progress) {
  const bool is_done = progress.done == progress.total;
  const auto now = std::chrono::steady_clock::now();
  constexpr auto kPatience = std::chrono::milliseconds(500);
  constexpr auto kRefresh = std::chrono::milliseconds(100);
  if (!is_terminal_ || now - begun_ < kPatience) return;
  if (!is_done && now - shown_ < kRefresh) return;
  shown_ = now;
  fmt::print(stderr, "\r\033[K{}", is_done ? "" : text(progress));
  std::fflush(stderr);
}

}  // namespace cli
