// Frameworks that form groups of whole modules: what they make of the emitted calls.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "planner/job/names.hpp"
#include "tests/support/planned.hpp"

namespace planner {
namespace {

using nlohmann::ordered_json;
using support::five_tensors;
using support::named;
using support::of_counts;
using support::Planned;
using support::Random;
using support::Scene;

/// A random model: modules up to three deep; upper modules may own tensors, too.
core::Profile random_model(Random& random) {
  std::vector<std::pair<std::string, std::int64_t>> tensors;
  for (std::uint32_t i = 1 + random.below(12); i > 0; --i) {
    std::string name;
    for (std::uint32_t depth = random.below(4); depth > 0; --depth)
      name += static_cast<char>('a' + random.below(3)) + std::string(".");
    tensors.push_back({fmt::format("{}p{}", name, i), random.between(1, 5000)});
  }
  if (random.one_in(2)) std::sort(tensors.begin(), tensors.end());
  return named(tensors);
}

/// A random module around the tensor of each layer is called when it is used.
core::Profile used_around(Random& random, core::Profile profile) {
  for (core::ProfileLayer& layer : profile.layers) {
    layer.module = enclosing(layer.tensors[0].name);
    while (!layer.module->empty() && random.one_in(4)) layer.module = enclosing(*layer.module);
  }
  return profile;
}

/// The rule of fully_shard(): a call takes the tensors below its modules that no earlier call took. Returns
/// the groups by name, including the model's remaining tensors.
std::set<std::set<std::string>> sharded(const core::Profile& profile, const ordered_json& calls) {
  std::set<std::string> left;
  for (const core::ProfileLayer& layer : profile.layers) left.insert(layer.tensors[0].name);
  std::set<std::set<std::string>> out;
  ordered_json all = calls;
  all.push_back({""});
  for (const ordered_json& call : all) {
    std::set<std::string> group;
    for (const std::string module : call)
      for (const std::string& name : left)
        if (module.empty() || name.starts_with(module + ".")) group.insert(name);
    for (const std::string& name : group) left.erase(name);
    if (!group.empty()) out.insert(group);
  }
  return out;
}

TEST_CASE("emit: the tensors of PyTorch's attention stay together, as it never calls its out_proj") {
  core::Profile profile = support::profile_of({{1, 1, {10, 20}}, {1, 1, {30}}});
  profile.layers[0].name = "a.attn";
  profile.layers[0].kind = "multiheadattention";
  profile.layers[0].tensors[0].name = "a.attn.in_proj_weight";
  profile.layers[0].tensors[1].name = "a.attn.out_proj.weight";
  profile.layers[1].name = "b";
  profile.layers[1].tensors[0].name = "b.weight";
  const Scene scene(profile, support::pair_of(20, 0.001));
  // backward order: b.weight, out_proj.weight, in_proj_weight
  const Planned planned(scene, {{.begin = 0, .end = 2}, {.begin = 2, .end = 3}});
  const ordered_json json = planned.emit("fsdp").json;
  CHECK(json["makes"]["groups"] == 1);
  CHECK(json.dump().find("out_proj") == std::string::npos);
}

TEST_CASE("emit: FSDP makes of the calls what is said, cuts no module, and keeps plans that cut none") {
  int reproduced = 0;
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(random_model(random), support::pair_of(20, 0.001));
    const Workload& workload = scene.setting.workload;
    const Planned planned(scene, support::random_groups(random, workload.gradient_count()));
    const ordered_json json = planned.emit("fsdp").json;
    CAPTURE(json.dump());
    const auto name = [&](std::uint32_t i) {
      return scene.profile.layers[workload.gradients[i].layer].tensors[0].name;
    };
    const auto module = [&](std::uint32_t i) { return name(i).substr(0, name(i).rfind('.') + 1); };

    const std::set<std::set<std::string>> made = sharded(scene.profile, json["fully_shard"]);
    CHECK(made.size() == json["makes"]["groups"]);
    std::set<std::set<std::string>> wanted;
    bool is_cut = false;
    for (const Group& group : planned.groups) {
      std::set<std::string> names;
      for (std::uint32_t i = group.begin; i < group.end; ++i) {
        names.insert(name(i));
        for (std::uint32_t j = 0; j < workload.gradient_count(); ++j)
          is_cut = is_cut || (module(i) == module(j) && (j < group.begin || j >= group.end));
      }
      wanted.insert(names);
    }
    CHECK((made == wanted) == json["groups_reproduced"].get<bool>());
    CHECK(json["differs"].empty() == json["groups_reproduced"].get<bool>());
    if (is_cut) CHECK_FALSE(json["groups_reproduced"]);
    if (json["groups_reproduced"]) ++reproduced;
    for (const std::set<std::string>& group : made) {  // adjacent in backward order
      std::uint32_t runs = 0;
      for (std::uint32_t i = 0; i < workload.gradient_count(); ++i)
        runs += group.contains(name(i)) && (i == 0 || !group.contains(name(i - 1))) ? 1U : 0U;
      CHECK(runs == 1);
    }
  }
  CHECK(reproduced > 50);
}

TEST_CASE("emit: FSDP's calls gather each tensor with a module that is called when it is used") {
  int used_outside = 0;
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(used_around(random, random_model(random)), support::pair_of(20, 0.001));
    const Workload& workload = scene.setting.workload;
    const Planned planned(scene, support::random_groups(random, workload.gradient_count()));
    const ordered_json json = planned.emit("fsdp").json;
    CAPTURE(json.dump());
    ordered_json calls = json["fully_shard"];
    calls.push_back({""});
    std::set<std::string> called = {""};
    for (const core::ProfileLayer& layer : scene.profile.layers) called.insert(*layer.module);
    for (const ordered_json& call : calls)
      for (const std::string module : call) CHECK(called.contains(module));
    CHECK(sharded(scene.profile, json["fully_shard"]).size() == json["makes"]["groups"]);
    for (const core::ProfileLayer& layer : scene.profile.layers) {
      const std::string& tensor = layer.tensors[0].name;
      used_outside += *layer.module == enclosing(tensor) ? 0 : 1;
      const auto taking = std::find_if(calls.begin(), calls.end(), [&](const ordered_json& call) {
        return std::any_of(call.begin(), call.end(), [&](const ordered_json& module) {
          return core::is_below(tensor, module.get<std::string>());
        });
      });
      CHECK(std::any_of(taking->begin(), taking->end(), [&](const ordered_json& module) {
        return core::is_below(*layer.module, module.get<std::string>());
      }));
    }
  }
  CHECK(used_outside > 100);
}

