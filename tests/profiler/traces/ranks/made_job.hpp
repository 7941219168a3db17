// Traces of a made-up job with a known truth: clocks, stragglers, and process groups of equal size.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/support/random.hpp"

namespace support {

/// How a trace tells which collectives of several ranks are the same one.
enum class MatchedBy { sequence, id, order };

struct MadeGroup {
  std::string name;
  std::string description;
  std::vector<std::int64_t> members;
  std::int64_t startup_ns = 0;  ///< a collective takes startup + bytes * ns_per_kib / 1024
  std::int64_t ns_per_kib = 0;
};

struct MadeCall {
  std::size_t group = 0;
  std::int64_t elements = 0;                ///< float32
  std::vector<std::int64_t> start_ns = {};  ///< of each member, true time
  std::int64_t end_ns = 0;
  std::int64_t last() const { return *std::max_element(start_ns.begin(), start_ns.end()); }
};

struct MadeJob {
  std::vector<std::int64_t> offset_ns;  ///< of each rank: what its clock shows besides the true time
  std::vector<MadeGroup> groups;
  std::vector<MadeCall> calls;
  std::vector<std::string> traces;  ///< JSON, of each rank
  std::int64_t slowest = 0;         ///< this rank comes last most often
};

inline std::int64_t made_bytes(const MadeCall& call) { return 4 * call.elements; }

namespace made {

inline std::string time_us(std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

inline std::string event(const MadeJob& job, const MadeCall& call, std::size_t member, std::int64_t number,
                         MatchedBy by) {
  const MadeGroup& group = job.groups[call.group];
  const std::int64_t rank = group.members[member];
  const std::int64_t start = call.start_ns[member] + job.offset_ns[static_cast<std::size_t>(rank)];
  const std::string matched = by == MatchedBy::sequence ? fmt::format(R"("Seq": {}, )", number)
                              : by == MatchedBy::id     ? fmt::format(R"("Comms Id": {}, )", 7000 + number)
                                                        : "";
  return fmt::format(
      R"({{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0, "tid": 7, )"
      R"("ts": {}, "dur": {}, "args": {{"stream": 7, "Collective name": "allreduce", "In msg nelems": {}, )"
      R"("Out msg nelems": {}, "dtype": "Float", "Group size": {}, {}"Process Group Name": "{}", )"
      R"("Process Group Description": "{}", "Process Group Ranks": "[{}]"}}}})",
      time_us(start), time_us(call.end_ns - call.start_ns[member]), call.elements, call.elements,
      group.members.size(), matched, group.name, group.description, fmt::join(group.members, ", "));
}

}  // namespace made

/// Eight ranks: everybody, two data-parallel groups of four, and four tensor-parallel groups of two. With
/// sequence numbers or ids, each trace begins and ends with another collective.
inline MadeJob make_job(std::uint32_t seed, MatchedBy by) {
  Random random(seed);
  MadeJob job;
  constexpr std::int64_t kRanks = 8;
  constexpr std::int64_t kEpoch = 1'700'000'000'000'000'000;
  for (std::int64_t rank = 0; rank < kRanks; ++rank)
    job.offset_ns.push_back(kEpoch + random.between(-1'000'000'000, 1'000'000'000));
  const auto add = [&](std::string name, std::string description, std::vector<std::int64_t> members) {
    job.groups.push_back({.name = std::move(name),
                          .description = std::move(description),
                          .members = std::move(members),
                          .startup_ns = random.between(5'000, 50'000),
                          .ns_per_kib = random.between(10, 500)});
  };
  add("0", "default_pg", {0, 1, 2, 3, 4, 5, 6, 7});
  add("1", "data_parallel", {0, 2, 4, 6});
  add("2", "data_parallel", {1, 3, 5, 7});
  for (std::int64_t i = 0; i < 4; ++i) add(fmt::to_string(3 + i), "tensor_parallel", {2 * i, 2 * i + 1});
  job.slowest = random.between(0, kRanks - 1);

  std::int64_t now = 1'000'000;
  constexpr std::int64_t kCalls = 40;
  for (std::int64_t i = 0; i < kCalls; ++i) {
    MadeCall call = {.group = i < 7 ? static_cast<std::size_t>(i) : random.below(7),
                     .elements = 1024 * random.between(1, 4)};
    const MadeGroup& group = job.groups[call.group];
    for (const std::int64_t rank : group.members)
      call.start_ns.push_back(now + random.between(0, 100'000) + (rank == job.slowest ? 200'000 : 0));
    call.end_ns = call.last() + group.startup_ns + made_bytes(call) * group.ns_per_kib / 1024;
    now = call.end_ns + 10'000;
    job.calls.push_back(std::move(call));
  }

  for (std::int64_t rank = 0; rank < kRanks; ++rank) {
    std::vector<std::string> events;
    std::vector<std::int64_t> number(job.groups.size(), 0);
    for (std::size_t i = 0; i < job.calls.size(); ++i) {
      const MadeCall& call = job.calls[i];
      const auto& members = job.groups[call.group].members;
      const auto found = std::find(members.begin(), members.end(), rank);
      const std::int64_t in_group = by == MatchedBy::id ? static_cast<std::int64_t>(i) : number[call.group]++;
      if (found == members.end()) continue;
      if (by != MatchedBy::order && i >= 7 && i + 1 < job.calls.size() && random.one_in(60))
        continue;  // lost
      events.push_back(
          made::event(job, call, static_cast<std::size_t>(found - members.begin()), in_group, by));
    }
    job.traces.push_back(fmt::format(
        R"({{"distributedInfo": {{"backend": "nccl", "rank": {}, "world_size": {}}}, "traceEvents": [{}]}})",
        rank, kRanks, fmt::join(events, ",\n")));
  }
  return job;
}

}  // namespace support
