// Algorithm 1 of the Cupcake paper against all 2^(n-1) groupings: the costs for which each of its two
// prunings is exact, and minimal counterexamples.

#include "planner/choose/cupcake.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/random.hpp"

namespace planner {
namespace {

using sim::Time;
using support::Random;

using Cost = std::function<std::int64_t(std::int64_t size)>;

struct Tensor {
  std::int64_t ready = 0;
  std::int64_t size = 0;
};

/// An instance whose costs depend only on the group's size; backward ends with the last gradient.
CupcakeInstance instance_of(const std::vector<Tensor>& tensors, const Cost& encode, const Cost& communicate) {
  CupcakeInstance out;
  out.count = static_cast<std::uint32_t>(tensors.size());
  std::vector<std::int64_t> before = {0};
  for (const Tensor& tensor : tensors) {
    out.ready.emplace_back(tensor.ready);
    before.push_back(before.back() + tensor.size);
  }
  out.backward_end = out.ready.back();
  const auto of_group = [before](const Cost& cost) {
    return [before, cost](std::uint32_t begin, std::uint32_t end) {
      if (begin >= end) throw std::logic_error("a group of nothing");
      return Time(cost(before[end] - before[begin]));
    };
  };
  out.encode = of_group(encode);
  out.communicate = of_group(communicate);
  return out;
}

Cost affine(std::int64_t startup, std::int64_t slope) {
  return [=](std::int64_t size) { return startup + slope * size; };
}
const Cost free_of_cost = affine(0, 0);

/// When a grouping ends, by the paper's definitions.
Time end_of(const Groups& groups, const CupcakeInstance& instance) {
  Time encoding{};
  Time channel{};
  for (const Group& group : groups) {
    encoding += instance.encode(group.begin, group.end);
    channel = std::max(channel, instance.ready[group.end - 1] + encoding) +
              instance.communicate(group.begin, group.end);
  }
  return std::max(instance.backward_end + encoding, channel);
}

Groups groups_of(std::uint32_t cuts, std::uint32_t count) {
  Groups groups = {{.begin = 0, .end = 1}};
  for (std::uint32_t i = 1; i < count; ++i) {
    if ((cuts >> (i - 1) & 1U) != 0)
      groups.push_back({.begin = i, .end = i + 1});
    else
      groups.back().end = i + 1;
  }
  return groups;
}

Time best_of_all(const CupcakeInstance& instance) {
  Time best = Time::max();
  for (std::uint32_t cuts = 0; cuts < 1U << (instance.count - 1); ++cuts)
    best = std::min(best, end_of(groups_of(cuts, instance.count), instance));
  return best;
}

constexpr CupcakeOptions kNoPruning = {.prune_by_outcome = false, .prune_by_first_group = false};
constexpr CupcakeOptions kOutcome = {.prune_by_outcome = true, .prune_by_first_group = false};
constexpr CupcakeOptions kFirstGroup = {.prune_by_outcome = false, .prune_by_first_group = true};
constexpr CupcakeOptions kBoth = {};

/// The end found, after checking that it is that of the groups.
std::int64_t found(const CupcakeInstance& instance, const CupcakeOptions& options) {
  const CupcakeResult result = cupcake(instance, options);
  CHECK(result.finished);
  CHECK(result.end == end_of(result.groups, instance));
  CHECK(result.groups.front().begin == 0);
  CHECK(result.groups.back().end == instance.count);
  for (std::size_t i = 1; i < result.groups.size(); ++i)
    CHECK(result.groups[i].begin == result.groups[i - 1].end);
  return result.end.count();
}

std::int64_t found_without_halves(const CupcakeInstance& instance, CupcakeOptions options) {
  options.start_with_halves = false;
  return found(instance, options);
}

TEST_CASE("cupcake: encoding delays the backward pass that follows, and the channel waits for it") {
  // backward alone:  |--0--|--1--|--2--|-|      ready at 3, 6, 9; ends at 10
  // encode 1 a group, communicate 3 + size, sizes 2, 1, 1
  //
  // {0},{1,2}:  0  3 4      10 11 12
  //   compute   |0--|e|1--|2--|e|-|
  //   channel       |--0---|  |--1,2--|         4 to 9, 11 to 16
  // One group ends at 9 + 1 + 7 = 17, {0,1},{2} at 7 + 6 = 13 + 4 = 17, each alone at 4 + 5 = 9, 13, 17.
  CupcakeInstance instance = instance_of({{3, 2}, {6, 1}, {9, 1}}, affine(1, 0), affine(3, 1));
  instance.backward_end = Time(10);
  for (const CupcakeOptions& options : {kNoPruning, kOutcome, kFirstGroup, kBoth}) {
    const CupcakeResult result = cupcake(instance, options);
    CHECK(result.groups == Groups{{.begin = 0, .end = 1}, {.begin = 1, .end = 3}});
    CHECK(result.end == Time(16));
  }
}

TEST_CASE("cupcake: it does not end before backward and all encoding have") {
  CupcakeInstance instance = instance_of({{3, 2}, {6, 1}, {9, 1}}, affine(1, 0), affine(3, 1));
  instance.backward_end = Time(50);
  CHECK(found(instance, kBoth) == 51);  // one group, which the paper's printed code never evaluates
  CHECK(found_without_halves(instance, kBoth) == 51);
}

TEST_CASE("cupcake: one gradient is one group") {
  const CupcakeInstance instance = instance_of({{3, 2}}, affine(1, 0), affine(3, 1));
  CHECK(found(instance, kBoth) == 9);
  CHECK(found_without_halves(instance, kBoth) == 9);
}

struct Instances {
  std::string name;
  bool outcome_is_safe = false;      ///< whether pruning by outcome is exact
  bool first_group_is_safe = false;  ///< whether pruning by first group is exact
  Cost (*encode)(Random&);
  Cost (*communicate)(Random&);
};

Cost random_affine(Random& random) { return affine(random.below(20), random.below(4)); }
Cost with_floor(Random& random) {
  const std::int64_t floor = random.below(80);
  return [floor, above = random_affine(random)](std::int64_t size) { return std::max(floor, above(size)); };
}
Cost concave(Random& random) {
  return [a = random_affine(random), b = random_affine(random)](std::int64_t size) {
    return std::min(a(size), b(size));
  };
}
/// A cost with which merging never pays.
Cost square(Random& random) {
  return [factor = random.between(1, 4)](std::int64_t size) { return factor * size * size / 8; };
}
/// A cost with arbitrary values for every size.
Cost jagged(Random& random) {
  std::vector<std::int64_t> costs(12 * 12);
  for (std::int64_t& cost : costs) cost = random.below(60);
  return [costs](std::int64_t size) { return costs.at(static_cast<std::size_t>(size)); };
}

const std::vector<Instances> all_instances = {
    {"affine", true, true, random_affine, random_affine},
    {"encoding has a floor", true, false, with_floor, random_affine},
    {"the channel has a floor", true, false, random_affine, with_floor},
    {"both have a floor", true, false, with_floor, with_floor},
    {"concave", true, false, concave, concave},
    {"square", false, false, square, square},
    {"jagged", false, false, jagged, jagged},
};

CupcakeInstance random_instance(Random& random, const Instances& instances) {
  std::vector<Tensor> tensors(1 + random.below(11));
  std::int64_t ready = 0;
  for (Tensor& tensor : tensors) {
    ready += random.below(20);
    tensor = {.ready = ready, .size = random.between(1, 12)};
  }
  const Cost encode = instances.encode(random);
  CupcakeInstance instance = instance_of(tensors, encode, instances.communicate(random));
  instance.backward_end += Time(random.below(10));
  return instance;
}

TEST_CASE(
    "cupcake: each pruning loses nothing where the costs allow it, and to do without loses nothing ever") {
  for (const Instances& instances : all_instances) {
    CAPTURE(instances.name);
    for (std::uint32_t seed = 0; seed < 300; ++seed) {
      CAPTURE(seed);
      Random random(seed);
      const CupcakeInstance instance = random_instance(random, instances);
      const std::int64_t best = best_of_all(instance).count();
      for (const CupcakeOptions& options : {kNoPruning, kOutcome, kFirstGroup, kBoth}) {
        CAPTURE(options.prune_by_outcome);
        CAPTURE(options.prune_by_first_group);
        const bool is_safe = (!options.prune_by_outcome || instances.outcome_is_safe) &&
                             (!options.prune_by_first_group || instances.first_group_is_safe);
        for (const std::int64_t end : {found(instance, options), found_without_halves(instance, options)}) {
          CHECK(end >= best);
          if (is_safe) CHECK(end == best);
        }
      }
    }
  }
}

TEST_CASE("cupcake: without pruning it looks at every beginning there is, and each pruning leaves some out") {
  Random random(1);
  for (std::uint32_t count = 1; count <= 11; ++count) {
    CAPTURE(count);
    std::vector<Tensor> tensors(count);
    for (std::uint32_t i = 0; i < count; ++i) tensors[i] = {.ready = i, .size = random.between(1, 12)};
    const CupcakeInstance instance = instance_of(tensors, affine(1, 0), affine(9, 1));
    const std::uint64_t all = (std::uint64_t{1} << count) - 1;
    CHECK(cupcake(instance, kNoPruning).nodes == all);
    if (count < 3) continue;
    const std::uint64_t outcome = cupcake(instance, kOutcome).nodes;
    const std::uint64_t first_group = cupcake(instance, kFirstGroup).nodes;
    CHECK(outcome < all);
    CHECK(first_group < all);
    CHECK(cupcake(instance, kBoth).nodes <= std::min(outcome, first_group));
  }
}

TEST_CASE("cupcake: pruning by first group loses the best when the channel's cost has a floor") {
  // Sending takes the size, at least 4; encoding nothing. {0} is sent from 0 to 6, when 1 and 2 are ready.
  //   {0},{1},{2,3}: 6, 10, 14: a size of 4 costs no more than the 1 of gradient 3 alone
  //   {0},{1,2},{3}: 6, 13, 17
  const Cost floor = [](std::int64_t size) { return std::max<std::int64_t>(size, 4); };
  const CupcakeInstance instance = instance_of({{0, 6}, {6, 4}, {6, 3}, {10, 1}}, free_of_cost, floor);
  CHECK(found(instance, kOutcome) == 14);
  CHECK(found(instance, kFirstGroup) == 17);
  CHECK(found(instance, kBoth) == 17);
}

TEST_CASE("cupcake: pruning by first group loses the best when encoding has a floor, as the paper measures") {
  // Both cost twice the size, encoding at least 3. When {0} has been encoded, at 12, the channel takes it
  // until 24, which is just when {1,2} would be encoded.
  //   {0},{1},{2,3},{4}: encoded at 12, 18, 27, 36; sent at 24, 28, 34, 42
  //   {0},{1,2},{3},{4}: encoded at 12, 24, 28, 37; sent at 24, 32, 34, 43
  const Cost floor = [](std::int64_t size) { return std::max<std::int64_t>(2 * size, 3); };
  const CupcakeInstance instance = instance_of({{0, 6}, {2, 2}, {4, 2}, {5, 1}, {8, 3}}, floor, affine(0, 2));
  CHECK(found(instance, kOutcome) == 42);
  CHECK(found(instance, kFirstGroup) == 43);
  CHECK(found(instance, kBoth) == 43);
}

TEST_CASE("cupcake: pruning by first group loses the best when large groups are cheap") {
  // Sending takes 4 a unit up to 2, then 6 + size; {0} until 12, when 1 and 2 are ready.
  //   {0},{1},{2,3}: 12, 16, 27
  //   {0},{1,2,3}: 16 + 12 = 28; {0},{1,2},{3}: 12, 20, 30
  const Cost bent = [](std::int64_t size) { return std::min(4 * size, 6 + size); };
  const CupcakeInstance instance = instance_of({{0, 6}, {6, 1}, {6, 1}, {16, 4}}, free_of_cost, bent);
  CHECK(found(instance, kOutcome) == 27);
  CHECK(found(instance, kFirstGroup) == 28);
  CHECK(found(instance, kBoth) == 28);
}

TEST_CASE("cupcake: pruning by outcome loses the best when one group costs more than its parts") {
  // Sending takes the square of the size, and all gradients are ready at once: eight single groups end at 8.
  // Two halves end at 32, and {0},{1} with the other six in one group at 1 + 1 + 36, so no further branch is
  // pruned there.
  const Cost square = [](std::int64_t size) { return size * size; };
  const CupcakeInstance instance = instance_of(std::vector<Tensor>(8, {0, 1}), free_of_cost, square);
  CHECK(found(instance, kNoPruning) == 8);
  CHECK(found(instance, kOutcome) > 8);
}

TEST_CASE("cupcake: what is past a limit says that it is not finished") {
  const CupcakeInstance instance = instance_of(std::vector<Tensor>(20, {0, 1}), affine(1, 0), affine(1, 1));
  CupcakeOptions options = kNoPruning;
  options.max_nodes = 1000;
  CupcakeResult result = cupcake(instance, options);
  CHECK_FALSE(result.finished);
  CHECK(result.nodes == 1000);
  CHECK(result.end == end_of(result.groups, instance));

  options.max_nodes = (1U << 20U) - 1;  // exactly enough
  CHECK(cupcake(instance, options).finished);
  --options.max_nodes;
  CHECK_FALSE(cupcake(instance, options).finished);

  result = cupcake(instance, {.time_limit_s = 0});
  CHECK_FALSE(result.finished);
  CHECK(result.groups == Groups{{.begin = 0, .end = 10}, {.begin = 10, .end = 20}});
  result = cupcake(instance, {.start_with_halves = false, .time_limit_s = 0});
  CHECK_FALSE(result.finished);
  CHECK(result.groups.empty());
}

TEST_CASE("cupcake: the halves are the first in backward order and one smaller the second") {
  const CupcakeInstance instance = instance_of(std::vector<Tensor>(5, {0, 1}), affine(1, 0), affine(1, 1));
  CHECK(cupcake(instance, {.time_limit_s = 0}).groups ==
        Groups{{.begin = 0, .end = 3}, {.begin = 3, .end = 5}});
}

TEST_CASE("cupcake: more gradients than a table of costs is made for") {
  // Only encoding takes time, 5 per group: the search visits every grouping in two, as none is worse than the
  // halves, and finally the single group.
  constexpr std::uint32_t kCount = 2100;
  const CupcakeInstance instance =
      instance_of(std::vector<Tensor>(kCount, {0, 1}), affine(5, 0), free_of_cost);
  const CupcakeResult result = cupcake(instance, kBoth);
  CHECK(result.end == Time(5));
  CHECK(result.groups == Groups{{.begin = 0, .end = kCount}});
  CHECK(result.nodes == 2 * kCount - 1);
}

}  // namespace
}  // namespace planner
