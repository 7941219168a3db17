// The profile reader: required keys, errors and their messages, and that writing is its inverse.

#include "core/profile.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"

namespace core {
namespace {

Profile read(const std::string& text) { return read_profile(core::Field::parse(text, "p.json")); }

/// A profile around the given layers.
std::string with_layers(const std::string& layers) {
  return R"({"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 4, "dtype": "float32",)"
         R"( "device": "d", "origin": {"kind": "measured", "source": "s"}, "layers": )" +
         layers + "}";
}

/// A layer around the given tensors, with backward time 6.
std::string with_tensors(const std::string& tensors) {
  return R"({"name": "a", "kind": "conv2d", "forward_us": 3, "backward_us": 6, "tensors": )" + tensors + "}";
}

/// A good profile in which `from` is replaced by `to`.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = with_layers("[" + with_tensors(R"([{"name": "a.w", "elements": 2}])") + "]");
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

void check_refused(const std::string& text, const std::string& message) {
  CAPTURE(text);
  CHECK_THROWS_WITH_AS(read(text), message.c_str(), core::InputError);
}

TEST_CASE("profile: every field is read") {
  const Profile profile = read(with_layers(R"([
    {"name": "a", "kind": "conv2d", "forward_us": 3, "backward_us": 6.5,
     "tensors": [{"name": "a.w", "elements": 20, "backward_us": 4}, {"name": "a.b", "elements": 2, "backward_us": 2.5}],
     "forward_spread_us": 0.5, "backward_spread_us": 0.25, "activation_bytes": 4096},
    {"name": "relu", "kind": "relu", "forward_us": 1, "backward_us": 0, "tensors": []}])"));
  const Profile expected = {.model = "m",
                            .batch_size = 4,
                            .dtype = Dtype::float32,
                            .device = "d",
                            .origin = {.kind = OriginKind::measured, .source = "s"},
                            .layers = {{.name = "a",
                                        .kind = "conv2d",
                                        .forward_us = 3,
                                        .backward_us = 6.5,
                                        .tensors = {{.name = "a.w", .elements = 20, .backward_us = 4},
                                                    {.name = "a.b", .elements = 2, .backward_us = 2.5}},
                                        .forward_spread_us = 0.5,
                                        .backward_spread_us = 0.25,
                                        .activation_bytes = 4096},
                                       {.name = "relu", .kind = "relu", .forward_us = 1, .backward_us = 0}}};
  CHECK(profile == expected);
  CHECK(tensor_count(profile) == 2);
  CHECK(parameter_count(profile) == 22);
  CHECK(forward_us(profile) == 4);
  CHECK(backward_us(profile) == 6.5);
}

TEST_CASE("profile: what is written reads back the same") {
  Profile profile = {
      .model = "m \"quoted\"\n",
      .batch_size = 1'000'000'000'000,
      .dtype = Dtype::bfloat16,
      .device = "",
      .origin = {.kind = OriginKind::estimated, .source = ""},
      .layers = {{.name = "a",
                  .kind = "k",
                  .forward_us = 0.1,
                  .backward_us = 1.0 / 3.0,
                  .tensors = {{.name = "t", .elements = 1, .backward_us = 1.0 / 3.0}},
                  .forward_spread_us = 0,
                  .backward_spread_us = std::nullopt,
                  .activation_bytes = 0},
                 {.name = "b", .kind = "k", .forward_us = 1e12, .tensors = {{.name = "u", .elements = 7}}}}};
  for (const Dtype dtype : {Dtype::float32, Dtype::float16, Dtype::bfloat16})
    for (const OriginKind kind : {OriginKind::measured, OriginKind::published, OriginKind::estimated}) {
      profile.dtype = dtype;
      profile.origin.kind = kind;
      CHECK(read(profile_text(profile)) == profile);
    }
}

TEST_CASE("profile: shapes are read and written, and their product is the number of elements") {
  const auto shaped = [](const std::string& shape) {
    return with_layers("[" + with_tensors(R"([{"name": "w", "elements": 12, "shape": )" + shape + "}]") +
                       "]");
  };
  const Profile profile = read(shaped("[2, 3, 2]"));
  CHECK(profile.layers[0].tensors[0].shape == std::vector<std::int64_t>{2, 3, 2});
  CHECK(read(profile_text(profile)) == profile);
  CHECK(read(shaped("[1, 12]")).layers[0].tensors[0].shape.size() == 2);
  const std::string at = "p.json: /layers/0/tensors/0/shape";
  for (const std::string shape : {"[2, 3]", "[24]", "[5, 3]", "[1000000000000, 1000000000000]"})
    check_refused(shaped(shape),
                  at + ": expected sizes whose product is the tensor's 12 elements, got " + shape);
  check_refused(shaped("[12, 0]"), at + "/1: expected an integer from 1 to 1000000000000, got 0");
  CHECK_THROWS_AS(read(shaped("[]")), core::InputError);
  CHECK_THROWS_AS(read(shaped("12")), core::InputError);
  CHECK(!profile.layers[0].tensors[0].is_scalar);
  const Profile scalar =
      read(with_layers("[" + with_tensors(R"([{"name": "w", "elements": 1, "shape": []}])") + "]"));
  CHECK(scalar.layers[0].tensors[0].is_scalar);
  CHECK(read(profile_text(scalar)) == scalar);
}

TEST_CASE("profile: parameters that are not trained are counted by themselves") {
  const Profile profile = read(changed(R"("tensors": )", R"("frozen_elements": 70, "tensors": )"));
  CHECK(profile.layers[0].frozen_elements == 70);
  CHECK(frozen_count(profile) == 70);
  CHECK(parameter_count(profile) == 2);
  CHECK(read(profile_text(profile)) == profile);
}

TEST_CASE("profile: the module that uses a layer's tensors has them, itself or below it") {
  const auto used_by = [](const std::string& module) {
    return changed(R"("tensors": )", R"("module": ")" + module + R"(", "tensors": )");
  };
  for (const std::string module : {"a", ""}) {
    const Profile profile = read(used_by(module));
    CHECK(profile.layers[0].module == module);
    CHECK(read(profile_text(profile)) == profile);
  }
  for (const std::string other : {"a.", "b", "a.w.x"})
    check_refused(used_by(other),
                  "p.json: /layers/0/module: expected a module that has the layer's tensor 'a.w', got \"" +
                      other + "\"");
}

TEST_CASE("profile: what kernels take alone, and the rest of an iteration, are read and written") {
  const Profile profile = read(
      R"({"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 4, "dtype": "float32", "device": "d",
          "origin": {"kind": "measured", "source": "s"}, "iteration": {"optimizer_us": 5, "other_us": 7}, "layers": [
          {"name": "a", "kind": "conv2d", "forward_us": 3, "backward_us": 6, "forward_device_us": 2,
           "backward_device_us": 3, "backward_spread_us": 4,
           "tensors": [{"name": "a.w", "elements": 2, "backward_us": 4}, {"name": "a.b", "elements": 1, "backward_us": 2}]}]})");
  CHECK(profile.iteration == ProfileIteration{.optimizer_us = 5, .other_us = 7});
  CHECK(profile.layers[0].forward_device_us == 2);
  CHECK(read(profile_text(profile)) == profile);
  const ProfileLayer alone = without_launch_waits(profile).layers[0];
  CHECK(alone.forward_us == 2);
  CHECK(alone.backward_us == 3);
  CHECK(alone.backward_spread_us == 2);
  CHECK(alone.tensors[0].backward_us == 2);
  CHECK(alone.tensors[1].backward_us == 1);
  check_refused(changed(R"("forward_us": 3)", R"("forward_us": 3, "forward_device_us": 3.5)"),
                "p.json: /layers/0/forward_device_us: expected a number from 0 to 3, got 3.5");
}

