// The process groups of a job as PyTorch's device meshes, and the experts that are wrapped on a mesh of their
// own.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/emit/emit.hpp"

namespace planner {

/// A mesh over all workers of the job, and the dimensions of it that one plan's workers span.
struct Mesh {
  std::string variable;
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  std::vector<std::string> spanned;  ///< names of dimensions; empty: the mesh has no others

  /// The line that makes it.
  std::string line() const;
  /// The mesh for fully_shard(), such as `expert_mesh["expert_dp"]`.
  std::string argument() const;
};

/// The mesh of a job in which all workers sum all gradients, where they shard in groups of neighbours.
Mesh hybrid_mesh(std::int64_t workers, std::int64_t shard_workers);

/// The mesh of the workers that sum the gradients of experts, or all others, where they shard in groups of
/// `shard_workers` neighbours.
Mesh group_mesh(const Division& division, bool of_experts, std::int64_t shard_workers);

/// How the experts of a part of the model are wrapped, seen from one of its plans.
struct Experts {
  bool are_planned_before = false;  ///< the plan is for all others, and that of the experts precedes it
  bool are_planned_alone = false;   ///< the plan is that of the experts, and another one follows it
  /// Modules of experts that no other worker has, which only a mesh of one worker keeps out of the others.
  std::vector<std::string> of_one_worker = {};
};

/// Throws InputError if a module has tensors of experts and others, or others are below a module of experts.
Experts experts_of(const EmitRequest& request);

}  // namespace planner
