// Constraints of the exact planner: the best of all groupings that satisfy them, and error messages if none
// does.

#include "planner/choose/constraints.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "planner/scenarios/run.hpp"
#include "planner/scenarios/scenario.hpp"
#include "tests/support/brute_force.hpp"

namespace planner {
namespace {

using support::fused;
using support::gradients_of;
using support::NetworkKind;
using support::Offer;
using support::pipeline_cases;
using support::PipelineCase;
using support::Random;
using support::Scene;

/// Constraints as a user writes them; gradients are indexes in backward order.
struct PlainConstraints {
  std::optional<std::int64_t> min_group_bytes;
  std::optional<std::int64_t> max_group_bytes;
  std::optional<std::int64_t> fusion_buffer_bytes;
  std::optional<std::int64_t> groups;
  std::vector<std::vector<std::uint32_t>> together;
  std::vector<std::vector<std::uint32_t>> apart;
};

/// Names and sizes in backward order.
struct PlainTensors {
  std::vector<std::string> names;
  std::vector<std::int64_t> bytes;

  explicit PlainTensors(const core::Profile& profile) {
    for (auto layer = profile.layers.rbegin(); layer != profile.layers.rend(); ++layer)
      for (auto tensor = layer->tensors.rbegin(); tensor != layer->tensors.rend(); ++tensor) {
        names.push_back(tensor->name);
        bytes.push_back(4 * tensor->elements);
      }
  }
};

/// Checks the definitions of the help text: every list of `together` is in one group, no two tensors of a
/// list of `apart` are.
bool keeps_to(const PlainConstraints& wanted, const PlainTensors& tensors, const Groups& groups) {
  if (wanted.groups && *wanted.groups != static_cast<std::int64_t>(groups.size())) return false;
  const auto group_of = [&](std::uint32_t gradient) {
    return std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return gradient < g.end; });
  };
  for (const Group& group : groups) {
    std::int64_t bytes = 0;
    for (std::uint32_t i = group.begin; i < group.end; ++i) bytes += tensors.bytes[i];
    if (wanted.min_group_bytes && bytes < *wanted.min_group_bytes) return false;
    if (wanted.max_group_bytes && bytes > *wanted.max_group_bytes) return false;
    const bool is_copied = group.end - group.begin > 1;
    if (is_copied && wanted.fusion_buffer_bytes && bytes > *wanted.fusion_buffer_bytes) return false;
  }
  for (const auto& list : wanted.together)
    for (const std::uint32_t gradient : list)
      if (group_of(gradient) != group_of(list.front())) return false;
  for (const auto& list : wanted.apart)
    for (std::size_t i = 0; i < list.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (group_of(list[i]) == group_of(list[j])) return false;
  return true;
}

/// A random list of at least two distinct gradients in any order.
std::vector<std::uint32_t> random_list(Random& random, std::uint32_t gradients) {
  std::vector<std::uint32_t> out;
  const std::uint32_t size = 2 + (random.one_in(3) && gradients > 2 ? 1 : 0);
  while (out.size() < size) {
    const std::uint32_t gradient = random.below(gradients);
    if (std::find(out.begin(), out.end(), gradient) == out.end()) out.push_back(gradient);
  }
  return out;
}

PlainConstraints random_constraints(Random& random, std::uint32_t gradients) {
  PlainConstraints out;
  if (random.one_in(3)) out.min_group_bytes = random.between(0, 80);
  if (random.one_in(3)) out.max_group_bytes = random.between(1, 250);
  if (random.one_in(3)) out.fusion_buffer_bytes = random.between(0, 150);
  if (random.one_in(3)) out.groups = random.between(1, 11);
  if (gradients < 2) return out;
  if (random.one_in(3)) out.together.push_back(random_list(random, gradients));
  if (random.one_in(6)) out.together.push_back(random_list(random, gradients));
  if (random.one_in(3)) out.apart.push_back(random_list(random, gradients));
  if (random.one_in(6)) out.apart.push_back(random_list(random, gradients));
  return out;
}

std::string json_of(const PlainConstraints& wanted, const PlainTensors& tensors) {
  std::vector<std::string> items;
  const auto add_number = [&](const char* key, const std::optional<std::int64_t>& number) {
    if (number) items.push_back(fmt::format(R"("{}": {})", key, *number));
  };
  add_number("min_group_bytes", wanted.min_group_bytes);
  add_number("max_group_bytes", wanted.max_group_bytes);
  add_number("fusion_buffer_bytes", wanted.fusion_buffer_bytes);
  add_number("groups", wanted.groups);
  const auto add_lists = [&](const char* key, const std::vector<std::vector<std::uint32_t>>& lists) {
    std::vector<std::string> texts;
    for (const auto& list : lists) {
      std::vector<std::string> names;
      for (const std::uint32_t gradient : list) names.push_back('"' + tensors.names[gradient] + '"');
      texts.push_back(fmt::format("[{}]", fmt::join(names, ", ")));
    }
    if (!texts.empty()) items.push_back(fmt::format(R"("{}": [{}])", key, fmt::join(texts, ", ")));
  };
  add_lists("together", wanted.together);
  add_lists("apart", wanted.apart);
  return fmt::format("{{{}}}", fmt::join(items, ", "));
}

bool is_refused(const std::string& constraints, const Workload& workload) {
  try {
    (void)read_constraints(core::Field::parse(constraints, "c.json"))(workload);
    return false;
  } catch (const core::InputError&) {
    return true;
  }
}

struct Tally {
  std::uint32_t planned = 0;
  std::uint32_t refused = 0;
};

/// Checks that the plan is the best one that satisfies the constraints, or is rejected if none does.
void check_constrained(Random& random, const Scene& scene, Tally& tally,
                       const std::function<Offer(const PipelineCase&)>& offer) {
  const PlainTensors tensors(scene.profile);
  const auto count = static_cast<std::uint32_t>(tensors.names.size());
  const PlainConstraints wanted = random_constraints(random, count);
  const auto is_allowed = [&](const Groups& groups) { return keeps_to(wanted, tensors, groups); };
  bool is_possible = false;
  support::for_each_grouping(count, 1, is_allowed, [&](const Groups&) { is_possible = true; });
  const std::string constraints = json_of(wanted, tensors);
  CAPTURE(constraints);
  CHECK(is_refused(constraints, scene.setting.workload) == !is_possible);
  ++(is_possible ? tally.planned : tally.refused);
  if (!is_possible) return;
  for (const PipelineCase& pipeline : pipeline_cases()) {
    Offer constrained = offer(pipeline);
    constrained.constraints = constraints;
    support::check_optimal(scene, pipeline, constrained, is_allowed);
  }
}

TEST_CASE("constraints: the best of all groupings that keep to them, and refused where none does") {
  Tally tally;
  for (std::uint32_t seed = 0; seed < support::seeds(3000); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto scene = small_scene(random, 10, NetworkKind{seed % support::kNetworkKinds});
    check_constrained(random, *scene, tally, [&](const PipelineCase& pipeline) {
      Offer out;
      if (random.one_in(2)) out.compressor = support::random_compressor(random, "x", pipeline.halves);
      return out;
    });
  }
  CHECK(tally.planned > support::seeds(1000));
  CHECK(tally.refused > support::seeds(1000));
}

TEST_CASE("constraints: the best of all that keep to them where ways can be chosen") {
  Tally tally;
  for (std::uint32_t seed = 50000; seed < 50000 + support::seeds(400); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto scene = small_scene(random, 7, NetworkKind{seed % support::kNetworkKinds});
    check_constrained(random, *scene, tally, [&](const PipelineCase& pipeline) {
      Offer out = {.compressor = support::random_compressor(random, "x", pipeline.halves),
                   .selective = random.one_in(3)};
      if (random.one_in(2)) out.algorithms = {"recursive_doubling"};
      out.compressors = {Compressor{}};
      return out;
    });
  }
  CHECK(tally.planned > support::seeds(100));
}

// ---- by hand: gradients 4, 8, 12 and 4 bytes, l4.a first; startup 10 and 1 us per byte, all ready at 1

Scene four_tensors() {
  return Scene(gradients_of({{1, 4}, {0, 8}, {0, 12}, {0, 4}}), support::pair_of(10, 1));
}

std::string constrained(const std::string& constraints) {
  const Scene scene = four_tensors();
  return fused(fmt::format(R"({{"kind": "optimal", "constraints": {}}})", constraints), scene);
}

TEST_CASE("constraints: each does what its name says") {
  CHECK(constrained("{}") == "4");
  CHECK(constrained(R"({"max_group_bytes": 27})") == "1 3");
  CHECK(constrained(R"({"max_group_bytes": 16})") == "2 2");
  CHECK(constrained(R"({"max_group_bytes": 12})") == "2 1 1");
  CHECK(constrained(R"({"min_group_bytes": 12, "groups": 2})") == "2 2");
  CHECK(constrained(R"({"groups": 4})") == "1 1 1 1");
  CHECK(constrained(R"({"fusion_buffer_bytes": 0})") == "1 1 1 1");
  CHECK(constrained(R"({"fusion_buffer_bytes": 11})") == "1 1 1 1");
  CHECK(constrained(R"({"fusion_buffer_bytes": 16})") == "2 2");
  CHECK(constrained(R"({"groups": 2, "together": [["l4.a", "l2.a"]]})") == "3 1");
  CHECK(constrained(R"({"groups": 3, "together": [["l1.a", "l2.a"]]})") == "1 1 2");
  CHECK(constrained(R"({"groups": 3, "together": [["l4.a", "l3.a"]]})") == "2 1 1");
  CHECK(constrained(R"({"apart": [["l1.a", "l2.a"]]})") == "3 1");
  CHECK(constrained(R"({"apart": [["l1.a", "l4.a", "l2.a"]]})") == "1 2 1");
  CHECK(constrained(R"({"apart": [["l1.a", "l4.a"], ["l2.a", "l3.a"]]})") == "2 2");
}

/// The error message about the constraints of the second schedule of a scenario.
std::string told(const std::string& constraints) {
  const std::string text = fmt::format(R"({{
    "format": "fusewise.scenario", "version": 1, "workers": 2,
    "profile": {{"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 1, "dtype": "float32",
      "device": "d", "origin": {{"kind": "estimated", "source": ""}}, "layers": [
        {{"name": "conv", "kind": "k", "forward_us": 1, "backward_us": 1,
          "tensors": [{{"name": "conv.weight", "elements": 100}}, {{"name": "conv.bias", "elements": 1}}]}},
        {{"name": "fc", "kind": "k", "forward_us": 1, "backward_us": 1,
          "tensors": [{{"name": "fc.weight", "elements": 50}}, {{"name": "fc.bias", "elements": 2}}]}}]}},
    "network": {{"format": "fusewise.network", "version": 1, "name": "n",
      "origin": {{"kind": "estimated", "source": ""}}, "link": {{"alpha_us": 1, "beta_us_per_byte": 1}}}},
    "schedules": ["wfbp", {{"fusion": {{"kind": "optimal", "constraints": {}}}}}]}})",
                                       constraints);
  try {
    (void)scenarios::run(scenarios::read_scenario(core::Field::parse(text, "s.json")));
    return "";
  } catch (const core::InputError& error) {
    return error.what();
  }
}

