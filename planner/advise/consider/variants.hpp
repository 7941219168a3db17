// Lists what is considered: each compressor and sparse all-reduce, at each density.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/advise/consider.hpp"

namespace planner::considered {

/// A compressor, unchanged or at one density.
struct Variant {
  std::string label = "none";  ///< its name, extended if another has the same name
  Compressor compressor;
  std::optional<double> density;
};

/// The built-in compressors (with several nodes, also applied between nodes only), the sparse all-reduces and
/// the offered compressors, each with its densities.
std::vector<std::vector<Variant>> all_variants(const Setting& setting, const ConsiderOptions& options);

/// The reason why the pipeline cannot use the variant, as the reader of schedules states it; empty if it can.
std::string obstacle(const Setting& setting, const Schedule& schedule, const Variant& variant);

/// The factor by which the variant multiplies the number of iterations.
double factor_of(const ConsiderOptions& options, const Variant& variant);

}  // namespace planner::considered
