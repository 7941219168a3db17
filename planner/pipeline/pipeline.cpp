#include "planner/pipeline/pipeline.hpp"

#include <nlohmann/json.hpp>

#include "planner/job/registry.hpp"
#include "planner/job/tied.hpp"

namespace planner {

// To add a pipeline: write planner/pipeline/<name>.cpp and list it here.
Pipeline after_backward();
Pipeline wfbp();
Pipeline dear();
Pipeline zero();
Pipeline sharded();
Pipeline priority();
Pipeline parameter_server();

std::span<const Pipeline> pipelines() {
  static const std::vector<Pipeline> all = {after_backward(),  wfbp(), dear(), zero(), sharded(), priority(),
                                            parameter_server()};
  return all;
}

const Pipeline& pipeline(std::string_view name) { return entry(pipelines(), name); }

PipelineOptions read_options(const core::Field& field, const Pipeline& pipeline, PipelineOptions options) {
  if (pipeline.read != nullptr) pipeline.read(field, options);
  return options;
}

PipelineOptions for_model(PipelineOptions options, const Workload& workload) {
  options.keeps_last_group = options.keeps_last_group || (options.keeps_tied && shares_ends(workload));
  return options;
}

void write_options(const PipelineOptions& options, nlohmann::ordered_json& out) {
  const PipelineOptions usual;
  if (options.overlap_gather != usual.overlap_gather) out["overlap_gather"] = options.overlap_gather;
  if (options.all_reduces) out["all_reduce_gradients"] = true;
  if (options.stage != usual.stage) out["stage"] = options.stage;
  if (options.prefetch) out["prefetch"] = *options.prefetch;
  if (options.reshard_after_forward) out["reshard_after_forward"] = *options.reshard_after_forward;
  if (options.kept_groups) out["kept_groups"] = *options.kept_groups;
  if (!options.reshard_after_backward) out["reshard_after_backward"] = false;
  if (options.backward_prefetch) out["backward_prefetch"] = *options.backward_prefetch;
  if (options.scatters_in_flight) out["scatters_in_flight"] = *options.scatters_in_flight;
  if (options.shard_workers) out["shard_workers"] = *options.shard_workers;
  if (options.shard_level) out["shard_level"] = *options.shard_level;
  if (options.pads_tensors) out["pad_tensors"] = true;
  if (options.gathers_early) out["gather_early"] = true;
  if (options.keeps_tied) out["keep_tied"] = true;
  if (options.partition_bytes != usual.partition_bytes) out["partition_bytes"] = options.partition_bytes;
  if (options.credit_bytes != usual.credit_bytes) out["credit_bytes"] = options.credit_bytes;
  if (options.negotiation_us != usual.negotiation_us) out["negotiation_us"] = options.negotiation_us;
  if (options.servers != usual.servers) out["servers"] = options.servers;
}

}  // namespace planner