struct Refusal {
  const char* constraints;
  const char* message;  ///< the part after the constraints' pointer
};

void check_told(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    CAPTURE(refusal.constraints);
    CHECK(told(refusal.constraints) ==
          fmt::format("s.json: /schedules/1/fusion/constraints{}", refusal.message));
  }
}

TEST_CASE("constraints: what is misspelt or not of their form is refused") {
  check_told({
      {R"([])", R"(: expected an object, got an array of 0 items)"},
      {R"({"max_groups_bytes": 4})",
       R"(/max_groups_bytes: expected a key among min_group_bytes, max_group_bytes, fusion_buffer_bytes, groups, together, apart, got 'max_groups_bytes', did you mean 'max_group_bytes'?)"},
      {R"({"min_group_bytes": -1})",
       R"(/min_group_bytes: expected an integer from 0 to 8000000000000000, got -1)"},
      {R"({"max_group_bytes": 0})",
       R"(/max_group_bytes: expected an integer from 1 to 8000000000000000, got 0)"},
      {R"({"groups": 0})", R"(/groups: expected an integer from 1 to 1000000000000, got 0)"},
      {R"({"groups": 1.5})", R"(/groups: expected an integer from 1 to 1000000000000, got 1.5)"},
      {R"({"together": ["fc.bias"]})", R"(/together/0: expected an array, got "fc.bias")"},
      {R"({"together": [["fc.bias"]]})",
       R"(/together/0: expected at least two tensors, got an array of 1 item)"},
      {R"({"apart": [["fc.bias", "fc.weight"], []]})",
       R"(/apart/1: expected at least two tensors, got an array of 0 items)"},
      {R"({"apart": [["fc.bias", 3]]})", R"(/apart/0/1: expected a non-empty string, got 3)"},
  });
}

