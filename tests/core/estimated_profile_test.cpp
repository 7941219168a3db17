// Requests for an estimated profile: their result, that scaled times add up to the picosecond, and every
// error message verbatim.

#include "core/estimate/estimated_profile.hpp"

#include <cmath>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "core/estimate/estimate.hpp"
#include "core/host_stream.hpp"
#include "core/model/model.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace core {
namespace {

using core::Field;

constexpr const char* kModel =
    R"({"format": "fusewise.model", "version": 1, "name": "m", "about": "", "batch_size": 10, "dtype": "float32",
        "input": [{"name": "x", "shape": [40]}],
        "layers": [{"name": "a", "kind": "linear", "out_features": 70},
                   {"name": "b", "kind": "relu"},
                   {"name": "c", "kind": "linear", "out_features": 30}]})";

Profile option(const std::string& others) {
  return read_or_estimate_profile(
      Field::parse(R"({"estimate": )" + std::string(kModel) + others + "}", "w.json"));
}

struct Picoseconds {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  bool operator==(const Picoseconds&) const = default;
};

/// Each layer's time rounded once, as simulations do.
Picoseconds simulated(const Profile& profile) {
  Picoseconds out;
  for (const ProfileLayer& layer : profile.layers) {
    out.forward += std::llround(layer.forward_us * 1e6);
    out.backward += std::llround(layer.backward_us * 1e6);
  }
  return out;
}

TEST_CASE("estimated profile: the command's estimate, by the file's words") {
  const core::Model model = core::read_model(Field::parse(kModel, "m.json"));
  CHECK(option(R"(, "device": "v100")") == estimate(model, *device("v100")));
  CHECK(option(R"(, "device": "p100", "batch_size": 7, "dtype": "float16")") ==
        estimate(model, *device("p100"), {.batch_size = 7, .dtype = Dtype::float16}));
  CHECK(option(R"(, "device": "a100", "tf32": true)") == estimate(model, *device("a100"), {.tf32 = true}));
  CHECK(option(R"(, "device": "v100", "compute_us": 500, "forward_share": 0.25)") ==
        estimate(model, *device("v100"), {.compute_us = 500, .forward_share = 0.25}));
}

TEST_CASE("estimated profile: the model may stand in a file, and so may a whole profile") {
  const support::TemporaryFolder folder;
  folder.put("models/m.json", kModel);
  folder.put("p.json", profile_text(option(R"(, "device": "t4")")));
  const Field file = Field::load(
      folder.put("s/s.json", R"({"a": {"estimate": "../models/m.json", "device": "t4"}, "b": "../p.json"})"));
  CHECK(read_or_estimate_profile(file.at("a")) == option(R"(, "device": "t4")"));
  CHECK(read_or_estimate_profile(file.at("b")) == option(R"(, "device": "t4")"));
}

TEST_CASE("estimated profile: a bundled profile or model is found by name, as a network is") {
  const Field file = Field::parse(
      R"({"a": "bert-base-v100", "b": {"estimate": "resnet18", "device": "t4"}, "c": "bert-base-v10",
          "d": {"estimate": "resnet-18", "device": "t4"}})",
      "s.json");
  const std::filesystem::path source = support::source_dir();
  CHECK(read_or_estimate_profile(file.at("a")) ==
        with_host_stream(read_profile(Field::load(source / "traces/bert-base-v100.profile.json"))));
  CHECK(read_or_estimate_profile(file.at("b")) ==
        estimate(core::read_model(Field::load(source / "models/resnet18.json")), *device("t4")));
  CHECK(!read_profile_overlap(file.at("a")).has_value());
  CHECK_THROWS_WITH_AS(
      (void)read_or_estimate_profile(file.at("c")),
      "s.json: /c: expected an object, the path of a file, or a name that 'fusewise show profiles' lists, "
      "got 'bert-base-v10', did you mean 'bert-base-v100'?",
      core::InputError);
  CHECK_THROWS_WITH_AS(
      (void)read_or_estimate_profile(file.at("d")),
      "s.json: /d/estimate: expected an object, the path of a file, or a name that 'fusewise show models' "
      "lists, got 'resnet-18', did you mean 'resnet18'?",
      core::InputError);
}

TEST_CASE("estimated profile: a sequence length instead of the model's") {
  const std::string file = support::source_dir().string() + "/models/bert-base.json";
  const auto tokens = [&](const std::string& length) {
    return read_or_estimate_profile(Field::parse(
        R"({"estimate": ")" + file + R"(", "device": "v100", "sequence_length": )" + length + "}", "w.json"));
  };
  CHECK(backward_us(tokens("64")) < backward_us(tokens("128")));
}

