// The bundled profiles, networks and compressor costs: they can be read, and contain the figures of their
// sources.

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/bundled.hpp"
#include "core/compressor_costs.hpp"
#include "core/field.hpp"
#include "core/files.hpp"
#include "core/network.hpp"
#include "core/profile.hpp"
#include "tests/support/program.hpp"

namespace core {
namespace {

const std::filesystem::path kTraces = support::source_dir() / "traces";

Profile stored_profile(const std::string& name) {
  return read_profile(core::Field::load(kTraces / (name + ".profile.json")));
}
Network stored_network(const std::string& name) {
  return read_network(core::Field::load(kTraces / (name + ".network.json")));
}

TEST_CASE("traces: every file reads, and is written as this program writes it") {
  int profiles = 0;
  int networks = 0;
  int costs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kTraces)) {
    const std::string file = entry.path().filename().string();
    CAPTURE(file);
    if (file.ends_with(".profile.json")) {
      CHECK(profile_text(read_profile(core::Field::load(entry.path()))) == core::read_file(entry.path()));
      ++profiles;
    } else if (file.ends_with(".network.json")) {
      CHECK(network_text(read_network(core::Field::load(entry.path()))) == core::read_file(entry.path()));
      ++networks;
    } else if (file.ends_with(".compressors.json")) {
      CHECK(compressor_costs_text(read_compressor_costs(core::Field::load(entry.path()))) ==
            core::read_file(entry.path()));
      ++costs;
    }
  }
  CHECK(profiles >= 8);
  CHECK(networks >= 8);
  CHECK(costs >= 1);
}

TEST_CASE(
    "traces: every bundled network is a file of traces/networks, with three collectives on each number of "
    "workers") {
  CHECK(bundled_networks().size() >= 5);
  for (const BundledFile& bundled : bundled_networks()) {
    CAPTURE(bundled.name);
    const std::string file = std::string(bundled.name) + ".network.json";
    CHECK(bundled.text == core::read_file(kTraces / "networks" / file));
    const Network network = read_network(*find_bundled_network(bundled.name));
    CHECK(network_text(network) == bundled.text);
    CHECK(network.name == bundled.name);
    CHECK(network.measured.size() % 3 == 0);
    for (const Measured& measured : network.measured) CHECK(measured.curve.points().size() >= 15);
  }
  CHECK_FALSE(find_bundled_network("h100").has_value());
}

TEST_CASE("traces: the program contains every profile, network and model that comes with it") {
  const auto check = [](std::span<const BundledFile> files, const std::filesystem::path& folder,
                        const std::string& ending) {
    std::size_t there = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().filename().string().ends_with(ending)) ++there;
    CHECK(files.size() == there);
    for (const BundledFile& file : files) {
      CAPTURE(file.name);
      CHECK(file.text == core::read_file(folder / (std::string(file.name) + ending)));
    }
  };
  check(bundled_profiles(), kTraces, ".profile.json");
  check(networks_of_scenarios(), kTraces, ".network.json");
  check(bundled_networks(), kTraces / "networks", ".network.json");
  check(bundled_models(), support::source_dir() / "models", ".json");
}

TEST_CASE("traces: the profiles hold what their logs hold") {
  struct Expected {
    const char* name;
    std::size_t layers;
    std::int64_t tensors;
    std::int64_t parameters;
    double forward_us;
    double backward_us;
    std::int64_t batch_size;
  };
  const Expected all[] = {
      {"googlenet-k80", 64, 64, 53'516'544 / 4, 102'667.156, 205'334.312, 64},
      {"googlenet-k80-parameters", 64, 128, 53'516'544 / 4, 102'667.156, 205'334.312, 64},
      {"resnet50-v100", 107, 161, 25'557'032, 31'766.5, 63'533, 32},
      {"vgg16-v100", 16, 32, 138'357'544, 42'655, 85'310, 32},
      {"bert-base-v100", 101, 199, 108'897'794, 33'167.5, 66'335, 8},
      {"gpt2-v100", 75, 148, 124'439'808, 105'664.5, 211'329, 4},
      {"lstm-v100", 4, 10, 85'974'278, 35'725, 71'450, 20},
      {"resnet50-h100", 175, 161, 25'557'032, 23'900, 45'978, 128},
  };
  for (const Expected& expected : all) {
    CAPTURE(expected.name);
    const Profile profile = stored_profile(expected.name);
    CHECK(profile.layers.size() == expected.layers);
    CHECK(tensor_count(profile) == expected.tensors);
    CHECK(parameter_count(profile) == expected.parameters);
    CHECK(forward_us(profile) == doctest::Approx(expected.forward_us).epsilon(1e-12));
    CHECK(backward_us(profile) == doctest::Approx(expected.backward_us).epsilon(1e-12));
    CHECK(profile.batch_size == expected.batch_size);
    CHECK(profile.dtype == Dtype::float32);
  }
}