TEST_CASE("profile: the range of an estimate's times is read and written") {
  const auto with = [](const std::string& range) {
    return changed(R"("layers": [)", R"("compute_range": )" + range + R"(, "layers": [)");
  };
  const Profile profile = read(with(R"({"low": 0.8, "high": 1.5})"));
  CHECK(profile.compute_range == ComputeRange{.low = 0.8, .high = 1.5});
  CHECK(read(profile_text(profile)) == profile);
  check_refused(with(R"({"low": 1.1, "high": 1.5})"),
                "p.json: /compute_range/low: expected a number from 0.001 to 1, got 1.1");
  check_refused(with(R"({"low": 0.8, "high": 0.9})"),
                "p.json: /compute_range/high: expected a number from 1 to 1000, got 0.9");
  check_refused(with(R"({"low": 0.8})"), "p.json: /compute_range/high: expected a value, got nothing");
}

TEST_CASE("profile: how much computing and communicating slow each other is read by itself, and written") {
  const std::string plain = with_layers("[" + with_tensors(R"([{"name": "a.w", "elements": 2}])") + "]");
  const Profile profile = read(plain);
  CHECK(!read_profile_overlap(core::Field::parse(plain, "p.json")));
  const ProfileOverlap overlap = {.compute_slowdown = 0.25, .communication_slowdown = 1.5};
  const std::string text = profile_text(profile, overlap);
  CHECK(read(text) == profile);
  CHECK(read_profile_overlap(core::Field::parse(text, "p.json")) == overlap);
  check_refused(changed(R"("layers")", R"("overlap": {"compute_slowdown": 1}, "layers")"),
                "p.json: /overlap/communication_slowdown: expected a value, got nothing");
  check_refused(
      changed(R"("layers")", R"("overlap": {"compute_slowdown": -1, "communication_slowdown": 0}, "layers")"),
      "p.json: /overlap/compute_slowdown: expected a number from 0 to 1000000, got -1");
}

