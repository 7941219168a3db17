// Schedules: combinations of pipeline, fusion, compression and collectives, by name or spelled out.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/field.hpp"
#include "planner/choose/fusion.hpp"
#include "planner/cost/collectives.hpp"
#include "planner/pipeline/pipeline.hpp"

namespace planner {

struct Schedule {
  std::string name;  ///< the user's name for it, or a short description of an object
  const Pipeline* pipeline = nullptr;
  PipelineOptions options;
  Fusion fusion;
  std::optional<Algorithm> all_reduce;  ///< the scenario's algorithm if absent
  Compressor compressor;
  bool selective = false;  ///< compress only groups that arrive sooner compressed
};

/// A published system; a schedule object with that name starts from it.
struct Preset {
  std::string_view name;
  std::string_view summary;
  std::string_view json;          ///< the preset as a JSON schedule object
  bool is_alias = false;          ///< another name of the previous preset; excluded when all are requested
  bool needs_compressor = false;  ///< whether `compression` is required
  /// Whether it needs other machines or stores parameters elsewhere; excluded when all are requested.
  bool is_other_setup = false;
  bool is_sparse = false;  ///< whether its compressor may be given by `density` only
};

/// Whether its channel runs the ready collective for the layer nearest the input; see
/// Conditions::needs_channel_in_order().
bool goes_by_layer(const Schedule& schedule);

/// Every named schedule, in the order in which help lists them.
std::span<const Preset> presets();

/// Reads a preset's name, or an object: `name` to start from, then pipeline, fusion, compression (or the
/// density of a sparse preset), collectives and the pipeline's own keys. Throws InputError.
Schedule read_schedule(const core::Field& field);

/// The schedule with that name, which must be one of presets().
Schedule preset_schedule(std::string_view name);

/// Every named schedule without lossy compression.
std::vector<Schedule> lossless_schedules();

}  // namespace planner
