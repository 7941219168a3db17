// What is looked at: each compressor and sparse all-reduce, at each density.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/advise/consider.hpp"

namespace planner::considered {

/// A compressor, as it stands or at one density.
struct Variant {
  std::string label = "none";  ///< its name, or more where another has the name
  Compressor compressor;
  std::optional<double> density;
};

/// The built-in compressors, on several nodes also between these alone, the sparse all-reduces and what is
/// offered, each with its densities.
std::vector<std::vector<Variant>> all_variants(const Setting& setting, const ConsiderOptions& options);

/// What keeps the pipeline from carrying it, or nothing. The reader of schedules decides.
std::string obstacle(const Setting& setting, const Schedule& schedule, const Variant& variant);

/// Of the iterations that it needs more.
double factor_of(const ConsiderOptions& options, const Variant& variant);

}  // namespace planner::considered