TEST_CASE("emit: FSDP names the modules that the profile names, and no others") {
  const auto calls = [](const std::vector<std::pair<std::string, std::string>>& tensors,
                        const Groups& groups) {
    std::vector<std::pair<std::string, std::int64_t>> sizes;
    for (const auto& [name, module] : tensors) sizes.emplace_back(name, 100);
    core::Profile profile = named(sizes);
    for (std::size_t i = 0; i < tensors.size(); ++i) profile.layers[i].module = tensors[i].second;
    const Scene scene(profile, support::pair_of(20, 0.001));
    return Planned(scene, groups).emit("fsdp").json["fully_shard"].dump();
  };
  // `b` computes with the weight of its `q`, and so waits for the calls below it.
  CHECK(calls({{"a.w", "a"}, {"b.q.w", "b"}, {"b.mlp.w", "b.mlp"}}, of_counts({1, 1, 1})) ==
        R"([["b.mlp"],["b"],["a"]])");
  // `b.q` cannot have a group of its own beside a weight that `b` uses, which it would take along.
  CHECK(calls({{"a.w", "a"}, {"b.q.w", "b"}, {"b.q.b", "b.q"}, {"b.mlp.w", "b.mlp"}},
              of_counts({1, 1, 1, 1})) == R"([["b.mlp"],["b"],["a"]])");
  // A module in several layers, one of which has the name of its tensor.
  CHECK(calls({{"a.w", "a"}, {"b.g2", "b"}, {"b.x.w", "b.x"}, {"b.g1", "b"}}, of_counts({1, 1, 1, 1})) ==
        R"([["b"],["a"]])");
  // Nobody calls the list that has `b.0` and `b.1`.
  CHECK(calls({{"a.w", "a"}, {"b.0.w", "b.0"}, {"b.1.w", "b.1"}}, of_counts({2, 1})) ==
        R"([["b.0","b.1"],["a"]])");
  // A list of parameters of the model itself.
  CHECK(calls({{"list.0", ""}, {"list.1", ""}, {"a.w", "a"}}, of_counts({1, 2})) == R"([["a"],[""]])");
}