TEST_CASE("traces: ResNet-50 has the same parameters on both devices, in forward order") {
  const auto elements = [](const Profile& profile) {
    std::vector<std::int64_t> all;
    for (const ProfileLayer& layer : profile.layers) {
      std::vector<std::int64_t> of_layer;
      for (const ProfileTensor& tensor : layer.tensors) of_layer.push_back(tensor.elements);
      std::sort(of_layer.begin(), of_layer.end());
      all.insert(all.end(), of_layer.begin(), of_layer.end());
    }
    return all;
  };
  const std::vector<std::int64_t> h100 = elements(stored_profile("resnet50-h100"));
  std::vector<std::int64_t> v100 = elements(stored_profile("resnet50-v100"));
  CHECK(h100.front() == 9408);
  CHECK(h100.back() == 2'048'000);
  CHECK(v100.front() == 9408);
  std::vector<std::int64_t> sorted = h100;
  std::sort(sorted.begin(), sorted.end());
  std::sort(v100.begin(), v100.end());
  CHECK(sorted == v100);
}

TEST_CASE("traces: the networks hold what their logs hold") {
  const Network osu = stored_network("k80-10gbe-osu");
  CHECK(osu.line_rate_gbps == 10.0);
  REQUIRE(osu.measured.size() == 3);
  for (std::size_t i = 0; i < osu.measured.size(); ++i) {
    CHECK(osu.measured[i].workers == 2 << i);
    CHECK(osu.measured[i].curve.points().size() == 203);
    CHECK(osu.measured[i].fit.has_value());
  }
  const std::pair<const char*, int> tables[] = {
      {"a100x4-nvlink", 4}, {"a100x8-nvlink", 8}, {"v100x8-nvlink", 8}};
  for (const auto& [name, workers] : tables) {
    const Network network = stored_network(name);
    REQUIRE(network.measured.size() == 1);
    CHECK(network.measured[0].workers == workers);
    CHECK(network.measured[0].curve.points().size() == 769);
    CHECK(network.measured[0].curve.points().front().first == 1 << 20);
    CHECK(network.measured[0].curve.points().back().first == 1 << 30);
    CHECK(network.measured[0].fit->mean_relative_error < 0.02);
  }
}

TEST_CASE("traces: the published networks have the numbers of their papers") {
  const Link k80 = *stored_network("k80-10gbe").link;
  CHECK(k80.alpha_us == 45.25);
  CHECK(k80.beta_us_per_byte == doctest::Approx(1.2 / (9.0 * (1 << 30) / 8) * 1e6).epsilon(1e-15));
  CHECK(k80.gamma_us_per_byte == doctest::Approx(160 / 64e9 * 1e6).epsilon(1e-15));
  // A ring on 16 workers starts up in 2 (P - 1) alpha.
  CHECK(30 * stored_network("v100-10gbe").link->alpha_us == doctest::Approx(908));
  CHECK(stored_network("v100-10gbe").link->beta_us_per_byte == doctest::Approx(8 / 10e9 * 1e6));
  CHECK(30 * stored_network("v100-56gbib").link->alpha_us == doctest::Approx(236));
  CHECK(stored_network("v100-56gbib").link->beta_us_per_byte == doctest::Approx(8 / 56e9 * 1e6));
  const Network nvlink = stored_network("v100-25gbe-nvlink");
  REQUIRE(nvlink.levels.size() == 2);
  CHECK(nvlink.levels[0].size == 8);
  CHECK(nvlink.levels[1].link == Link{.alpha_us = 30, .beta_us_per_byte = 0.00034, .gamma_us_per_byte = 0});
}

}  // namespace
}  // namespace core
