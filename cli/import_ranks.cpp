#include "cli/import_ranks.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/progress_line.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"
#include "profiler/traces/importers/shared.hpp"
#include "profiler/traces/ranks/read_kineto.hpp"
#include "profiler/traces/ranks/read_nsys.hpp"

namespace cli {
namespace {

using core::InputError;
using ranks::SourceKind;

std::string_view name(SourceKind kind) {
  switch (kind) {
    case SourceKind::kineto: return "a trace of the PyTorch profiler";
    case SourceKind::execution_trace: return "a PyTorch execution trace";
    case SourceKind::nsys: return "an export of Nsight Systems";
    case SourceKind::log: break;
  }
  return "a log or an unknown file";
}

struct Recording {
  std::string file;
  SourceKind kind = SourceKind::log;
};

/// The recordings in a folder; other files in it are left out.
std::vector<Recording> recordings_in(const std::string& folder) {
  std::vector<Recording> out;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem)) {
    if (!entry.is_regular_file(problem)) continue;
    Recording each = {.file = entry.path().string(), .kind = ranks::source_kind(entry.path().string())};
    if (each.kind != SourceKind::log) out.push_back(std::move(each));
  }
  if (problem)
    throw InputError(fmt::format("{}: /: expected a folder that can be read, got: {}", core::one_line(folder),
                                 problem.message()));
  if (out.empty())
    throw InputError(fmt::format("{}: /: expected a folder with {}, got none", core::one_line(folder),
                                 "traces of the PyTorch profiler or exports of Nsight Systems"));
  std::ranges::sort(out, {}, &Recording::file);
  return out;
}

}  // namespace

Recordings recordings_of(const std::vector<std::string>& names) {
  std::vector<Recording> all;
  std::error_code none;
  for (const std::string& each : names) {
    if (!std::filesystem::is_directory(each, none)) {
      all.push_back({.file = each, .kind = ranks::source_kind(each)});
      continue;
    }
    const std::vector<Recording> found = recordings_in(each);
    all.insert(all.end(), found.begin(), found.end());
  }
  Recordings out = {.files = {}, .kind = all.front().kind};
  for (const Recording& each : all) {
    if (each.kind != out.kind)
      throw InputError(fmt::format("{}: /: expected {}, as {} is, got {}", core::one_line(each.file),
                                   name(out.kind), core::one_line(all.front().file), name(each.kind)));
    out.files.push_back(each.file);
  }
  if (out.kind == SourceKind::execution_trace && all.size() > 1)
    throw InputError(fmt::format("{}: /: expected one execution trace at a time, got a second file",
                                 core::one_line(all[1].file)));
  return out;
}

std::vector<ranks::RankTrace> read_ranks(const Recordings& recordings, std::string_view step,
                                         const std::vector<std::int64_t>& parameters) {
  std::vector<ranks::RankTrace> out;
  StepLine line(recordings.files.size());
  line.count_seconds();
  for (const std::string& file : recordings.files) {
    line.next("reading " + core::one_line(file));
    if (recordings.kind == SourceKind::nsys) {
      for (ranks::RankTrace& trace : ranks::read_nsys(file, step)) out.push_back(std::move(trace));
      ranks::check_sizes(out);
      continue;
    }
    out.push_back(ranks::read_kineto(file, step, parameters));
    ranks::check_sizes(out);
    const ranks::RankTrace& trace = out.back();
    if (trace.exchanges.empty() && trace.compute.empty())
      throw InputError(fmt::format(
          "{}: /traceEvents: expected kernels of a GPU, or operators of a job on CPUs, got neither",
          core::one_line(file)));
  }
  line.end();
  return out;
}

core::Network network_of_group(const ranks::Report& report, const traces::Measurements& measurements,
                               const std::string& name, double line_rate_gbps) {
  const std::string source = report.job.ranks.front().path;
  core::Network out = traces::network_of(
      measurements, name.empty() ? traces::importers::stem({.path = source, .text = {}}) : name);
  if (line_rate_gbps > 0) out.line_rate_gbps = line_rate_gbps;
  return core::read_network(core::Field::parse(core::network_text(out), core::one_line(source)));
}

const ranks::RankTrace& trace_of(const ranks::Report& report, std::int64_t rank) {
  std::vector<std::int64_t> known;
  for (const ranks::RankTrace& trace : report.job.ranks) {
    if (rank < 0 || trace.rank == rank) return trace;
    known.push_back(trace.rank);
  }
  throw InputError(fmt::format("--rank: expected one of {}, got {}", fmt::join(known, ", "), rank));
}

}  // namespace cli
