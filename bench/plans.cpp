#include "bench/benches.hpp"
#include "bench/inputs.hpp"
#include "bench/measure.hpp"

#include <fmt/core.h>

#include "planner/run/predict.hpp"

namespace bench {
namespace {

constexpr const char* kWfbp = R"({"fusion": "optimal"})";
constexpr const char* kDear = R"({"pipeline": "dear", "fusion": "optimal"})";
constexpr const char* kEncoded = R"({"fusion": "optimal", "compression": {"name": "sparse", "ratio": 0.02,
    "encode": {"us_per_byte": 8.5e-5, "floor_us": 356}}})";
constexpr const char* kDecoded = R"({"fusion": "optimal", "compression": "dgc"})";
constexpr const char* kChoices = R"({"fusion": {"kind": "optimal", "choices":
    {"all_reduce": ["double_binary_tree"], "compression": ["dgc", "fp16"]}}})";
constexpr const char* kEightGroups = R"({"fusion": {"kind": "optimal", "constraints": {"groups": 8}}})";

struct Case {
  std::string what;
  std::size_t tensors = 0;
  const char* schedule_json = nullptr;
  Bound bound = {};
  double alpha_us = 45.25;
};

/// Times the exact planner on a schedule, from its inputs to the groups.
void bench_optimal(const Case& given) {
  const core::Profile profile = profile_of(given.tensors);
  const core::Network network = network_of(given.alpha_us);
  const planner::Setting setting(profile, network, 64, {}, {});
  const planner::Schedule schedule = schedule_of(given.schedule_json);
  planner::Groups groups;
  planner::Proof proof;
  const Measurement result = measure(given.tensors > 1000 ? 2 : 20, [&] {
    const planner::FusionRequest request = planner::request_of(setting, schedule);
    planner::Grouping found = schedule.fusion.fuse(request);
    groups = std::move(found.groups);
    proof = found.proof.value();
  });
  report(fmt::format("exact plan, {}, {} tensors: {} groups, front {}{}", given.what, given.tensors,
                     groups.size(), proof.largest_front,
                     proof.optimality_gap > sim::Time::zero() ? ", NOT exact" : ""),
         result, given.bound);
}

/// Counts how many given plans can be evaluated per second.
void bench_evaluate(const char* schedule_json) {
  const core::Profile profile = profile_of(161);
  const core::Network network = network_of();
  const planner::Setting setting(profile, network, 64, {}, {});
  const planner::Schedule schedule = schedule_of(schedule_json);
  const planner::FusionRequest request = planner::request_of(setting, schedule);
  planner::Groups groups;
  for (std::uint32_t i = 0; i < request.workload.gradient_count(); ++i)
    groups.push_back({.begin = i, .end = i + 1});
  constexpr int kTimes = 20'000;
  const Measurement result = measure(5, [&] {
    for (int i = 0; i < kTimes; ++i)
      if (planner::evaluate(request, groups) == sim::Time::zero()) fmt::print("never\n");
  });
  fmt::print("{:<80} {:>10.0f} a second  bound 100000\n",
             fmt::format("plans evaluated, 161 tensors alone, {}", schedule.name), kTimes / result.ms * 1e3);
}

}  // namespace

void plans() {
  const Bound large = {.ms = 5000, .mb = 200};
  for (const std::size_t tensors : {161U, 207U, 314U}) {
    bench_optimal({"wfbp", tensors, kWfbp, {.ms = 1}});
    bench_optimal({"wfbp, no alpha", tensors, kWfbp, {.ms = 1}, 0});
    bench_optimal({"compressed, decoding free", tensors, kEncoded, {.ms = 1}});
    bench_optimal({"compressed", tensors, kDecoded, {.ms = 10}});
  }
  bench_optimal({"dear", 161, kDear, {.ms = 5}});
  bench_optimal({"wfbp", 604, kWfbp});
  bench_optimal({"dear", 604, kDear, {.ms = 100}});
  bench_optimal({"wfbp", 10'000, kWfbp, large});
  bench_optimal({"wfbp, no alpha", 10'000, kWfbp, large, 0});
  bench_optimal({"compressed, decoding free", 10'000, kEncoded, large});
  bench_optimal({"compressed", 10'000, kDecoded, large});
  bench_optimal({"dear", 10'000, kDear, large});
  const Bound huge = {.ms = 1000, .mb = 200};
  bench_optimal({"wfbp", 100'000, kWfbp, huge});
  bench_optimal({"wfbp, no alpha", 100'000, kWfbp, huge, 0});
  bench_optimal({"2 algorithms x 3 compressors", 161, kChoices});
  bench_optimal({"exactly 8 groups", 161, kEightGroups});
  for (const char* const schedule : {kWfbp, kEncoded, kDecoded, kDear}) bench_evaluate(schedule);
}

}  // namespace bench
