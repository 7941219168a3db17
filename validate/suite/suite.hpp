// A suite: plans that are run live, in groups with the same model, network and workers, and the tolerances of
// the predictions.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/field.hpp"
#include "validate/live/run.hpp"
#include "validate/suite/judge.hpp"

namespace suite {

struct Plan {
  std::string name;
  Part part = Part::any;
  bool is_dense = true;  ///< neither compressed nor sparse
  live::RunSpec spec;    ///< iterations and warm-up are the suite's
};

/// Plans that are ranked against each other.
struct Group {
  std::string name;
  std::string compute;  ///< "waiting", or "cpu" if layers are computed
  live::Place place;
  std::vector<Plan> plans;
};

/// A job of another program, which predicts and measures by itself: see external.hpp.
struct Program {
  std::string name;
  std::filesystem::path script;
  std::uint32_t workers = 2;
  double bits_per_second = 1e9;
  std::chrono::seconds limit{300};
};

struct Suite {
  std::string name;
  Tolerance tolerance;
  std::uint32_t iterations = 20;
  std::vector<Group> groups;
  std::vector<Program> programs;
};

/// Reads and checks `fusewise.suite` and the files it names. Every plan is predicted once, on a network
/// derived from the line rate, so that impossible plans are rejected before anything runs. Throws InputError.
Suite read_suite(const core::Field& field);

}  // namespace suite