TEST_CASE("profile: a gradient's element type has a name and a size on the wire") {
  CHECK(name(Dtype::float32) == "float32");
  CHECK(name(Dtype::float16) == "float16");
  CHECK(name(Dtype::bfloat16) == "bfloat16");
  CHECK(bytes_per_element(Dtype::float32) == 4);
  CHECK(bytes_per_element(Dtype::float16) == 2);
  CHECK(bytes_per_element(Dtype::bfloat16) == 2);
}

TEST_CASE("profile: all keys are required unless optional") {
  check_refused(changed(R"("format": "fusewise.profile", )", ""),
                "p.json: /format: expected fusewise.profile, got nothing");
  check_refused(changed(R"("version": 1, )", ""), "p.json: /version: expected a value, got nothing");
  check_refused(changed(R"("model": "m", )", ""), "p.json: /model: expected a value, got nothing");
  check_refused(changed(R"("batch_size": 4, )", ""), "p.json: /batch_size: expected a value, got nothing");
  check_refused(changed(R"("dtype": "float32", )", ""), "p.json: /dtype: expected a value, got nothing");
  check_refused(changed(R"("device": "d", )", ""), "p.json: /device: expected a value, got nothing");
  check_refused(changed(R"("origin": {"kind": "measured", "source": "s"}, )", ""),
                "p.json: /origin: expected a value, got nothing");
  check_refused(changed(R"("kind": "measured", )", ""),
                "p.json: /origin/kind: expected a value, got nothing");
  check_refused(changed(R"(, "source": "s")", ""), "p.json: /origin/source: expected a value, got nothing");
  check_refused(changed(R"("layers": [)", R"("model": [)"),
                "p.json: /model: expected a key once, got it twice");
  check_refused(changed(R"("name": "a", )", ""), "p.json: /layers/0/name: expected a value, got nothing");
  check_refused(changed(R"("kind": "conv2d", )", ""),
                "p.json: /layers/0/kind: expected a value, got nothing");
  check_refused(changed(R"("forward_us": 3, )", ""),
                "p.json: /layers/0/forward_us: expected a value, got nothing");
  check_refused(changed(R"("backward_us": 6, )", ""),
                "p.json: /layers/0/backward_us: expected a value, got nothing");
  check_refused(changed(R"("name": "a.w", )", ""),
                "p.json: /layers/0/tensors/0/name: expected a value, got nothing");
  check_refused(changed(R"(, "elements": 2)", ""),
                "p.json: /layers/0/tensors/0/elements: expected a value, got nothing");
  check_refused(with_layers(R"([{"name": "a", "kind": "k", "forward_us": 3, "backward_us": 6}])"),
                "p.json: /layers/0/tensors: expected a value, got nothing");
  check_refused("{}", "p.json: /format: expected fusewise.profile, got nothing");
  check_refused(
      "[]", R"(p.json: /: expected an object with "format": "fusewise.profile", got an array of 0 items)");
}

