// Translates a plan for a training framework: text to paste into the job, the groups that the framework then
// forms, and the loss if it cannot reproduce the plan.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "planner/emit/behaviour.hpp"
#include "planner/emit/emitters/caps.hpp"
#include "planner/job/data_types.hpp"
#include "planner/job/grouping.hpp"
#include "planner/job/workload.hpp"
#include "planner/plan/plan_file.hpp"

namespace planner {

/// Where the workers of a plan lie in a job with process groups: in the order of workers, those of a tensor
/// group are neighbours, then come the expert group, the data group, and outermost the stages.
struct Division {
  std::int64_t pipeline = 1;
  std::int64_t data = 1;    ///< workers that sum the gradients that are not of experts
  std::int64_t expert = 1;  ///< workers of a data group among which the experts are divided
  std::int64_t tensor = 1;
  bool of_experts = false;  ///< whether the plan is that of the experts
  const Workload& part;     ///< the gradients of all process groups in this part of the model
  /// Where the plan is that of all process groups of the part, their gradients one group after another: the
  /// number of those that are not of experts. 0 if it is the plan of one process group.
  std::uint32_t dense_gradients = 0;
  std::int64_t stage_elements = 0;  ///< what a worker of the stage holds, in all of its parts
};

struct EmitRequest {
  const PlanFile& plan;
  const Groups& groups;      ///< the plan's groups, as ranges of the workload's gradients
  const Workload& workload;  ///< the workload that the plan was made for
  /// Predicted iteration time of these groups in a framework that behaves so; everything else stays as
  /// planned.
  std::function<double(const Behaviour&, const Groups&)> iteration_us;
  std::int64_t accumulation_steps = 1;
  DataTypes types = {};
  const core::Network* network = nullptr;  ///< where given, targets that estimate collectives get its costs
  bool recomputes = false;                 ///< whether layers are checkpointed
  const Division* division = nullptr;      ///< null: all workers of the job sum all gradients

  /// The element types in which gradients are reduced and parameters gathered.
  core::Dtype reduce_type() const { return types.reduce.value_or(workload.profile->dtype); }
  core::Dtype gather_type() const { return types.gather.value_or(workload.profile->dtype); }
};

struct Emission {
  std::string text;  ///< Python or a command line with comments, ready to paste; ends with a newline
  /// Where the plan is one of several of a job (EmitRequest::division), `text` is what this plan alone needs.
  /// Before it belong lines that other plans of the job may need, too, and after all plans closing comments;
  /// each of them is written once.
  std::vector<std::string> setup = {};
  std::vector<std::string> closing = {};
  /// The same as data. Every target has `target`, `groups_reproduced`, `iteration_us` (as planned), `makes`
  /// (the groups that the framework forms, priced as it behaves), `differs` (plan groups, from 1, that it
  /// forms otherwise), `notes`, `priced_as`, `verified` and `does_not`; targets with a single number also
  /// have `best_single_cap`. `json` holds only its groups, and `nccl-tuner` its rules.
  nlohmann::ordered_json json;
};

/// The groups that a framework can form.
enum class Forms {
  any,            ///< any neighbours in backward order
  any_alike,      ///< the same, all with one transfer
  modules,        ///< whole modules
  modules_apart,  ///< whole modules, none of which lies below a module of another group
  one_number,     ///< those of Target::rule
};

/// A framework: its behaviour, and what was verified of it.
struct Target {
  std::string_view name;
  std::string_view framework;
  /// Returns its behaviour under this plan of the workload: the nearest to the plan's pipeline that the
  /// framework can do.
  Behaviour (*behaves)(const PlanFile& plan, const Workload& workload);
  std::vector<std::string_view> verified = {};   ///< what was run with which release, and compared
  std::vector<std::string_view> read_only = {};  ///< what its code or its documents say, and was not run
  std::vector<std::string_view> does_not = {};   ///< what a user might expect of it, and it does not do
  Forms forms = Forms::any;
  /// Returns the groups with the ticks at which it issues them; null if it issues each as soon as it can.
  Groups (*issued)(const Workload& workload, const Groups& groups) = nullptr;
  /// Forms::one_number: the rule by which a number makes groups.
  CapRule (*rule)(const Workload& workload, const Behaviour& behaviour, const DataTypes& types) = nullptr;
  /// Whether it has this compressor; null if it has none.
  bool (*has)(const Compressor& compressor) = nullptr;
};

/// A framework that plans can be translated for.
struct Emitter {
  std::string_view name;
  std::string_view summary;
  Emission (*emit)(const EmitRequest& request);
  const Target& (*target)() = nullptr;  ///< null if it writes for no framework in particular
};

/// Every emitter, in the order in which help lists them.
std::span<const Emitter> emitters();

/// `target` must be the name of one of emitters().
Emission emit(std::string_view target, const EmitRequest& request);

}  // namespace planner
