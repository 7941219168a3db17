// Schedules: a point in the space of pipeline x fusion x compression x collectives, by name or spelled out.

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
  std::string name;  ///< as the user named it, or a short description of an object
  const Pipeline* pipeline = nullptr;
  PipelineOptions options;
  Fusion fusion;
  std::optional<Algorithm> all_reduce;  ///< the scenario's where absent
  Compressor compressor;
  bool selective = false;  ///< only groups that are sooner there for it are compressed
};

/// A published system: what a schedule object of that name starts from.
struct Preset {
  std::string_view name;
  std::string_view summary;
  std::string_view json;          ///< the schedule object, as a user could have written it
  bool is_alias = false;          ///< another name of the preset before it: left out where all are asked for
  bool needs_compressor = false;  ///< `compression` has to be given
  /// Needs other machines or keeps parameters elsewhere than the rest: left out where all are asked for.
  bool is_other_setup = false;
  bool is_sparse = false;  ///< its compressor may be given as the `density` alone
};

/// Whether its channel runs, of all that is ready, what is for the layer nearest the input: see
/// Conditions::needs_channel_in_order().
bool goes_by_layer(const Schedule& schedule);

/// Every named schedule, in the order in which help lists them.
std::span<const Preset> presets();

/// A preset's name, or an object: `name` to start from, then pipeline, fusion, compression (or the density of
/// a sparse preset), collectives and the pipeline's own keys. Throws InputError.
Schedule read_schedule(const core::Field& field);

/// The schedule of that name, which must be one of presets().
Schedule preset_schedule(std::string_view name);

/// Every named schedule that loses no information.
std::vector<Schedule> lossless_schedules();

}  // namespace planner
