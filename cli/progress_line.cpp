#include "cli/progress_line.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "cli/output.hpp"

namespace cli {

std::string pace(std::size_t done, std::size_t left, double seconds) {
  if (done == 0) return "";
  const double rate = static_cast<double>(done) / seconds;
  return fmt::format(", {:.3g} a second, about {:.0f} s left", rate, static_cast<double>(left) / rate);
}

namespace {

std::string text(const scenarios::Progress& progress, double seconds) {
  std::string out = fmt::format("{} of {} simulations{}", progress.done, progress.total,
                                pace(progress.done, progress.total - progress.done, seconds));
  if (progress.samples > 0)
    out += fmt::format(", sample {} of {} of the next interval", progress.samples_done, progress.samples);
  return out;
}

}  // namespace

StepLine::StepLine(std::size_t total)
    : terminal_(shows_progress() ? ::dup(STDERR_FILENO) : -1), total_(total) {}

void StepLine::next(const std::string& what) {
  const std::size_t done = begun_steps_++;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  total_ = std::max(total_, begun_steps_);
  write(fmt::format("\r\033[K{} of {} done{}: {}", done, total_, pace(done, total_ - done, seconds), what));
}

void StepLine::add(std::size_t steps) { total_ += steps; }

void StepLine::end() { write("\r\033[K"); }

void StepLine::write(const std::string& text) const {
  if (terminal_.get() < 0) return;
  if (::write(terminal_.get(), text.data(), text.size()) < 0) return;  // the work matters more
}

ProgressLine::ProgressLine() : is_terminal_(shows_progress()) {}

void ProgressLine::operator()(const scenarios::Progress& progress) {
  const bool is_done = progress.done == progress.total;
  const auto now = std::chrono::steady_clock::now();
  constexpr auto kPatience = std::chrono::milliseconds(500);
  constexpr auto kRefresh = std::chrono::milliseconds(100);
  if (!is_terminal_ || now - begun_ < kPatience) return;
  if (!is_done && now - shown_ < kRefresh) return;
  shown_ = now;
  fmt::print(stderr, "\r\033[K{}",
             is_done ? "" : text(progress, std::chrono::duration<double>(now - begun_).count()));
  std::fflush(stderr);
}

}  // namespace cli