TEST_CASE("estimated profile: what is scaled adds up to the picosecond, in the layers' proportion") {
  const Profile plain = option(R"(, "device": "v100")");
  for (const double compute_us : {0.001, 1.0, 333.333333, 308'000.000001, 9e9}) {
    CAPTURE(compute_us);
    const std::string compute = R"(, "device": "v100", "compute_us": )" + std::to_string(compute_us);
    const std::int64_t all = std::llround(compute_us * 1e6);
    const Picoseconds whole = simulated(option(compute));
    CHECK(whole.forward + whole.backward == all);
    const Picoseconds third = simulated(option(compute + R"(, "forward_share": 0.375)"));
    CHECK(third.forward + third.backward == all);
    CHECK(third.forward == std::llround(static_cast<double>(all) * 0.375));
    CHECK(simulated(option(compute + R"(, "forward_share": 0)")) ==
          Picoseconds{.forward = 0, .backward = all});
    CHECK(simulated(option(compute + R"(, "forward_share": 1)")) ==
          Picoseconds{.forward = all, .backward = 0});
  }
  const Profile scaled = option(R"(, "device": "v100", "compute_us": 9000000)");
  CHECK(scaled.layers[2].forward_us / scaled.layers[0].backward_us ==
        doctest::Approx(plain.layers[2].forward_us / plain.layers[0].backward_us));
  CHECK(scaled.origin.source.find("scaled to 9000 ms for forward and backward") != std::string::npos);
  // Without compute_us, the share splits the estimated time.
  const Profile split = option(R"(, "device": "v100", "forward_share": 0.5)");
  CHECK(forward_us(split) == doctest::Approx((forward_us(plain) + backward_us(plain)) / 2));
  CHECK(split.origin.source.find("time elsewhere), 50 % of it forward") != std::string::npos);
}

TEST_CASE("estimated profile: what is wrong with the wish is refused with its place") {
  struct Refusal {
    std::string others;
    std::string message;
  };
  const Refusal refusals[] = {
      {"", "w.json: /device: expected a value, got nothing"},
      {R"(, "device": "v1000")",
       R"(w.json: /device: expected one of k80, p100, v100, t4, rtx2080ti, a100, h100, h200, got "v1000", did you mean 'v100'?)"},
      {R"(, "device": "v100", "batch": 3)",
       "w.json: /batch: expected a key among estimate, device, batch_size, dtype, tf32, "
       "sequence_length, compute_us, forward_share, got 'batch', did you mean 'batch_size'?"},
      {R"(, "device": "v100", "batch_size": 0)",
       "w.json: /batch_size: expected an integer from 1 to 1000000000, got 0"},
      {R"(, "device": "v100", "dtype": "float64")",
       R"(w.json: /dtype: expected one of float32, float16, bfloat16, got "float64", did you mean 'float32'?)"},
      {R"(, "device": "a100", "tf32": 1)", "w.json: /tf32: expected true or false, got 1"},
      {R"(, "device": "v100", "compute_us": 0)",
       "w.json: /compute_us: expected a number from 0.001 to 1000000000000, got 0"},
      {R"(, "device": "v100", "forward_share": 1.5)",
       "w.json: /forward_share: expected a number from 0 to 1, got 1.5"},
      {R"(, "device": "v100", "sequence_length": 0)",
       "w.json: /sequence_length: expected an integer from 1 to 1000000000, got 0"},
  };
  for (const Refusal& each : refusals) {
    CAPTURE(each.others);
    CHECK_THROWS_WITH_AS((void)option(each.others), each.message.c_str(), core::InputError);
  }
  const auto refused = [](const std::string& text, const std::string& message) {
    CHECK_THROWS_WITH_AS((void)read_or_estimate_profile(Field::parse(text, "w.json")), message.c_str(),
                         core::InputError);
  };
  refused(R"({"estimate": 3, "device": "v100"})",
          "w.json: /estimate: expected an object or the path of a file, got 3");
  refused(
      R"({"estimate": "none.json", "device": "v100"})",
      R"(w.json: /estimate: expected the path of a file that can be read, got "none.json": No such file or directory)");
  refused("3", "w.json: /: expected an object or the path of a file, got 3");
  const std::string large = support::source_dir().string() + "/models/llama2-7b.json";
  CHECK_THROWS_WITH_AS(
      (void)read_or_estimate_profile(Field::parse(
          R"({"estimate": ")" + large + R"(", "device": "k80", "batch_size": 1000000000})", "w.json")),
      doctest::Contains("w.json: /estimate: expected a model whose times a profile can hold, got "),
      core::InputError);
}

}  // namespace
}  // namespace core
