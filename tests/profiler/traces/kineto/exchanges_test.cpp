// Which collectives sum gradients and which belong to layers, of traces written out by hand.

#include "profiler/traces/kineto/exchanges.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"

namespace kineto {
namespace {

struct Sent {
  std::string name;
  std::string group;
  std::int64_t elements = 0;
  LaunchedFrom from = LaunchedFrom::elsewhere;
  std::int32_t node = -1;
};

/// Collectives of float32, in the order of their kernels.
struct Made {
  Trace trace;
  std::vector<LaunchedCollective> all;

  void add(const Sent& sent) {
    trace.collectives.push_back({.name = trace.texts.id(sent.name),
                                 .dtype = trace.texts.id("Float"),
                                 .in_elements = sent.elements,
                                 .group_size = 2,
                                 .group_name = trace.texts.id(sent.group)});
    trace.kernels.push_back({.collective = static_cast<std::int32_t>(trace.kernels.size())});
    all.push_back({.kernel = all.size(), .from = sent.from, .node = sent.node});
  }

  std::vector<bool> exchanges() const { return find_uses(trace, all).is_exchange; }
  std::string group() const {
    const CollectiveUses uses = find_uses(trace, all);
    return uses.gradient_group ? uses.groups[*uses.gradient_group].name : "none";
  }
};

constexpr LaunchedFrom kForward = LaunchedFrom::forward;
constexpr LaunchedFrom kNode = LaunchedFrom::node;
constexpr LaunchedFrom kHook = LaunchedFrom::accumulation;
constexpr LaunchedFrom kElsewhere = LaunchedFrom::elsewhere;

struct Case {
  std::string_view what;
  std::vector<Sent> sent;
  std::vector<bool> is_exchange;
  std::string_view gradient_group;
};

std::vector<Case> cases() {
  return {
      {"in a group that sums gradients, what backward functions reduce belongs to layers",
       {
           {"_allgather_base", "0", 10, kForward},  // statistics of a batch norm
           {"allreduce", "0", 20, kNode, 5},        // their gradients
           {"allreduce", "0", 1000, kHook, 6},
           {"allreduce", "0", 20, kNode, 7},
           {"allreduce", "0", 500, kElsewhere},  // the last bucket
       },
       {true, true, false, true, false},
       "0"},
      {"encoded gradients that hooks gather are no layer's work, nor are parameters",
       {
           {"allreduce", "0", 1000, kHook, 5},
           {"_allgather_base", "0", 100, kHook, 6},
           {"_allgather_base", "0", 900, kElsewhere},
       },
       {false, false, false},
       "0"},
      {"the group whose hooks sum gradients counts, also if another carries more",
       {
           {"allreduce", "tp", 9000, kForward},
           {"allreduce", "tp", 9000, kNode, 5},
           {"allreduce", "dp", 1000, kHook, 6},
           {"allreduce", "tp", 30, kElsewhere},  // gradients of norms, which all members have alike
           {"allreduce", "dp", 1000, kElsewhere},
       },
       {true, true, false, true, false},
       "dp"},
      {"gradients may be summed after backward alone, by a group that serves no forward pass",
       {
           {"allreduce", "tp", 9000, kForward},
           {"allreduce", "tp", 9000, kNode, 5},
           {"allreduce", "tp", 9000, kElsewhere},
           {"allreduce", "dp", 1000, kElsewhere},
       },
       {true, true, true, false},
       "dp"},
      {"nodes sum gradients if nothing else does, in groups that serve no forward pass",
       {
           {"allreduce", "tp", 9000, kForward},
           {"allreduce", "tp", 9000, kNode, 5},
           {"allreduce", "dp", 1000, kNode, 5},
       },
       {true, true, false},
       "dp"},
      {"hooks of FSDP are nodes that scatter gradients and sum them between replicas",
       {
           {"_allgather_base", "shard", 4000, kForward},
           {"allreduce", "tp", 9000, kForward},
           {"_allgather_base", "shard", 4000, kNode, 4},
           {"allreduce", "tp", 9000, kNode, 5},
           {"_reduce_scatter_base", "shard", 4000, kNode, 6},
           {"allreduce", "replicate", 2000, kNode, 6},
           {"_reduce_scatter_base", "shard", 300, kElsewhere},  // of the root, after backward
           {"allreduce", "replicate", 150, kElsewhere},
       },
       {false, true, false, true, false, false, false, false},
       "shard"},
      {"parameters are gathered also where whole gradients are summed, but no layers' results",
       {
           {"_allgather_base", "dp", 500, kForward},
           {"allreduce", "dp", 1000, kHook, 6},
           {"_allgather_base", "dp", 500, kNode, 7},
           {"_allgather_base", "dp", 1000, kElsewhere},
       },
       {true, false, true, false},
       "dp"},
      {"what little is gathered after the update is no share of the parameters, a loss for example",
       {
           {"allreduce", "dp", 1000, kHook, 6},
           {"_allgather_base", "dp", 1, kElsewhere},
       },
       {false, true},
       "dp"},
      {"a group that scatters what forward computes is none that scatters gradients",
       {
           {"_allgather_base", "tp", 9000, kForward},  // sequence parallel
           {"_reduce_scatter_base", "tp", 9000, kForward},
           {"_allgather_base", "tp", 9000, kNode, 4},
           {"_reduce_scatter_base", "tp", 9000, kNode, 5},
           {"_reduce_scatter_base", "dp", 1000, kHook, 6},
           {"_allgather_base", "dp", 1000, kElsewhere},  // parameters after the update
       },
       {true, true, true, true, false, false},
       "dp"},
      {"without gradients the group counts that carries most and other kinds are no curve",
       {
           {"all_to_all", "ep", 90000, kForward},
           {"allreduce", "a", 10, kForward},
           {"allreduce", "b", 20, kForward},
       },
       {true, true, true},
       "b"},
  };
}

TEST_CASE("exchanges: which collectives belong to layers, and which group sums gradients") {
  for (const Case& each : cases()) {
    CAPTURE(each.what);
    Made made;
    for (const Sent& sent : each.sent) made.add(sent);
    CHECK(made.exchanges() == each.is_exchange);
    CHECK(made.group() == each.gradient_group);
  }
  CHECK(Made().group() == "none");
}

TEST_CASE("exchanges: groups of the same name and other members, and streams without names, stay apart") {
  Made made;
  for (int i = 0; i < 4; ++i) made.add({"allreduce", i < 2 ? "tp" : "", 10, kHook, i});
  made.trace.collectives[0].group_ranks = made.trace.texts.id("[0, 1]");
  made.trace.collectives[1].group_ranks = made.trace.texts.id("[2, 3]");
  made.trace.collectives[2].stream = 20;
  made.trace.collectives[3].stream = 28;
  const CollectiveUses uses = find_uses(made.trace, made.all);
  CHECK(uses.group_of == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(uses.groups[1].members == std::vector<std::int64_t>{2, 3});
  CHECK(title(uses.groups, 0) == "tp");
  CHECK(title(uses.groups, 3) == "stream 1");
}

TEST_CASE("exchanges: ranks of a listed process group that are nested lists are not taken, however deep") {
  Made made;
  constexpr std::size_t kDeep = 200'000;
  made.trace.groups_json =
      R"([{"pg_name": "tp", "ranks": )" + std::string(kDeep, '[') + std::string(kDeep, ']') + "}]";
  made.add({"allreduce", "tp", 10, kHook});
  CHECK(find_uses(made.trace, made.all).groups.at(0).members.empty());
}

TEST_CASE("exchanges: process groups that say that they have many members in all are refused") {
  Made made;
  for (std::int64_t i = 0; i < 11; ++i) {
    made.add({"allreduce", "tp", 10, kHook, -1});
    made.trace.collectives.back().group_size = 1'000'000;
    made.trace.collectives.back().rank_start = i;  // a group of its own
    made.trace.collectives.back().rank_stride = 1;
    made.trace.path = "t.json";
    const auto find = [&] { (void)find_uses(made.trace, made.all); };
    if (i < 10)
      CHECK_NOTHROW(find());
    else
      CHECK_THROWS_WITH_AS(
          find(),
          "t.json: /traceEvents: expected process groups of at most 10000000 members in all, got more",
          core::InputError);
  }
}

}  // namespace
}  // namespace kineto