TEST_CASE("profile: unknown keys are refused, with a suggestion for a near miss") {
  check_refused(changed(R"("device")", R"("devise")"),
                "p.json: /devise: expected a key among format, version, model, batch_size, dtype, device, "
                "origin, compute_range, layers, iteration, overlap, got 'devise', did you mean 'device'?");
  check_refused(
      changed(R"("forward_us")", R"("foward_us")"),
      "p.json: /layers/0/foward_us: expected a key among name, kind, forward_us, backward_us, tensors, "
      "module, frozen_elements, "
      "forward_spread_us, backward_spread_us, activation_bytes, forward_device_us, backward_device_us, "
      "forward_host_us, backward_host_us, got 'foward_us', did you mean 'forward_us'?");
  check_refused(changed(R"("elements")", R"("bytes": 8, "elements")"),
                "p.json: /layers/0/tensors/0/bytes: expected a key among name, elements, shape, backward_us, "
                "got 'bytes'");
  check_refused(changed(R"("source")", R"("where": 1, "source")"),
                "p.json: /origin/where: expected a key among kind, source, got 'where'");
}

TEST_CASE("profile: another format or version is refused") {
  check_refused(changed("fusewise.profile", "fusewise.network"),
                "p.json: /format: expected one of fusewise.profile, got \"fusewise.network\"");
  check_refused(changed(R"("version": 1)", R"("version": 2)"),
                "p.json: /version: expected 1, the only version this program reads, got 2");
}

TEST_CASE("profile: values are of the right type and in range") {
  check_refused(changed(R"("model": "m")", R"("model": "")"),
                "p.json: /model: expected a non-empty string, got \"\"");
  check_refused(changed(R"("device": "d")", R"("device": null)"),
                "p.json: /device: expected a string, got null");
  check_refused(changed(R"("batch_size": 4)", R"("batch_size": 0)"),
                "p.json: /batch_size: expected an integer from 1 to 1000000000000, got 0");
  check_refused(changed(R"("batch_size": 4)", R"("batch_size": 4.5)"),
                "p.json: /batch_size: expected an integer from 1 to 1000000000000, got 4.5");
  check_refused(changed("float32", "float64"),
                "p.json: /dtype: expected one of float32, float16, bfloat16, got \"float64\", did you mean "
                "'float32'?");
  check_refused(changed("measured", "guessed"),
                "p.json: /origin/kind: expected one of measured, published, estimated, got \"guessed\"");
  check_refused(changed(R"("forward_us": 3)", R"("forward_us": -1)"),
                "p.json: /layers/0/forward_us: expected a number from 0 to 1000000000000, got -1");
  check_refused(
      changed(R"("backward_us": 6)", R"("backward_us": 1.1e12)"),
      "p.json: /layers/0/backward_us: expected a number from 0 to 1000000000000, got 1100000000000.0");
  check_refused(changed(R"("backward_us": 6)", R"("backward_us": "6")"),
                "p.json: /layers/0/backward_us: expected a number from 0 to 1000000000000, got \"6\"");
  check_refused(
      changed(R"("backward_us": 6)", R"("backward_us": NaN)"),
      fmt::format("p.json:1:{}: expected JSON, got 'N'", changed("6", "").find("backward_us") + 15));
  check_refused(changed(R"("elements": 2)", R"("elements": 0)"),
                "p.json: /layers/0/tensors/0/elements: expected an integer from 1 to 1000000000000, got 0");
  check_refused(changed(R"("elements": 2)", R"("elements": 1000000000001)"),
                "p.json: /layers/0/tensors/0/elements: expected an integer from 1 to 1000000000000, got "
                "1000000000001");
  check_refused(changed(R"("tensors": )", R"("activation_bytes": -1, "tensors": )"),
                "p.json: /layers/0/activation_bytes: expected an integer from 0 to 8000000000000000, got -1");
  check_refused(changed(R"("tensors": )", R"("forward_spread_us": -1, "tensors": )"),
                "p.json: /layers/0/forward_spread_us: expected a number from 0 to 1000000000000, got -1");
  check_refused(changed(R"("tensors": )", R"("backward_spread_us": true, "tensors": )"),
                "p.json: /layers/0/backward_spread_us: expected a number from 0 to 1000000000000, got true");
}

