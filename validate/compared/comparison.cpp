#include "validate/compared/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/json.hpp"
#include "core/json_text.hpp"
#include "core/printable.hpp"
#include "core/text_table.hpp"

namespace compared {
namespace {

using nlohmann::ordered_json;

constexpr double kUsPerMs = 1000;

std::string ms(double us) {
  const std::string out = fmt::format("{:.3f}", us / kUsPerMs);
  return out == "-0.000" ? "0.000" : out;
}
constexpr std::string_view kNothing = "+0.000";

std::string signed_ms(double us) {
  const std::string out = fmt::format("{:+.3f}", us / kUsPerMs);
  return out == "-0.000" ? std::string(kNothing) : out;
}

bool have_same_buckets(const Iteration& first, const Iteration& second) {
  return std::equal(first.collectives.begin(), first.collectives.end(), second.collectives.begin(),
                    second.collectives.end(), [](const Collective& a, const Collective& b) {
                      return a.kind == b.kind && a.bytes == b.bytes;
                    });
}

const Collective* at(const Iteration& iteration, std::size_t i) {
  return i < iteration.collectives.size() ? &iteration.collectives[i] : nullptr;
}

/// The parts of the iterations besides the exposed collectives of gradients.
std::vector<Difference> other_parts(const Iteration& first, const Iteration& second) {
  std::vector<Difference> out;
  const auto part = [&](std::string what, double first_us, double second_us) {
    out.push_back({.what = std::move(what), .first_us = first_us, .second_us = second_us});
  };
  part("computing", first.busy_us, second.busy_us);
  if (first.tells_copies && second.tells_copies) {
    part("copies alone", first.copies_us, second.copies_us);
    part("waits for the host", first.idle_us, second.idle_us);
  } else {
    part("other work, copies, waits for the host", first.copies_us + first.idle_us,
         second.copies_us + second.idle_us);
  }
  part("exposed: other communication", first.other_exposed_us, second.other_exposed_us);
  if (first.waiting_us() > 0 || second.waiting_us() > 0)
    part("waiting for slower workers", first.waiting_us(), second.waiting_us());
  return out;
}

std::vector<Difference> differences(const Iteration& first, const Iteration& second) {
  std::vector<Difference> out = other_parts(first, second);
  for (std::size_t i = 0; i < std::max(first.collectives.size(), second.collectives.size()); ++i) {
    const Collective* a = at(first, i);
    const Collective* b = at(second, i);
    out.push_back({.what = fmt::format("{} {}, exposed", (a != nullptr ? a : b)->kind, i + 1),
                   .first_us = a == nullptr ? 0 : a->exposed_us - a->waiting_us,
                   .second_us = b == nullptr ? 0 : b->exposed_us - b->waiting_us});
  }
  std::ranges::stable_sort(out, [](const Difference& a, const Difference& b) {
    return std::abs(a.difference_us()) > std::abs(b.difference_us());
  });
  return out;
}

std::string parts_table(const Comparison& comparison, std::size_t width) {
  const Iteration& a = comparison.first;
  const Iteration& b = comparison.second;
  std::vector<std::vector<std::string>> rows = {
      {"ms", comparison.first_name, comparison.second_name, "difference"}};
  const auto row = [&](std::string what, double first, double second) {
    rows.push_back({std::move(what), ms(first), ms(second), signed_ms(second - first)});
  };
  for (const Difference& part : other_parts(a, b)) row(part.what, part.first_us, part.second_us);
  const auto gradients_us = [](const Iteration& of) {
    return of.exposed_us() - of.other_exposed_us - of.waiting_us();
  };
  row("exposed: collectives of gradients", gradients_us(a), gradients_us(b));
  row("iteration", a.iteration_us, b.iteration_us);
  return core::aligned(std::move(rows), {0}, width);
}

std::string bytes_text(const Collective* collective) {
  if (collective == nullptr) return "-";
  return collective->bytes > 0 ? fmt::to_string(collective->bytes) : "unknown";
}

std::string buckets_table(const Comparison& comparison, std::size_t width) {
  const std::string& first = comparison.first_name;
  const std::string& second = comparison.second_name;
  std::vector<std::vector<std::string>> rows = {
      {"", "bytes", "bytes", "start ms", "start ms", "end ms", "end ms", "exposed ms", "exposed ms", "of it"},
      {"collective", first, second, first, second, first, second, first, second, "waiting"}};
  const std::size_t count =
      std::max(comparison.first.collectives.size(), comparison.second.collectives.size());
  for (std::size_t i = 0; i < count; ++i) {
    const Collective* a = at(comparison.first, i);
    const Collective* b = at(comparison.second, i);
    const auto time = [](const Collective* of, double Collective::*value) {
      return of == nullptr ? std::string("-") : ms(of->*value);
    };
    rows.push_back({fmt::format("{} {}", (a != nullptr ? a : b)->kind, i + 1), bytes_text(a), bytes_text(b),
                    time(a, &Collective::start_us), time(b, &Collective::start_us),
                    time(a, &Collective::end_us), time(b, &Collective::end_us),
                    time(a, &Collective::exposed_us), time(b, &Collective::exposed_us),
                    time(b, &Collective::waiting_us)});
  }
  return count == 0 ? "" : '\n' + core::aligned(std::move(rows), {0}, width);
}

ordered_json side_json(const std::string& name, const Iteration& side) {
  ordered_json collectives = ordered_json::array();
  for (const Collective& each : side.collectives) {
    ordered_json item = {{"collective", each.kind}};
    if (each.bytes > 0) item["bytes"] = each.bytes;
    item.update({{"start_us", each.start_us},
                 {"end_us", each.end_us},
                 {"exposed_us", each.exposed_us},
                 {"waiting_us", each.waiting_us}});
    collectives.push_back(std::move(item));
  }
  ordered_json computing = ordered_json::array();
  for (const Computing& each : side.computing) computing.push_back({each.start_us, each.end_us});
  return {{"name", name},
          {"source", core::one_line(side.source)},
          {"iteration_us", side.iteration_us},
          {"computing_us", side.busy_us},
          {"copies_us", side.copies_us},
          {"idle_us", side.idle_us},
          {"exposed_us", side.exposed_us()},
          {"waiting_us", side.waiting_us()},
          {"other_exposed_us", side.other_exposed_us},
          {"collectives", std::move(collectives)},
          {"computing", std::move(computing)}};
}

}  // namespace

Comparison compare(std::string first_name, Iteration first, std::string second_name, Iteration second) {
  Comparison out = {.first_name = std::move(first_name),
                    .second_name = std::move(second_name),
                    .first = std::move(first),
                    .second = std::move(second)};
  out.same_buckets = have_same_buckets(out.first, out.second);
  out.differences = differences(out.first, out.second);
  if (out.first.workers > 0 && out.second.workers > 0 && out.first.workers != out.second.workers)
    out.warnings.push_back(fmt::format("{} on {} workers, {} on {}", out.first_name, out.first.workers,
                                       out.second_name, out.second.workers));
  return out;
}

std::string comparison_text(const Comparison& comparison, std::size_t width) {
  const Iteration& first = comparison.first;
  const Iteration& second = comparison.second;
  std::string out = fmt::format("{}: {}\n{}: {}\n\n", comparison.first_name, core::one_line(first.source),
                                comparison.second_name, core::one_line(second.source));
  out += parts_table(comparison, width) + buckets_table(comparison, width);
  if (!first.collectives.empty() && !second.collectives.empty())
    out += comparison.same_buckets
               ? fmt::format("\nthe same {} collectives on both sides\n", first.collectives.size())
               : fmt::format("\nthe collectives differ: {} {}, {} {}; they are compared in their order\n",
                             first.collectives.size(), comparison.first_name, second.collectives.size(),
                             comparison.second_name);
  constexpr std::size_t kShown = 3;
  std::string largest;
  for (std::size_t i = 0; i < comparison.differences.size() && i < kShown; ++i) {
    const Difference& each = comparison.differences[i];
    if (signed_ms(each.difference_us()) == kNothing) continue;
    largest +=
        fmt::format("  {} ms: {} ({} {}, {} {} ms)\n", signed_ms(each.difference_us()), each.what,
                    comparison.first_name, ms(each.first_us), comparison.second_name, ms(each.second_us));
  }
  return out + (largest.empty() ? "\nno difference\n" : "\nlargest differences:\n" + largest);
}

std::string comparison_json(const Comparison& comparison) {
  ordered_json differences = ordered_json::array();
  for (const Difference& each : comparison.differences)
    differences.push_back({{"what", each.what},
                           {"first_us", each.first_us},
                           {"second_us", each.second_us},
                           {"difference_us", each.difference_us()}});
  ordered_json warnings = ordered_json::array();
  for (const std::string& warning : comparison.warnings) warnings.push_back(core::one_line(warning));
  return core::json_text(
      {{"format", "fusewise.comparison"},
       {"version", 1},
       {"warnings", std::move(warnings)},
       {"sides", ordered_json::array({side_json(comparison.first_name, comparison.first),
                                      side_json(comparison.second_name, comparison.second)})},
       {"same_buckets", comparison.same_buckets},
       {"differences", std::move(differences)}});
}

}  // namespace compared