TEST_CASE("constraints: tensors that the profile has not, or twice in a list, are refused") {
  check_told({
      {R"({"together": [["fc.bias", "fc.wieght"]]})",
       R"(/together/0/1: expected a tensor of the profile, got "fc.wieght", did you mean 'fc.weight'?)"},
      {R"({"apart": [["fc.bias", "conv.bias"], ["embedding", "fc.weight"]]})",
       R"(/apart/1/0: expected a tensor of the profile, got "embedding")"},
      {R"({"together": [["fc.bias", "fc.weight", "fc.bias"]]})",
       R"(/together/0/2: expected a tensor that is listed once, got "fc.bias")"},
      {R"({"apart": [["fc.bias", "fc.bias"]]})",
       R"(/apart/0/1: expected a tensor that is listed once, got "fc.bias")"},
  });
}

TEST_CASE("constraints: sizes that no grouping can have are refused, with the size that could") {
  check_told({
      {R"({"max_group_bytes": 399})",
       R"(/max_group_bytes: expected at least 400, the bytes of tensor 'conv.weight', which cannot be cut, got 399)"},
      {R"({"min_group_bytes": 613})",
       R"(/min_group_bytes: expected at most 612, the bytes of all gradients, got 613)"},
      {R"({"min_group_bytes": 500, "max_group_bytes": 450})",
       R"(/min_group_bytes: expected at most max_group_bytes, 450, got 500)"},
      {R"({"groups": 5})", R"(/groups: expected at most 4, the number of tensors, got 5)"},
  });
  CHECK(told(R"({"max_group_bytes": 400})").empty());
  CHECK(told(R"({"min_group_bytes": 612, "max_group_bytes": 612})").empty());
  CHECK(told(R"({"groups": 4})").empty());
  CHECK(told(R"({"fusion_buffer_bytes": 0})").empty());
}

