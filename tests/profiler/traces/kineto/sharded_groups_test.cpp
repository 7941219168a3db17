// The groups of FSDP in a trace.

#include "profiler/traces/kineto/sharded_groups.hpp"

#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "profiler/traces/kineto/import.hpp"
#include "profiler/traces/kineto/scattered_groups.hpp"
#include "tests/profiler/traces/kineto/made_sharded_job.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace kineto {
namespace {

using Numbers = std::vector<std::uint32_t>;

/// Gradients that become ready 10, 20 and so on; each 1 row, so that no padding matters.
GroupOfEach divided(const std::vector<std::int64_t>& sizes, const std::vector<Scatter>& scatters) {
  std::vector<ReadyGradient> gradients;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    gradients.push_back(
        {.at_ns = 10 * static_cast<std::int64_t>(i + 1), .elements = sizes[i], .padded = sizes[i]});
  return group_of_each(gradients, scatters);
}

TEST_CASE("sharded groups: gradients that were ready before a module's own belong to the model") {
  // head 7, norm 2 | block 5, 6 | block 5, 6 | embedding 9
  CHECK(divided({7, 2, 5, 6, 5, 6, 9}, {{45, 11}, {65, 11}, {75, 18}}).scatter ==
        Numbers{2, 2, 0, 0, 1, 1, 2});
}

TEST_CASE("sharded groups: where shards are padded, sizes are those with the padding, or else without") {
  const std::vector<ReadyGradient> gradients = {{10, 3, 4}, {20, 3, 4}, {30, 8, 8}};
  CHECK(group_of_each(gradients, {{25, 8}, {35, 8}}).scatter == Numbers{0, 0, 1});
  CHECK(group_of_each(gradients, {{25, 6}, {35, 8}}).scatter == Numbers{0, 0, 1});
}

TEST_CASE("sharded groups: after the last gradient, annotations decide between groups of equal sizes") {
  // head 7, position 2 and embedding 9, of which the last two end with the pass
  CHECK(divided({7, 2, 9}, {{35, 9}, {36, 9}}).unclear ==
        "no gradients, or several choices of them, have the 9 elements of reduce-scatter 1 of 2");
  CHECK(divided({7, 2, 9}, {{35, 9, INT64_MIN, true}, {36, 9, 25}}).scatter == Numbers{0, 0, 1});
  // only one choice has the size
  CHECK(divided({7, 2, 8}, {{35, 9}, {36, 8}}).scatter == Numbers{0, 0, 1});
  CHECK(divided({7, 8, 2}, {{35, 9}, {36, 8}}).scatter == Numbers{0, 1, 0});
}

TEST_CASE(
    "sharded groups: sizes that no gradients have, and gradients that are left, are said to be unclear") {
  CHECK(divided({7, 2, 9}, {{25, 3}, {35, 15}}).unclear ==
        "no gradients, or several choices of them, have the 3 elements of reduce-scatter 1 of 2");
  CHECK(divided({7, 2, 9}, {{15, 7}}).unclear == "2 of 3 gradients belong to no reduce-scatter");
  CHECK(divided({7, 2, 9}, {}).unclear == "3 of 3 gradients belong to no reduce-scatter");
}

/// By parameter, in the order in which forward uses it, the group of an imported trace.
std::vector<int> imported_groups(const Imported& imported) {
  std::map<std::string, int> of;
  for (std::size_t i = 0; i < imported.sharded.groups.size(); ++i)
    for (const std::string& tensor : imported.sharded.groups[i].tensors) of[tensor] = static_cast<int>(i);
  std::vector<int> out;
  for (const core::ProfileLayer& layer : imported.profile.layers)
    for (const core::ProfileTensor& tensor : layer.tensors) out.push_back(of.at(tensor.name));
  return out;
}

/// The numbers in the order of their first use, so that groups with other numbers are the same.
std::vector<int> renumbered(const std::vector<int>& groups) {
  std::map<int, int> seen;
  std::vector<int> out;
  for (const int group : groups)
    out.push_back(seen.try_emplace(group, static_cast<int>(seen.size())).first->second);
  return out;
}

TEST_CASE("sharded groups: those of made-up jobs are found, or said to be unclear") {
  const support::TemporaryFolder folder;
  int annotated = 0;
  int plain = 0;
  int unclear = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const MadeShardedJob::Options options = {.is_annotated = seed % 2 == 0,
                                             .workers = 2 + static_cast<int>(seed % 5),
                                             .gathers_again = seed % 3 > 0,
                                             .steps = 2,
                                             .micro_batches = seed % 5 == 0 ? 3 : 1,
                                             .rows = seed % 4 < 2 ? 9 : 1};
    const MadeShardedJob job(seed, options);
    const Imported imported = import_trace(folder.put("t.json", job.text()), {});
    if (!options.gathers_again && !options.is_annotated)
      CHECK(imported.gathers == core::Gathers::for_forward);
    if (imported.sharded.groups.empty()) {
      CHECK(imported.sharded.warning.starts_with("the trace does not tell the groups of sharded parameters"));
      CHECK_FALSE(options.is_annotated);
      ++unclear;
      continue;
    }
    ++(options.is_annotated ? annotated : plain);
    const std::vector<int> found = imported_groups(imported);
    REQUIRE(renumbered(found) == renumbered(job.group_of()));
    for (std::size_t i = 0; options.is_annotated && i < found.size(); ++i)
      CHECK(imported.sharded.groups[static_cast<std::size_t>(found[i])].is_gathered_again ==
            job.is_gathered_again()[static_cast<std::size_t>(job.group_of()[i])]);
  }
  CHECK(annotated == 200);
  CHECK(plain > 150);
  CHECK(unclear > 0);
}

TEST_CASE(
    "sharded groups: a recorded job of two blocks has three, of which the model's own is not gathered "
    "again") {
  const std::string folder = (support::source_dir() / "tests" / "data" / "cpu" / "fsdp").string();
  const Imported imported = import_trace(folder + "/rank0.json.gz", {});
  std::map<std::string, std::int64_t> elements;
  for (const core::ProfileLayer& layer : imported.profile.layers)
    for (const core::ProfileTensor& tensor : layer.tensors) elements[tensor.name] = tensor.elements;
  std::vector<std::int64_t> sums;
  std::vector<bool> again;
  for (const core::ShardedGroup& group : imported.sharded.groups) {
    sums.push_back(0);
    for (const std::string& tensor : group.tensors) sums.back() += elements.at(tensor);
    again.push_back(group.is_gathered_again);
  }
  // each block, then positions, embedding, norm and head
  CHECK(sums == std::vector<std::int64_t>{789'760, 789'760, 64 * 256 + 256'000 + 512 + 257'000});
  CHECK(again == std::vector<bool>{true, true, false});
  CHECK(imported.sharded.are_of_fsdp2);
  CHECK(imported.sharded.warning.empty());
}

}  // namespace
}  // namespace kineto
