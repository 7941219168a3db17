// Which collectives sum gradients and which belong to layers, of traces written out by hand.

#include "profiler/traces/kineto/exchanges.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace kineto {
namespace {

/// Collectives of float32, in the order of their kernels.
struct Made {
  Trace trace;
  std::vector<LaunchedCollective> all;

  void add(const std::string& name, const std::string& group, std::int64_t elements, LaunchedFrom from,
           std::int32_t node = -1) {
    trace.collectives.push_back({.name = trace.texts.id(name),
                                 .dtype = trace.texts.id("Float"),
                                 .in_elements = elements,
                                 .group_size = 2,
                                 .group_name = trace.texts.id(group)});
    trace.kernels.push_back({.collective = static_cast<std::int32_t>(trace.kernels.size())});
    all.push_back({.kernel = all.size(), .from = from, .node = node});
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

TEST_CASE("exchanges: in a group that sums gradients, what backward functions reduce belongs to layers") {
  Made made;
  made.add("_allgather_base", "0", 10, kForward);  // statistics of a batch norm
  made.add("allreduce", "0", 20, kNode, 5);        // their gradients
  made.add("allreduce", "0", 1000, kHook, 6);
  made.add("allreduce", "0", 20, kNode, 7);
  made.add("allreduce", "0", 500, kElsewhere);  // the last bucket
  CHECK(made.exchanges() == std::vector<bool>{true, true, false, true, false});
  CHECK(made.group() == "0");
}

TEST_CASE("exchanges: the group whose hooks sum gradients counts, also if another carries more") {
  Made made;
  made.add("allreduce", "tp", 9000, kForward);
  made.add("allreduce", "tp", 9000, kNode, 5);
  made.add("allreduce", "dp", 1000, kHook, 6);
  made.add("allreduce", "tp", 30, kElsewhere);  // gradients of norms, which all members have alike
  made.add("allreduce", "dp", 1000, kElsewhere);
  CHECK(made.exchanges() == std::vector<bool>{true, true, false, true, false});
  CHECK(made.group() == "dp");
}

TEST_CASE("exchanges: gradients may be summed after backward alone, by a group that serves no forward pass") {
  Made made;
  made.add("allreduce", "tp", 9000, kForward);
  made.add("allreduce", "tp", 9000, kNode, 5);
  made.add("allreduce", "tp", 9000, kElsewhere);
  made.add("allreduce", "dp", 1000, kElsewhere);
  CHECK(made.exchanges() == std::vector<bool>{true, true, true, false});
  CHECK(made.group() == "dp");
}

TEST_CASE("exchanges: nodes sum gradients if nothing else does, in groups that serve no forward pass") {
  Made made;
  made.add("allreduce", "tp", 9000, kForward);
  made.add("allreduce", "tp", 9000, kNode, 5);
  made.add("allreduce", "dp", 1000, kNode, 5);
  CHECK(made.exchanges() == std::vector<bool>{true, true, false});
  CHECK(made.group() == "dp");
}

TEST_CASE("exchanges: hooks of FSDP are nodes that scatter gradients and sum them between replicas") {
  Made made;
  made.add("_allgather_base", "shard", 4000, kForward);
  made.add("allreduce", "tp", 9000, kForward);
  made.add("_allgather_base", "shard", 4000, kNode, 4);
  made.add("allreduce", "tp", 9000, kNode, 5);
  made.add("_reduce_scatter_base", "shard", 4000, kNode, 6);
  made.add("allreduce", "replicate", 2000, kNode, 6);
  made.add("_reduce_scatter_base", "shard", 300, kElsewhere);  // of the root, after backward
  made.add("allreduce", "replicate", 150, kElsewhere);
  CHECK(made.exchanges() == std::vector<bool>{false, true, false, true, false, false, false, false});
  CHECK(made.group() == "shard");
}

TEST_CASE("exchanges: a group that scatters what forward computes is none that scatters gradients") {
  Made made;
  made.add("_allgather_base", "tp", 9000, kForward);  // sequence parallel
  made.add("_reduce_scatter_base", "tp", 9000, kForward);
  made.add("_allgather_base", "tp", 9000, kNode, 4);
  made.add("_reduce_scatter_base", "tp", 9000, kNode, 5);
  made.add("_reduce_scatter_base", "dp", 1000, kHook, 6);
  made.add("_allgather_base", "dp", 1000, kElsewhere);  // parameters after the update
  CHECK(made.exchanges() == std::vector<bool>{true, true, true, true, false, false});
  CHECK(made.group() == "dp");
}

TEST_CASE("exchanges: without gradients the group counts that carries most and other kinds are no curve") {
  Made made;
  made.add("all_to_all", "ep", 90000, kForward);
  made.add("allreduce", "a", 10, kForward);
  made.add("allreduce", "b", 20, kForward);
  CHECK(made.exchanges() == std::vector<bool>{true, true, true});
  CHECK(made.group() == "b");
  CHECK(Made().group() == "none");
}

TEST_CASE("exchanges: groups of the same name and other members, and streams without names, stay apart") {
  Made made;
  for (int i = 0; i < 4; ++i) made.add("allreduce", i < 2 ? "tp" : "", 10, kHook, i);
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

}  // namespace
}  // namespace kineto