TEST_CASE(
    "constraints: a number of groups that the others rule out is refused, with the numbers they allow") {
  // in backward order 8, 200, 4 and 400 bytes
  check_told({
      {R"({"groups": 4, "together": [["fc.bias", "fc.weight"]]})",
       R"(/groups: expected a number of groups that the other constraints allow (1 to 3), got 4)"},
      {R"({"groups": 1, "max_group_bytes": 500})",
       R"(/groups: expected a number of groups that the other constraints allow (2 to 4), got 1)"},
      {R"({"groups": 3, "apart": [["fc.bias", "conv.bias"]], "together": [["fc.weight", "conv.bias", "conv.weight"]]})",
       R"(/groups: expected a number of groups that the other constraints allow (2), got 3)"},
      // 208 404, 212 400: one or two groups
      {R"({"groups": 4, "min_group_bytes": 200})",
       R"(/groups: expected a number of groups that the other constraints allow (1 to 2), got 4)"},
  });
  CHECK(told(R"({"groups": 2, "min_group_bytes": 200})").empty());
}

TEST_CASE("constraints: what is to be together cannot be apart") {
  check_told({
      {R"({"together": [["fc.bias", "fc.weight"]], "apart": [["fc.weight", "fc.bias"]]})",
       R"(/apart/0: expected tensors that `together` does not keep in one group, got 'fc.bias' and 'fc.weight')"},
      // fc.weight and conv.bias are between them
      {R"({"together": [["fc.bias", "conv.weight"]], "apart": [["fc.weight", "conv.bias"]]})",
       R"(/apart/0: expected tensors that `together` does not keep in one group, got 'fc.weight' and 'conv.bias')"},
      // two lists that share a tensor form one group
      {R"({"together": [["fc.bias", "fc.weight"], ["fc.weight", "conv.bias"]], "apart": [["conv.weight", "fc.bias", "conv.bias"]]})",
       R"(/apart/0: expected tensors that `together` does not keep in one group, got 'fc.bias' and 'conv.bias')"},
  });
}

TEST_CASE("constraints: what contradicts itself otherwise is refused as a whole") {
  check_told({
      {R"({"together": [["fc.weight", "conv.weight"]], "max_group_bytes": 500})",
       R"(: expected constraints that some grouping of neighbours in backward order keeps to, got constraints that contradict one another)"},
      {R"({"min_group_bytes": 300, "max_group_bytes": 600})",
       R"(: expected constraints that some grouping of neighbours in backward order keeps to, got constraints that contradict one another)"},
      {R"({"min_group_bytes": 300, "max_group_bytes": 600, "groups": 2})",
       R"(: expected constraints that some grouping of neighbours in backward order keeps to, got constraints that contradict one another)"},
      {R"({"together": [["fc.bias", "fc.weight"]], "fusion_buffer_bytes": 100})",
       R"(: expected constraints that some grouping of neighbours in backward order keeps to, got constraints that contradict one another)"},
  });
}

}  // namespace
}  // namespace planner
