// Groups of whole modules, for frameworks that are told which modules share a collective. The smallest unit
// is a module that owns a parameter directly: a group boundary inside it must move to one of its sides.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/emit/emitters/report.hpp"
#include "planner/job/tied.hpp"

namespace planner {

/// A call for one group: it takes all parameters below these modules that no earlier call took.
struct Wrap {
  std::vector<std::string> modules;  ///< in forward order; "" is the model itself
  std::size_t group = 0;             ///< in backward order
};

/// Whether a sharding of PyTorch with parameters of float32 needs a policy for the types of collectives.
inline bool needs_policy(const EmitRequest& request) {
  return request.gather_type() != core::Dtype::float32 || request.reduce_type() != core::Dtype::float32;
}

struct ModuleGroups {
  Groups groups;                  ///< in backward order
  std::vector<Wrap> calls;        ///< lower modules before upper ones
  std::vector<std::string> whys;  ///< by group of the plan: why it is made otherwise, or empty
};

/// Whether a module of one group may hold a module of another, which is then taken first. If not, the model
/// itself is not named either, and its own parameters are each alone.
enum class Nesting { allowed, none };

/// What groups are made of.
struct ModuleUnits {
  Groups whole;  ///< what no group may cut: a module's own gradients and those between them
  std::vector<std::uint32_t> alone;  ///< gradients that share a group with no other
};

ModuleUnits module_units(const Workload& workload, Nesting nesting);

/// The groups that calls make of these groups of whole modules: some are joined, others cut, where modules
/// of several groups cannot be told apart.
Groups formed_by_modules(const Workload& workload, Groups groups, Nesting nesting);

/// The modules that own gradients of the part of the model which this workload does not have, in forward
/// order: those of its other process groups.
std::vector<std::string> modules_of_others(const Workload& part, const Workload& workload);

/// The groups nearest to the plan's that do not cut a module; of the two sides of a boundary inside a module,
/// the one where the iteration takes less under the report's behaviour.
ModuleGroups module_groups(const Report& report, Nesting nesting = Nesting::allowed);

}  // namespace planner