TEST_CASE("emit: FSDP says which modules with others inside them are gathered when they are called") {
  const Scene scene(named({{"a.w", 100}, {"b.w", 100}, {"b.x.w", 100}, {"c.w", 100}, {"c.x.w", 100}}),
                    support::pair_of(20, 0.001));
  const auto note_of = [&](const Groups& groups) {
    std::string out;
    const ordered_json json = Planned(scene, groups).emit("fsdp").json;
    for (const std::string note : json["notes"])
      if (note.starts_with("FSDP gathers the group of")) out += note.substr(0, note.find(" when"));
    return out;
  };
  CHECK(note_of(of_counts({1, 1, 1, 2})) == "FSDP gathers the group of c (likewise 1 more)");
  CHECK(note_of(of_counts({2, 1, 2})) == "FSDP gathers the group of b");
  CHECK(note_of(of_counts({2, 2, 1})).empty());
}

TEST_CASE("emit: FSDP says which parameters it refuses") {
  core::Profile profile = named({{"a.w", 100}, {"a.scale", 1}});
  const auto says = [&] {
    const Scene scene(profile, support::pair_of(20, 0.001));
    return Planned(scene, of_counts({2}))
        .emit("fsdp")
        .text.find("FSDP refuses parameters without a dimension: give a.scale one");
  };
  CHECK(says() == std::string::npos);
  profile.layers[1].tensors[0].is_scalar = true;
  CHECK(says() != std::string::npos);
}

TEST_CASE("emit: no bucket of TorchInductor holds a module of another, and every module is in one") {
  int joined = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(random_model(random), support::pair_of(20, 0.001));
    const Planned planned(scene, support::random_groups(random, scene.setting.workload.gradient_count()));
    const ordered_json json = planned.emit("inductor").json;
    CAPTURE(json.dump());
    const ordered_json& plans = json["module_bucket_plans"];
    std::size_t alone = 0;  // the model's own
    for (const core::ProfileLayer& layer : scene.profile.layers)
      alone += layer.tensors[0].name.find('.') == std::string::npos ? 1U : 0U;
    CHECK(plans.size() + alone <=
          json["makes"]["groups"].get<std::size_t>());  // one of these may cut a bucket
    if (alone == 0) CHECK(plans.size() == json["makes"]["groups"]);
    if (alone == 0 && json["makes"]["groups"] < planned.emit("fsdp").json["makes"]["groups"]) ++joined;
    for (const core::ProfileLayer& layer : scene.profile.layers) {
      const std::string& tensor = layer.tensors[0].name;
      std::set<std::size_t> buckets;
      for (std::size_t i = 0; i < plans.size(); ++i)
        for (const std::string module : plans[i])
          if (tensor.starts_with(module + ".")) buckets.insert(i);
      CHECK(buckets.size() == (tensor.find('.') == std::string::npos ? 0 : 1));
    }
  }
  CHECK(joined > 10);
}

TEST_CASE("emit: no bucket of TorchInductor reaches over a parameter of the model itself") {
  const Scene scene(
      named({{"start", 100}, {"a.w", 100}, {"middle", 100}, {"b.w", 100}, {"c.w", 100}, {"end", 100}}),
      support::pair_of(20, 0.001));
  const ordered_json json = Planned(scene, of_counts({6})).emit("inductor").json;
  CHECK(json["module_bucket_plans"].dump() == R"([["a"],["b","c"]])");
  CHECK(json["makes"]["groups"] == 5);
  CHECK(json["differs"][0]["why"] == "holds a parameter of the model itself");
}

