#include "cli/progress_line.hpp"

#include <unistd.h>

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "cli/output.hpp"
#include "cli/terminal.hpp"
#include "core/printable.hpp"

namespace cli {

std::string pace(std::size_t done, std::size_t left, double seconds) {
  if (done == 0) return "";
  const double rate = static_cast<double>(done) / seconds;
  return fmt::format(", {:.3g} a second, about {:.0f} s left", rate, static_cast<double>(left) / rate);
}

void show_progress_line(int terminal, const std::string& text) {
  const std::string line = "\r\033[K" + cut_to(core::one_line(text), terminal_width(terminal));
  if (::write(terminal, line.data(), line.size()) < 0) return;  // the work matters more
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
  if (terminal_.get() < 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (done == 0) begun_ = now;
  const double seconds = std::chrono::duration<double>(now - begun_).count();
  total_ = std::max(total_, begun_steps_);
  show_progress_line(terminal_.get(), fmt::format("{} of {} done{}: {}", done, total_,
                                                  pace(done, total_ - done, seconds), what));
}

void StepLine::next(std::size_t total, const std::string& what) {
  total_ = total;
  next(what);
}

void StepLine::add(std::size_t steps) { total_ += steps; }

void StepLine::end() {
  if (terminal_.get() >= 0) show_progress_line(terminal_.get(), "");
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
  show_progress_line(STDERR_FILENO,
                     is_done ? "" : text(progress, std::chrono::duration<double>(now - begun_).count()));
}

}  // namespace cli
