#include "cli/progress_line.hpp"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cli/output.hpp"
#include "cli/terminal.hpp"
#include "core/printable.hpp"

namespace cli {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

}  // namespace

EverySecond::EverySecond(std::function<void()> call)
    : thread_([this, call = std::move(call)](const std::stop_token& stop) {
        constexpr std::chrono::seconds kSecond(1);
        std::unique_lock lock(mutex_);
        while (!is_over_.wait_for(lock, stop, kSecond, [&] { return stop.stop_requested(); })) call();
      }) {}

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

void StepLine::count_seconds() {
  if (terminal_.get() < 0) return;
  seconds_.emplace([this] {
    const std::lock_guard lock(mutex_);
    if (!step_.empty()) show();
  });
}

void StepLine::show() {
  const auto now = Clock::now();
  const std::size_t done = begun_steps_ - 1;
  const double step_s = Seconds(now - step_begun_).count();
  shown_ = now;
  show_progress_line(terminal_.get(),
                     fmt::format("{} of {} done{}: {}{}{}", done, total_,
                                 pace(done, total_ - done, Seconds(now - begun_).count()), step_, detail_,
                                 step_s < 1 ? "" : fmt::format(", {:.0f} s", step_s)));
}

void StepLine::next(const std::string& what) {
  if (terminal_.get() < 0) return;
  const std::lock_guard lock(mutex_);
  step_begun_ = Clock::now();
  if (begun_steps_++ == 0) begun_ = step_begun_;
  total_ = std::max(total_, begun_steps_);
  step_ = what;
  detail_.clear();
  show();
}

void StepLine::detail(const std::string& what) {
  if (terminal_.get() < 0) return;
  constexpr auto kRefresh = std::chrono::milliseconds(100);
  const std::lock_guard lock(mutex_);
  if (step_.empty() || Clock::now() - shown_ < kRefresh) return;
  detail_ = what.starts_with(step_) ? what.substr(step_.size()) : ", " + what;
  show();
}

void StepLine::next(std::size_t total, const std::string& what) {
  {
    const std::lock_guard lock(mutex_);
    total_ = total;
  }
  next(what);
}

void StepLine::add(std::size_t steps) {
  const std::lock_guard lock(mutex_);
  total_ += steps;
}

void StepLine::end() {
  if (terminal_.get() < 0) return;
  const std::lock_guard lock(mutex_);
  step_.clear();
  show_progress_line(terminal_.get(), "");
}

struct ProgressLine::Line {
  const Clock::time_point begun = Clock::now();
  std::mutex mutex;  ///< of what follows
  scenarios::Progress progress;
  Clock::time_point changed = begun;  ///< when a simulation or sample has ended
  Clock::time_point shown = begun;
  EverySecond seconds{[this] {
    const std::lock_guard lock(mutex);
    if (progress.done < progress.total || progress.total == 0) show();
  }};

  void show() {
    const auto now = Clock::now();
    shown = now;
    std::string out = progress.total == 0 ? "simulating" : text(progress, Seconds(now - begun).count());
    if (now - changed >= std::chrono::seconds(1))
      out += fmt::format(", {:.0f} s", Seconds(now - changed).count());
    show_progress_line(STDERR_FILENO, out);
  }
};

ProgressLine::ProgressLine() : line_(shows_progress() ? std::make_shared<Line>() : nullptr) {}

void ProgressLine::operator()(const scenarios::Progress& progress) {
  if (!line_) return;
  constexpr auto kPatience = std::chrono::milliseconds(500);
  constexpr auto kRefresh = std::chrono::milliseconds(100);
  const std::lock_guard lock(line_->mutex);
  line_->progress = progress;
  line_->changed = Clock::now();
  const bool is_done = progress.done == progress.total;
  if (line_->changed - line_->begun < kPatience) return;
  if (is_done) return show_progress_line(STDERR_FILENO, "");
  if (line_->changed - line_->shown >= kRefresh) line_->show();
}

}  // namespace cli
