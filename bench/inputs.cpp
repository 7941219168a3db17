#include "bench/inputs.hpp"

#include <cstdint>
#include <random>

#include <fmt/core.h>

namespace bench {

core::Profile profile_of(std::size_t tensors) {
  std::mt19937 random(7);
  core::Profile profile = {.model = "bench", .batch_size = 64, .device = "none", .origin = {}, .layers = {}};
  for (std::size_t i = 0; i < tensors; ++i) {
    const auto elements =
        static_cast<std::int64_t>(i % 3 == 0 ? 1000 + random() % 1'000'000 : 64 + random() % 2000);
    const double us =
        1 + 400e3 / static_cast<double>(tensors) * static_cast<double>(random() % 1000) / 1000.0;
    profile.layers.push_back({.name = fmt::format("layer{}", i),
                              .kind = "bench",
                              .forward_us = us / 2,
                              .backward_us = us,
                              .tensors = {{.name = fmt::format("tensor{}", i), .elements = elements}}});
  }
  return profile;
}

std::string traces_folder() { return FUSEWISE_SOURCE_DIR "/traces"; }

core::Profile bundled_profile(const std::string& name) {
  return core::read_profile(core::Field::load(fmt::format("{}/{}.profile.json", traces_folder(), name)));
}

core::Network network_of(double alpha_us, double beta_us_per_byte, double gamma_us_per_byte) {
  return {.name = "bench",
          .origin = {},
          .link = core::Link{.alpha_us = alpha_us,
                             .beta_us_per_byte = beta_us_per_byte,
                             .gamma_us_per_byte = gamma_us_per_byte},
          .line_rate_gbps = {},
          .levels = {},
          .measured = {}};
}

planner::Schedule schedule_of(const std::string& json) {
  return planner::read_schedule(core::Field::parse(json, "bench"));
}

}  // namespace bench
