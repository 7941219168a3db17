#include "cli/output.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "cli/terminal.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/files.hpp"
#include "core/text_table.hpp"

namespace cli {
namespace {

spdlog::logger& log() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto out = spdlog::stderr_logger_st("fusewise");
    out->set_pattern("%v");
    return out;
  }();
  return *logger;
}

}  // namespace

void print(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0)
    throw core::EnvironmentError(
        fmt::format("standard output: cannot write: {}", std::generic_category().message(errno)));
}

void print_for_people(const std::string& text) { print(fitted(text, terminal_width(STDOUT_FILENO))); }

void print_script(const std::string& text) { print(fitted_comments(text, terminal_width(STDOUT_FILENO))); }

bool is_json_file(std::string_view file) { return file.ends_with(".json"); }

void write_or_print(const std::string& file, const std::string& text, const std::string& summary, bool json) {
  if (!file.empty()) core::write_file(file, text);
  if (file.empty() || json) return print(text);
  print_for_people(printable_lines(summary));
}

void print_warnings(const std::vector<std::string>& warnings) {
  const std::size_t width = terminal_width(STDERR_FILENO);
  for (const std::string& warning : warnings)
    log().warn("{}", fitted("warning: " + core::one_line(warning), width));
}

void be_quiet() { log().set_level(spdlog::level::err); }

bool shows_progress() { return log().should_log(spdlog::level::info) && ::isatty(STDERR_FILENO) == 1; }

namespace {

/// Removes a line of progress from a terminal.
std::string_view over_progress() { return ::isatty(STDERR_FILENO) == 1 ? "\r\033[K" : ""; }

}  // namespace

void print_progress(std::string_view message) {
  log().info("{}{}", over_progress(), fitted(core::one_line(message), terminal_width(STDERR_FILENO)));
}

void print_error(std::string_view message) {
  log().error("{}{}", over_progress(), fitted(core::one_line(message), terminal_width(STDERR_FILENO)));
}

std::string printable_lines(const std::string& text) {
  std::string out;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    out += core::one_line(std::string_view(text).substr(begin, end - begin)) + '\n';
    begin = end + 1;
  }
  return out + core::one_line(std::string_view(text).substr(begin));
}

/// What an iteration takes besides its layers, and how long the device waits; empty if it was not measured.
std::string rest_of_iteration(const core::Profile& profile) {
  std::string out;
  if (profile.iteration)
    out = fmt::format(", optimizer {:.3f} ms, other {:.3f} ms", profile.iteration->optimizer_us / 1e3,
                      profile.iteration->other_us / 1e3);
  const core::Profile device = core::without_launch_waits(profile);
  const double wait_us = core::forward_us(profile) + core::backward_us(profile) -
                         (core::forward_us(device) + core::backward_us(device));  // 0 without waits, exactly
  const bool is_of_cpus = profile.device == "CPU";  // as traces of jobs on CPUs name it
  if (wait_us > 0 && is_of_cpus)
    out += fmt::format("\n  {:.3f} ms of this pass between the operators of layers", wait_us / 1e3);
  else if (wait_us > 0)
    out +=
        fmt::format("\n  layers wait {:.3f} ms of this for the host to launch their kernels", wait_us / 1e3);
  return out;
}

std::string summary(const core::Profile& profile) {
  constexpr double kMega = 1e6;
  const auto bytes =
      static_cast<double>(core::parameter_count(profile) * core::bytes_per_element(profile.dtype));
  return fmt::format(
      "profile {} on {}, batch {}, {}: {} layers, {} tensors, {:.2f} MB of gradients\n"
      "  forward {:.3f} ms, backward {:.3f} ms{}\n  origin: {}\n",
      core::one_line(profile.model), core::one_line(profile.device), profile.batch_size,
      core::name(profile.dtype), profile.layers.size(), core::tensor_count(profile), bytes / kMega,
      core::forward_us(profile) / 1e3, core::backward_us(profile) / 1e3, rest_of_iteration(profile),
      core::one_line(profile.origin.source));
}

std::string summary(const core::Network& network) {
  const auto link = [](const core::Link& l) {
    return fmt::format("alpha {:.6g} us, beta {:.6g} us/MB, gamma {:.6g} us/MB", l.alpha_us,
                       l.beta_us_per_byte * 1e6, l.gamma_us_per_byte * 1e6);
  };
  std::string out = fmt::format("network {}\n", core::one_line(network.name));
  if (network.line_rate_gbps) out += fmt::format("  line rate {} Gb/s\n", *network.line_rate_gbps);
  if (network.link) out += fmt::format("  link: {}\n", link(*network.link));
  for (const core::Level& level : network.levels)
    out += fmt::format("  level {}{}: {}{}\n", core::one_line(level.name),
                       level.size ? fmt::format(", {} units", *level.size) : "", link(level.link),
                       level.shared ? ", shared" : "");
  for (const core::Measured& measured : network.measured) {
    out += fmt::format("  measured {}{} on {} workers{}: {} points, {} segments",
                       measured.algorithm ? *measured.algorithm + " " : "", core::name(measured.collective),
                       measured.workers, measured.algorithm ? "" : ", algorithm not stated",
                       measured.curve.points().size(), measured.curve.segments().size());
    if (measured.fit)
      out += fmt::format("; a straight line is off by {:.1f} % in the mean, {:.1f} % at worst",
                         100 * measured.fit->mean_relative_error, 100 * measured.fit->max_relative_error);
    out += '\n';
  }
  return out + fmt::format("  origin: {}\n", core::one_line(network.origin.source));
}

std::string summary(const core::CompressorCosts& costs) {
  const auto hundredths = [](double value) { return fmt::format("{:.2f}", value); };
  std::vector<std::vector<std::string>> rows = {
      {"", "density", "elements", "encode us", "spread", "decode us", "spread", "ratio"}};
  for (const core::MeasuredCompressor& compressor : costs.compressors)
    for (const core::CodeCurve& curve : compressor.curves)
      for (const core::CodePoint& point : curve.points)
        rows.push_back({"  " + compressor.name, curve.density ? fmt::to_string(*curve.density) : "",
                        fmt::to_string(point.elements), hundredths(point.encode.us),
                        hundredths(point.encode.spread_us), hundredths(point.decode.us),
                        hundredths(point.decode.spread_us),
                        fmt::format("{:.5f}", point.bytes / (4 * static_cast<double>(point.elements)))});
  return fmt::format("compressors on {}\n{}  command: {}\n  origin: {}\n", core::one_line(costs.device),
                     core::aligned(std::move(rows), {0}, terminal_width(STDOUT_FILENO)),
                     core::one_line(costs.command), core::one_line(costs.origin.source));
}

}  // namespace cli