TEST_CASE("emit: FSDP's calls put what is below before what is above, and join what would not come apart") {
  // The plan groups a's own tensor with b.x, and b's own with a.x: whichever is wrapped first takes both.
  const Scene scene(
      named({{"r", 9}, {"a.w", 100}, {"b.x.w", 100}, {"a.x.w", 100}, {"b.w", 100}, {"c.w", 100}}),
      support::pair_of(20, 0.001));
  const ordered_json joined = Planned(scene, of_counts({1, 2, 2, 1})).emit("fsdp").json;
  CHECK(joined["fully_shard"].dump() == R"([["c"],["a","b"],[""]])");
  CHECK(joined["makes"]["groups"] == 3);
  CHECK(joined["differs"].size() == 2);

  const Scene parent(named({{"w", 100}, {"a.w", 100}, {"a.x.w", 100}, {"a.x.b", 100}}),
                     support::pair_of(20, 0.001));
  const Planned planned(parent, of_counts({2, 1, 1}));
  CHECK(planned.emit("fsdp").json["fully_shard"].dump() == R"([["a.x"],["a"],[""]])");
  CHECK(planned.emit("fsdp").json["groups_reproduced"] == true);
  CHECK(Planned(parent, of_counts({4})).emit("fsdp").json["fully_shard"].dump() == R"([[""]])");
}

TEST_CASE("emit: FSDP moves a boundary inside a module to where the iteration takes less") {
  // Backward yields z, m.c, m.b, m.a at 100 to 400 us and y, small, at 500. The boundary after m.c is nearer
  // to the side before it. If a startup takes 100 us, m and y together end at 724 us, z and m at 660 and y
  // at 764; if it takes 1 us, at 625, and at 561 and 566.
  const core::Profile profile =
      named({{"y.w", 100}, {"m.a", 1000}, {"m.b", 1000}, {"m.c", 1000}, {"z.w", 1000}});
  const Scene slow(profile, support::pair_of(100, 0.01));
  CHECK(Planned(slow, of_counts({2, 3})).emit("fsdp").json["fully_shard"].dump() == R"([["z"],["y","m"]])");
  const Scene fast(profile, support::pair_of(1, 0.01));
  CHECK(Planned(fast, of_counts({2, 3})).emit("fsdp").json["fully_shard"].dump() == R"([["m","z"],["y"]])");
}

TEST_CASE("emit: FSDP names the largest modules that a group has whole, and no part of them") {
  const Scene whole(named({{"f.0.w", 100}, {"f.1.w", 100}, {"g.w", 100}}), support::pair_of(20, 0.001));
  CHECK(Planned(whole, of_counts({1, 2})).emit("fsdp").json["fully_shard"].dump() == R"([["g"],["f"]])");
  CHECK(Planned(whole, of_counts({2, 1})).emit("fsdp").json["fully_shard"].dump() ==
        R"([["f.1","g"],["f.0"]])");
  const Scene rest(named({{"a.y.w", 100}, {"a.w", 100}, {"a.x.w", 100}}), support::pair_of(20, 0.001));
  CHECK(Planned(rest, of_counts({2, 1})).emit("fsdp").json["fully_shard"].dump() == R"([["a.y"],["a"]])");
}

TEST_CASE("emit: groups of the plan that are made do not differ, though others before them do") {
  const ordered_json json = Planned(five_tensors(), of_counts({1, 1, 1, 2})).emit("fsdp").json;
  CHECK(json["makes"]["groups"] == 3);
  CHECK(json["differs"].dump() == R"([{"group":1,"why":"cuts through module \"classifier\""},)"
                                  R"({"group":2,"why":"cuts through module \"classifier\""}])");
}

TEST_CASE("emit: FSDP takes a profile's whole layers for modules") {
  core::Profile profile = named({{"layer01", 100}, {"layer02", 100}});
  profile.layers[0].name = "layer01";
  profile.layers[1].name = "layer02";
  const Scene scene(profile, support::pair_of(20, 0.001));
  CHECK(Planned(scene, of_counts({1, 1})).emit("fsdp").json["fully_shard"].dump() ==
        R"([["layer02"],["layer01"]])");
}

/// A language model whose head has the weight of its word embeddings, or other weights.
core::Profile language_model(const std::string& head = "head") {
  core::Profile profile = named(
      {{"t.wte.weight", 1000}, {"t.wpe.weight", 100}, {"t.h.0.w", 400}, {"t.h.1.w", 400}, {"t.ln.w", 8}});
  profile.layers[0].kind = profile.layers[1].kind = "embedding";
  profile.layers.push_back({.name = head, .kind = "linear", .forward_us = 50, .backward_us = 100});
  return profile;
}