TEST_CASE("profile: the largest values are read") {
  CHECK(read(changed(R"("elements": 2)", R"("elements": 1000000000000)")).layers[0].tensors[0].elements ==
        1'000'000'000'000);
  CHECK(read(changed(R"("elements": 2)", R"("elements": 1e6)")).layers[0].tensors[0].elements == 1'000'000);
  CHECK(read(changed(R"("forward_us": 3)", R"("forward_us": 1e12)")).layers[0].forward_us == 1e12);
}

TEST_CASE("profile: there is a layer, a tensor and some time in all") {
  check_refused(with_layers("[]"),
                "p.json: /layers: expected an array of at least 1 item, got an array of 0 items");
  check_refused(with_layers("{}"),
                "p.json: /layers: expected an array of at least 1 item, got an object with 0 keys");
  check_refused(with_layers("[" + with_tensors("[]") + "]"),
                "p.json: /layers: expected layers with at least one tensor in all, got none");
  check_refused(with_layers(R"([{"name": "a", "kind": "k", "forward_us": 0, "backward_us": 0,)"
                            R"( "tensors": [{"name": "t", "elements": 1}]}])"),
                "p.json: /layers: expected layers with a total time above 0, got 0 us in all");
}

TEST_CASE("profile: elements in all stay so few that their bytes are exact as a double") {
  std::string tensors;
  for (int i = 0; i < 1001; ++i)
    tensors += fmt::format(R"({}{{"name": "t{}", "elements": 1000000000000}})", i > 0 ? ", " : "", i);
  check_refused(with_layers("[" + with_tensors("[" + tensors + "]") + "]"),
                "p.json: /layers: expected at most 1000000000000000 elements in all, got more");
}

TEST_CASE("profile: names of layers and of tensors are unique, each among themselves") {
  const std::string other =
      R"(, {"name": "a", "kind": "k", "forward_us": 0, "backward_us": 0, "tensors": []})";
  check_refused(with_layers("[" + with_tensors(R"([{"name": "t", "elements": 1}])") + other + "]"),
                "p.json: /layers/1/name: expected a name that nothing else in this file has, got \"a\"");
  check_refused(
      with_layers("[" + with_tensors(R"([{"name": "t", "elements": 1}, {"name": "t", "elements": 1}])") +
                  "]"),
      "p.json: /layers/0/tensors/1/name: expected a name that nothing else in this file has, got \"t\"");
  check_refused(changed(R"("name": "a.w")", R"("name": "")"),
                "p.json: /layers/0/tensors/0/name: expected a non-empty string, got \"\"");
  CHECK(read(changed(R"("name": "a.w")", R"("name": "a")")).layers[0].tensors[0].name == "a");
}

TEST_CASE("profile: parts of a layer's backward time are there for all tensors or none, and add up to it") {
  const auto with_parts = [](const std::string& first, const std::string& second) {
    return with_layers("[" +
                       with_tensors(R"([{"name": "t", "elements": 1)" + first +
                                    R"(}, {"name": "u", "elements": 1)" + second + "}]") +
                       "]");
  };
  CHECK(read(with_parts("", "")).layers[0].tensors[0].backward_us == std::nullopt);
  CHECK(read(with_parts(R"(, "backward_us": 2)", R"(, "backward_us": 4)")).layers[0].tensors[1].backward_us ==
        4.0);
  CHECK_NOTHROW(read(with_parts(R"(, "backward_us": 2.000005)", R"(, "backward_us": 4)")));
  check_refused(with_parts(R"(, "backward_us": 2.00001)", R"(, "backward_us": 4)"),
                "p.json: /layers/0/backward_us: expected the sum of its tensors' parts, 6.00001, got 6");
  check_refused(with_parts(R"(, "backward_us": 2)", ""),
                "p.json: /layers/0/tensors/1/backward_us: expected a value, got nothing");
  check_refused(with_parts("", R"(, "backward_us": 2)"),
                "p.json: /layers/0/tensors/0/backward_us: expected a value, got nothing");
  check_refused(with_parts(R"(, "backward_us": -1)", R"(, "backward_us": 7)"),
                "p.json: /layers/0/tensors/0/backward_us: expected a number from 0 to 1000000000000, got -1");
}

}  // namespace
}  // namespace core
