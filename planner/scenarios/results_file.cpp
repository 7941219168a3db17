// Results as JSON and CSV.

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/json_text.hpp"
#include "planner/scenarios/results_text.hpp"

namespace scenarios {
namespace {

using nlohmann::ordered_json;
using planner::Metrics;

constexpr std::array<std::pair<std::string_view, double Metrics::*>, 13> kNumbers = {{
    {"iteration_us", &Metrics::iteration_us},
    {"forward_us", &Metrics::forward_us},
    {"backward_us", &Metrics::backward_us},
    {"encode_us", &Metrics::encode_us},
    {"decode_us", &Metrics::decode_us},
    {"update_us", &Metrics::update_us},
    {"unoverlapped_input_us", &Metrics::read_us},
    {"communication_us", &Metrics::communication_us},
    {"exposed_communication_us", &Metrics::exposed_communication_us},
    {"bytes_sent_per_worker", &Metrics::bytes_sent_per_worker},
    {"throughput_samples_per_s", &Metrics::throughput_samples_per_s},
    {"speedup", &Metrics::speedup},
    {"scaling_efficiency", &Metrics::scaling_efficiency},
}};

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

ordered_json json_of(const planner::Spread& spread) {
  return {{"mean_us", spread.mean_us},
          {"p50_us", spread.p50_us},
          {"p95_us", spread.p95_us},
          {"p99_us", spread.p99_us},
          {"max_us", spread.max_us}};
}

ordered_json json_of(const std::vector<planner::WorkerTime>& times) {
  ordered_json out = ordered_json::array();
  for (const planner::WorkerTime& each : times) out.push_back({{"worker", each.worker}, {"us", each.us}});
  return out;
}

ordered_json json_of(const planner::Utilisation& utilisation) {
  ordered_json out = {{"compute", utilisation.compute}, {"channel", utilisation.channel}};
  if (utilisation.links.empty()) return out;
  ordered_json links = ordered_json::array();
  for (const planner::LinkUse& each : utilisation.links)
    links.push_back({{"link", each.link}, {"share", each.share}});
  out["links"] = std::move(links);
  return out;
}

ordered_json json_of(const planner::WorkerReport& report) {
  ordered_json out = {{"iteration", json_of(report.iteration)},
                      {"waiting", json_of(report.waiting)},
                      {"waited_for", json_of(report.waited_for)},
                      {"utilisation", json_of(report.utilisation)}};
  if (const auto& path = report.critical_path) {
    out["critical_path"] = {{"compute_us", path->computing_us},
                            {"communication_us", path->communicating_us},
                            {"untraced_us", path->untraced_us},
                            {"workers", json_of(path->workers)}};
    if (!path->senders.empty()) out["critical_path"]["senders"] = json_of(path->senders);
  }
  return out;
}

ordered_json json_of(const planner::Interval& interval) {
  ordered_json out = {{"low_us", interval.low_us},
                      {"high_us", interval.high_us},
                      {"share", planner::kIntervalShare},
                      {"samples", interval.samples}};
  if (interval.slower_share) out["slower_share"] = *interval.slower_share;
  return out;
}

ordered_json json_of(const std::vector<Changed>& what_if) {
  ordered_json out = ordered_json::array();
  for (const Changed& each : what_if)
    out.push_back({{"change", each.change},
                   {"iteration_us", each.metrics.iteration_us},
                   {"exposed_communication_us", each.metrics.exposed_communication_us}});
  return out;
}

ordered_json json_of(const JobResult& job) {
  ordered_json phases = ordered_json::array();
  for (const PhaseResult& phase : job.phases)
    phases.push_back({{"name", phase.name},
                      {"schedule", phase.schedule},
                      {"epochs", phase.epochs},
                      {"iterations_per_epoch", phase.iterations_per_epoch},
                      {"first_epoch_iteration_us", phase.first_epoch_iteration_us},
                      {"iteration_us", phase.iteration_us},
                      {"seconds", phase.seconds}});
  ordered_json out = {{"workers", job.workers}, {"seconds", job.seconds}};
  if (job.cost) out["cost"] = *job.cost;
  out["phases"] = std::move(phases);
  return out;
}

ordered_json json_of(const planner::MemoryPeak& memory) {
  ordered_json parts = ordered_json::object();
  for (std::size_t part = 0; part < planner::kMemoryParts.size(); ++part)
    if (memory.has_activations || part != static_cast<std::size_t>(planner::MemoryPart::activations))
      parts[std::string(planner::kMemoryParts[part])] = memory.bytes[part];
  return {{"peak_bytes", planner::total(memory.bytes)},
          {"peak_at_us", sim::to_us(memory.at)},
          {"parts", std::move(parts)}};
}

ordered_json json_of(const std::vector<planner::StageMetrics>& stages) {
  ordered_json out = ordered_json::array();
  for (const planner::StageMetrics& stage : stages) {
    out.push_back({{"stage", stage.stage},
                   {"groups", stage.groups},
                   {"forward_us", stage.forward_us},
                   {"backward_us", stage.backward_us},
                   {"bubble_us", stage.bubble_us},
                   {"communication_us", stage.communication_us},
                   {"passes_end_us", stage.passes_end_us},
                   {"end_us", stage.end_us}});
    if (stage.memory) out.back()["memory"] = json_of(*stage.memory);
  }
  return out;
}

bool has_intervals(const Results& results) {
  return std::ranges::any_of(results.entries, [](const Entry& entry) { return entry.interval.has_value(); });
}

}  // namespace

std::span<const std::pair<std::string_view, double Metrics::*>> result_numbers() { return kNumbers; }

std::string results_json(const Results& results) {
  ordered_json entries = ordered_json::array();
  for (const Entry& entry : results.entries) {
    ordered_json item = {{"workers", entry.metrics.workers}, {"schedule", entry.schedule},
                         {"pipeline", entry.pipeline},       {"fusion", entry.fusion},
                         {"compression", entry.compression}, {"groups", entry.metrics.groups}};
    for (const auto& [name, number] : kNumbers) item[std::string(name)] = entry.metrics.*number;
    if (entry.memory) item["memory"] = json_of(*entry.memory);
    if (!entry.stages.empty()) item["stages"] = json_of(entry.stages);
    if (entry.interval) item["interval"] = json_of(*entry.interval);
    if (entry.by_worker) item["by_worker"] = json_of(*entry.by_worker);
    if (!entry.what_if.empty()) item["what_if"] = json_of(entry.what_if);
    entries.push_back(std::move(item));
  }
  ordered_json out = {{"format", "fusewise.results"},
                      {"version", 1},
                      {"scenario", results.scenario},
                      {"warnings", results.warnings},
                      {"results", std::move(entries)}};
  for (const JobResult& job : results.jobs) out["jobs"].push_back(json_of(job));
  return core::json_text(out);
}

std::string csv_row(const Entry& entry, bool with_interval) {
  fmt::memory_buffer out;
  const auto to = fmt::appender(out);
  fmt::format_to(to, "{},{},{},{},{},{}", entry.metrics.workers, csv_cell(entry.schedule), entry.pipeline,
                 entry.fusion, csv_cell(entry.compression), entry.metrics.groups);
  for (const auto& [name, number] : kNumbers) fmt::format_to(to, ",{}", entry.metrics.*number);
  if (entry.memory) fmt::format_to(to, ",{}", planner::total(entry.memory->bytes));
  if (entry.interval)
    fmt::format_to(to, ",{},{}", entry.interval->low_us, entry.interval->high_us);
  else if (with_interval)
    fmt::format_to(to, ",,");
  return fmt::to_string(out);
}

std::string csv_header(bool with_memory, bool with_intervals) {
  std::string out = "workers,schedule,pipeline,fusion,compression,groups";
  for (const auto& [name, number] : kNumbers) out += fmt::format(",{}", name);
  if (with_memory) out += ",memory_peak_bytes";
  if (with_intervals) out += ",iteration_low_us,iteration_high_us";
  return out + '\n';
}

std::string results_csv(const Results& results) {
  const bool with_intervals = has_intervals(results);
  const bool with_memory =
      std::ranges::any_of(results.entries, [](const Entry& entry) { return entry.memory.has_value(); });
  std::string out = csv_header(with_memory, with_intervals);
  for (const Entry& entry : results.entries) out += csv_row(entry, with_intervals) + '\n';
  return out;
}

}  // namespace scenarios