TEST_CASE("emit: FSDP has a tied head in the group of the embedding, which is kept from end to end") {
  const Scene scene(language_model(), support::pair_of(20, 1));
  const std::string sharded = R"({"pipeline": "sharded", "reshard_after_forward": true})";
  const ordered_json json = Planned(scene, of_counts({1, 1, 1, 2}), sharded).emit("fsdp").json;
  CHECK(json["fully_shard"].dump() == R"([["t.ln"],["t.h.1"],["t.h.0"],["t.wte","t.wpe","head"]])");
  CHECK(json["reshards"].dump() == "[true,true,true,false]");
  CHECK(json["tied"].dump() == R"({"weight":"t.wte.weight","modules":["head"]})");
  CHECK(json["groups_reproduced"] == true);

  // A group of its own takes one gather less than one that is gathered twice. Two groups of which PyTorch
  // would keep the first are kept both.
  const ordered_json two = Planned(scene, of_counts({3, 2}), R"({"pipeline": "sharded"})").emit("fsdp").json;
  const std::string kept =
      R"({"pipeline": "sharded", "reshard_after_forward": false, "scatters_in_flight": 1})";
  CHECK(two["reshards"].dump() == "[false,false]");
  CHECK(two["makes"]["iteration_us"].get<double>() ==
        doctest::Approx(Planned(scene, of_counts({3, 2})).iteration_us(kept, of_counts({3, 2}))));
  CHECK(two["makes"]["loss_us"] < 0);

  const ordered_json one = Planned(scene, of_counts({5}), sharded).emit("fsdp").json;
  CHECK(one["fully_shard"].dump() == R"([[""]])");
  CHECK(one["reshards"].dump() == "[false]");
}

TEST_CASE(
    "emit: FSDP names no module of another group above a tied one, and takes along what the latter owns") {
  core::Profile profile = language_model("cls.head");
  profile.layers[4] = {.name = "cls.x", .kind = "linear", .forward_us = 50, .backward_us = 100};
  profile.layers[4].tensors = {{.name = "cls.x.weight", .elements = 8}};
  profile.layers[5].tensors = {{.name = "cls.head.bias", .elements = 10}};
  const Scene scene(profile, support::pair_of(20, 0.1));
  const Planned planned(scene, of_counts({2, 2, 2}));
  const ordered_json json = planned.emit("fsdp").json;
  CHECK(json["fully_shard"].dump() == R"([["cls.x"],["t.h"],["t.wte","t.wpe","cls.head"]])");
  CHECK(json["notes"].dump().find("cls.head.bias travels in that group, too") != std::string::npos);
  // With the bias, `cls` is whole in the first group, but no call may take it.
  CHECK(Planned(scene, of_counts({1, 1, 4})).emit("fsdp").json["fully_shard"].dump() ==
        R"([["cls.x"],["t","cls.head"]])");
}

TEST_CASE("emit: frozen weights are not taken for tied ones, and only FSDP wants tied ones in a group") {
  core::Profile frozen = language_model();
  frozen.layers.push_back({.name = "other", .kind = "linear", .forward_us = 50, .backward_us = 100});
  const Scene two(frozen, support::pair_of(20, 0.1));
  CHECK_FALSE(Planned(two, of_counts({5})).emit("fsdp").json.contains("tied"));
  core::Profile without = language_model();
  without.layers[0].kind = without.layers[1].kind = "linear";
  const Scene none(without, support::pair_of(20, 0.1));
  CHECK_FALSE(Planned(none, of_counts({5})).emit("fsdp").json.contains("tied"));
  const Scene tied(language_model(), support::pair_of(20, 0.1));
  CHECK(Planned(tied, of_counts({3, 2})).emit("inductor").json["module_bucket_plans"].dump() ==
        R"([["t.wte","t.wpe"],["t.h","t.ln"]])");
}

/// Two blocks, of each of which a small module is trained.
core::Profile adapted_model() {
  core::Profile out = named({{"embed.w", 1},
                             {"h.0.q.base.w", 1},
                             {"h.0.q.lora.w", 10},
                             {"h.0.mlp.w", 1},
                             {"h.1.q.base.w", 1},
                             {"h.1.q.lora.w", 10},
                             {"h.1.mlp.w", 1},
                             {"head.w", 1}});
  for (std::size_t i = 0; i < out.layers.size(); ++i) {
    core::ProfileLayer& layer = out.layers[i];
    layer.name = enclosing(layer.tensors[0].name);
    if (i == 2 || i == 5) continue;
    layer.kind = "linear";
    layer.tensors.clear();
    layer.frozen_elements = static_cast<std::int64_t>(100 * (i + 1));
  }
  return out;
}

