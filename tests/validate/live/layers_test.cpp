// Timed layers, and the all-reduces before and during them.

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "collectives/transport/in_process.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"
#include "tests/support/corrupting_transport.hpp"
#include "tests/support/program.hpp"
#include "validate/live/fusion_buffer_engine.hpp"
#include "validate/live/layers.hpp"

namespace {

live::RunSpec spec() {
  const std::filesystem::path root = support::source_dir();
  live::RunSpec out;
  out.layers = live::RealLayers{
      .model = core::read_model(core::Field::load(root / "validate/suites/models/small-cnn.json")),
      .computing = 1};
  return out;
}

/// Rank 0 computes; a byte of rank 1's message `number` with a size in this range is changed.
live::LayerTimes timed(std::size_t min, std::size_t max, std::size_t number) {
  live::LayerTimes out;
  transport::run_ranks(3, [&](transport::Transport& end) {
    tests::CorruptingTransport changing(end, end.rank() == 1 ? min : SIZE_MAX, max, number);
    live::FusionBufferEngine engine(changing, "ring", 1);
    const live::RunSpec layers = spec();
    const auto running = end.rank() == 0 ? std::make_unique<live::RunningLayers>(*layers.layers) : nullptr;
    live::LayerTimes own = live::measured_layers(changing, engine, layers, running.get(), 2);
    if (end.rank() == 0) out = std::move(own);
  });
  return out;
}

TEST_CASE("layers: are timed on the rank that computes, and a changed byte of any all-reduce is found out") {
  // The last pieces of a third of 256 KiB, which are sent during layers, four per all-reduce.
  constexpr std::size_t kMin = 21'800;
  constexpr std::size_t kMax = 21'900;
  const live::LayerTimes good = timed(kMin, kMax, SIZE_MAX);
  for (const core::ProfileLayer& layer : good.profile.layers) CHECK(layer.forward_us > 0);
  CHECK(good.overlap.compute_slowdown >= 0);
  for (const std::size_t number : {0U, 5U, 18U}) {
    CAPTURE(number);
    CHECK_THROWS_WITH_AS(timed(kMin, kMax, number), doctest::Contains("a sum of zeros is not 0"),
                         core::EnvironmentError);
  }
  // Whole pieces of 64 KiB: the first belongs to the all-reduce before the layers.
  CHECK_THROWS_WITH_AS(timed(65'536, 65'536, 0), doctest::Contains("all-reduce before layers"),
                       core::EnvironmentError);
}

TEST_CASE("layers: the tensors of each have the order of the plan, which begins with the last") {
  const core::Profile of_model = live::profile_of(*spec().layers);
  const auto names = [](const core::Profile& profile) {
    std::vector<std::string> out;
    for (const core::ProfileLayer& layer : profile.layers)
      for (const auto& tensor : layer.tensors) out.push_back(tensor.name);
    return out;
  };
  const std::vector<std::string> forward = names(of_model);
  REQUIRE(forward.size() == 18);  // nine layers with a weight and a bias each
  const auto ordered = [&](const std::vector<std::string>& backward_order) {
    core::Profile out = of_model;
    live::order_tensors(out, backward_order);
    return names(out);
  };
  CHECK(ordered({forward.rbegin(), forward.rend()}) == forward);
  std::vector<std::string> swapped = forward;
  for (std::size_t i = 0; i < swapped.size(); i += 2) std::swap(swapped[i], swapped[i + 1]);
  CHECK(ordered({swapped.rbegin(), swapped.rend()}) == swapped);
  CHECK(ordered(forward) == swapped);  // layers keep their places
}

}  // namespace