TEST_CASE("emit: FSDP has modules that are not trained in the groups of their neighbours") {
  const Scene scene(adapted_model(), support::pair_of(20, 0.1));
  const ordered_json json =
      Planned(scene, of_counts({1, 1}), support::of_pipeline("sharded")).emit("fsdp").json;
  CHECK(json["groups_reproduced"] == true);
  CHECK(json["fully_shard"].dump() == R"([["h.1","head"],["embed","h.0"]])");
  CHECK(json["groups"].dump() ==
        R"([{"tensors":1,"bytes":40,"frozen_bytes":8000},{"tensors":1,"bytes":40,"frozen_bytes":2800}])");
  CHECK(json["makes"]["loss_us"].get<double>() < 1);
  CHECK(json["notes"].dump().find("Parameters that are not trained have 135 times the bytes of the others: "
                                  "they are gathered with these") != std::string::npos);
  CHECK(Planned(scene, of_counts({2})).emit("fsdp").json["fully_shard"].dump() == R"([[""]])");

  // The head and the embedding are in no leaf module: 500 + 10 + 700 elements are in the larger one.
  const ordered_json leaves =
      Planned(scene, of_counts({1, 1}), support::of_pipeline("sharded")).emit("deepspeed").json;
  CHECK(leaves["leaf_modules"].dump() == R"(["h.0","h.1"])");
  CHECK(leaves["stage3_prefetch_bucket_size"] == 1210);
  CHECK(leaves["reduce_bucket_size"] == 10);
}

TEST_CASE("emit: FSDP says what of the job was priced") {
  Planned planned(five_tensors(), of_counts({2, 3}), R"({"pipeline": "sharded", "scatters_in_flight": 3})");
  planned.plan.workers = 4;
  const Emission flat = planned.emit("fsdp");
  CHECK(flat.json["priced_as"].get<std::string>().ends_with(
      ", which waits while 3 reduce-scatters are in flight"));
  CHECK(flat.text.find("\nmodel.set_reduce_scatter_max_input_buffers(3)") != std::string::npos);
  planned.plan.options = {.scatters_in_flight = 1, .shard_workers = 2};
  const Emission hybrid = planned.emit("fsdp");
  CHECK(hybrid.json["priced_as"].get<std::string>().ends_with(
      ", which waits for the reduce-scatter before; each worker's share is then all-reduced between the "
      "shard groups, beside the reduce-scatters that follow"));
  CHECK(hybrid.text.find("set_reduce_scatter_max_input_buffers") == std::string::npos);
}

// Two workers get 2 x 4 and 3 of the 3 x 4 and 5 elements (68 bytes), four get 1 x 4 and 2.
TEST_CASE("emit: FSDP says by how much tensors are padded for the workers of a shard group") {
  core::Profile profile = support::named({{"a.weight", 12}, {"b.weight", 5}});
  const Scene unknown(profile, support::pair_of(20, 0.1));
  CHECK_FALSE(Planned(unknown, of_counts({1, 1})).emit("fsdp").json["groups"][0].contains("padding_bytes"));
  profile.layers[0].tensors[0].shape = {3, 4};
  profile.layers[1].tensors[0].shape = {5};
  const Scene scene(profile, support::pair_of(20, 0.1));
  Planned planned(scene, of_counts({1, 1}), support::of_pipeline("sharded"));
  planned.plan.workers = 4;
  const ordered_json flat = planned.emit("fsdp").json;
  CHECK(flat["groups"].dump() ==
        R"([{"tensors":1,"bytes":20,"padding_bytes":12},{"tensors":1,"bytes":48,"padding_bytes":16}])");
  CHECK(
      flat["notes"][0] ==
      "The first dimension of each tensor is padded to a multiple of 4: collectives carry 41.2 % more bytes, "
      "which is priced.");
  planned.plan.options.shard_workers = 2;
  CHECK(planned.emit("fsdp").json["groups"].dump() ==
        R"([{"tensors":1,"bytes":20,"padding_bytes":4},{"tensors":1,"bytes":48,"padding_bytes":16}])");
}

}  // namespace
}  // namespace planner
