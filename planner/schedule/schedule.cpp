#include "planner/schedule/schedule.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/job/registry.hpp"
#include "planner/plan/plan_file.hpp"

namespace planner {
namespace {

using core::Field;

// The base of presets named after the sparse all-reduce that they use.
constexpr std::string_view kSparse = R"({"pipeline": "after_backward", "fusion": "all"})";

// To add a named schedule, add one line.
constexpr auto kPresets = std::to_array<Preset>({
    {"s-sgd", "each tensor by itself, after backward", R"({"pipeline": "after_backward", "fusion": "none"})"},
    {"sync-easgd", "one all-reduce after backward", R"({"pipeline": "after_backward", "fusion": "all"})"},
    {"dense", "another name of sync-easgd", R"({"pipeline": "after_backward", "fusion": "all"})", true},
    {"wfbp", "each tensor as soon as it is ready", R"({"pipeline": "wfbp", "fusion": "none"})"},
    {"mg-wfbp", "MG-WFBP: tensors merged by the paper's greedy",
     R"({"pipeline": "wfbp", "fusion": "mg-wfbp"})"},
    {"ddp", "PyTorch DDP: 25 MiB buckets, the first 1 MiB",
     R"({"pipeline": "wfbp", "fusion": {"kind": "buckets", "cap_bytes": 26214400, "first_cap_bytes": 1048576}})"},
    {"dense-overlap", "another name of ddp",
     R"({"pipeline": "wfbp", "fusion": {"kind": "buckets", "cap_bytes": 26214400, "first_cap_bytes": 1048576}})",
     true},
    {"horovod", "Horovod: 128 MiB fusion buffer, 1 ms cycle",
     R"({"pipeline": "wfbp", "fusion": {"kind": "threshold", "cap_bytes": 134217728, "cycle_us": 1000}})"},
    {"dear", "DeAR: Bayesian search for the best module cap",
     R"({"pipeline": "dear", "fusion": "bayesian"})"},
    {"dear-nl", "DeAR, 4 nearby layers together",
     R"({"pipeline": "dear", "fusion": {"kind": "layers", "count": 4}})"},
    {"dear-fb", "DeAR, modules packed to 5 MiB",
     R"({"pipeline": "dear", "fusion": {"kind": "modules", "cap_bytes": 5242880}})"},
    {"dear-no-fusion", "DeAR, each tensor by itself", R"({"pipeline": "dear", "fusion": "none"})"},
    {"zero", "ZeRO-1/2, each tensor by itself, parameters gathered under forward", R"({"pipeline": "zero"})"},
    {"fsdp", "ZeRO-3 in its plainest form, each layer a group (fsdp2 is what PyTorch users have)",
     R"({"pipeline": "sharded", "fusion": {"kind": "layers", "count": 1}})", false, false, true},
    {"fsdp2", "PyTorch FSDP2: each block's parameters gathered before forward and backward, one block ahead",
     R"({"pipeline": "sharded", "fusion": "blocks", "scatters_in_flight": 1, "pad_tensors": true, "gather_early": true, "keep_tied": true})",
     false, false, true},
    {"hsdp", "PyTorch FSDP2 on two dimensions: as fsdp2 inside a node, gradients summed over the nodes",
     R"({"pipeline": "sharded", "fusion": "blocks", "scatters_in_flight": 1, "shard_level": "node", "pad_tensors": true, "gather_early": true, "keep_tied": true})",
     false, false, true},
    {"zero1", "DeepSpeed ZeRO-1: all-reduces of up to 1 GB, parameters gathered after the update",
     R"({"pipeline": "zero", "overlap_gather": false, "all_reduce_gradients": true, "fusion": {"kind": "threshold", "cap_bytes": 1000000000}})",
     false, false, true},
    {"zero2", "DeepSpeed ZeRO-2: as zero1, without whole gradients",
     R"({"pipeline": "zero", "overlap_gather": false, "all_reduce_gradients": true, "stage": 2, "fusion": {"kind": "threshold", "cap_bytes": 1000000000}})",
     false, false, true},
    {"zero3", "DeepSpeed ZeRO-3: each layer's parameters gathered before forward and again before backward",
     R"({"pipeline": "sharded", "reshard_after_forward": true, "fusion": {"kind": "layers", "count": 1}})",
     false, false, true},
    {"megatron-do",
     "Megatron-LM's distributed optimizer: buckets of 40 million float32, gathered under forward",
     R"({"pipeline": "zero", "fusion": {"kind": "buckets", "cap_bytes": 160000000}})", false, false, true},
    {"bytescheduler", "ByteScheduler: partitions of 4 MB, the layer nearest the input first",
     R"({"pipeline": "priority", "fusion": "partitions"})"},
    {"parameter-server", "each tensor pushed to one parameter server and pulled again",
     R"({"pipeline": "parameter_server", "fusion": "none"})", false, false, true},
    {"grace", "GRACE: each tensor compressed by itself", R"({"pipeline": "wfbp", "fusion": "none"})", false,
     true},
    {"hipress", "HiPress: each tensor by itself, compressed where that is sooner",
     R"({"pipeline": "wfbp", "fusion": "none", "selective": true})", false, true},
    {"cupcake", "Cupcake: the optimal grouping for a compressor",
     R"({"pipeline": "wfbp", "fusion": "optimal"})", false, true},
    {"topk-a", "TopkA: all-gather of each worker's top-k", kSparse, false, true, false, true},
    {"topk-dsa", "TopkDSA: reduce-scatter of the top-k, then all-gather of what they fill", kSparse, false,
     true, false, true},
    {"gtopk", "gTopk: top-k of the sums up a tree and down again", kSparse, false, true, false, true},
    {"gaussian-k", "Gaussian-k: topk-a by an estimated threshold", kSparse, false, true, false, true},
    {"ok-topk", "Ok-Topk: top-k of the sum of each worker's top-k, under 6k words", kSparse, false, true,
     false, true},
    {"hitopk", "HiTopKComm: dense in a node, top-k between nodes", kSparse, false, true, false, true},
    {"fusewise", "the optimal grouping for wfbp", R"({"pipeline": "wfbp", "fusion": "optimal"})"},
    {"fusewise-dear", "the optimal grouping for dear", R"({"pipeline": "dear", "fusion": "optimal"})"},
});

/// The values of a schedule object or its preset for the four choices.
struct Choices {
  std::optional<Field> pipeline;
  std::optional<Field> fusion;
  std::optional<Field> compression;
  std::optional<Field> collectives;
  std::optional<Field> selective;
  bool needs_compressor = false;
  std::optional<Field> base;       ///< the preset's JSON
  const Preset* sparse = nullptr;  ///< set if the preset has its compressor's name
  std::optional<Field> density;
};

/// Merges `field`'s own keys over those of the preset that it names.
Choices choices_of(const Field& field) {
  Choices choices;
  if (const auto name = field.find("name")) {
    const std::string preset = name->one_of(names(presets()));
    const Field base = Field::parse(entry(presets(), preset).json, preset);
    choices = choices_of(base);
    choices.base = base;
    choices.needs_compressor = entry(presets(), preset).needs_compressor;
    if (entry(presets(), preset).is_sparse) choices.sparse = &entry(presets(), preset);
  }
  if (const auto own = field.find("pipeline")) choices.pipeline = own;
  if (const auto own = field.find("fusion")) choices.fusion = own;
  if (const auto own = field.find("compression")) choices.compression = own;
  if (const auto own = field.find("collectives")) choices.collectives = own;
  if (const auto own = field.find("selective")) choices.selective = own;
  if (choices.sparse != nullptr) choices.density = field.find("density");
  return choices;
}

void allow_schedule_keys(const Field& field, const Choices& choices, const Pipeline& pipeline) {
  std::vector<std::string_view> keys = {"name",        "label",       "pipeline", "fusion",
                                        "compression", "collectives", "selective"};
  if (choices.sparse != nullptr) keys.emplace_back("density");
  keys.insert(keys.end(), pipeline.option_keys.begin(), pipeline.option_keys.end());
  field.allow_only(keys);
}

bool is_inline_plan(const Field& fusion) {
  const std::optional<Field> file = fusion.is_object() ? fusion.find("file") : std::nullopt;
  return file && file->is_object();
}

bool is_option(const Pipeline& pipeline, std::string_view key) {
  return std::ranges::find(pipeline.option_keys, key) != pipeline.option_keys.end();
}

/// A description in the object's own words, which distinguishes the schedules of a scenario: `wfbp buckets
/// 8388608 ring`.
std::string describe(const Field& field, const Pipeline& pipeline) {
  std::string out;
  const auto add = [&](std::string_view key) {
    const std::optional<Field> value = field.find(key);
    if (!value || (key == "compression" && value->words() == "none")) return;
    if (!out.empty()) out += ' ';
    if (key == "overlap_gather")
      out += value->boolean() ? "overlap" : "no-overlap";
    else if (key == "selective")
      out += value->boolean() ? "selective" : "not-selective";
    else if (is_option(pipeline, key))
      out += fmt::format("{} {}", key, value->words());
    else
      out += key == "fusion" && is_inline_plan(*value) ? "plan" : value->words();
  };
  for (const std::string_view key : {"name", "density", "pipeline", "fusion", "compression", "selective"})
    add(key);
  for (const std::string_view key : pipeline.option_keys) add(key);
  add("collectives");
  return out;
}

/// Reduce-scatter sums in transit, so its contributions must be summable.
void check_carrier(const Schedule& schedule, const Compressor& compressor, const Field& field) {
  if (compressor.is_none()) return;
  if (!schedule.pipeline->takes_compression)
    field.expected(fmt::format("no compressor, as pipeline {} takes none", schedule.pipeline->name));
  if (schedule.options.all_reduces) field.expected("no compressor with all_reduce_gradients");
  const bool is_one_sum = !compressor.between_nodes && !compressor.low_rank;
  if (compressor.collective == core::CollectiveKind::all_reduce && is_one_sum) return;
  const Program program = schedule.pipeline->program(1, schedule.options);
  if (program.has_all_reduces_alone()) return;
  if (compressor.between_nodes)
    field.expected(
        fmt::format("a compressor for all workers, as pipeline {} needs", schedule.pipeline->name));
  if (compressor.low_rank)
    field.expected(fmt::format("a compressor of one message for a group, as pipeline {} needs",
                               schedule.pipeline->name));
  field.expected(fmt::format("a compressor whose collective is all_reduce, as pipeline {} needs",
                             schedule.pipeline->name));
}

/// Reads the density of a preset that has its compressor's name.
void read_density(const Choices& choices, Schedule& schedule) {
  if (choices.compression) choices.density->expected("no density beside compression, which has one");
  schedule.compressor = sparse_compressor(choices.sparse->name, choices.density->number(0, 1));
  check_carrier(schedule, schedule.compressor, *choices.density);
}

void read_compression(const Field& field, const Choices& choices, Schedule& schedule) {
  if (choices.needs_compressor && !choices.compression && !choices.density)
    field.at(choices.sparse != nullptr ? "density" : "compression");
  if (choices.density) read_density(choices, schedule);
  if (choices.compression) {
    schedule.compressor = read_compressor(*choices.compression);
    check_carrier(schedule, schedule.compressor, *choices.compression);
    if (choices.needs_compressor && schedule.compressor.is_none())
      choices.compression->expected("a compressor, as this schedule is about one");
  }
  for (const TransferChoice& choice : schedule.fusion.choices)
    if (choice.compressor) check_carrier(schedule, *choice.compressor, *choices.fusion);
  if (choices.selective) schedule.selective = choices.selective->boolean();
}

/// Partitions require one particular pipeline, and some pipelines accept only their own groups.
void check_fusion(const Schedule& schedule, const Field& field) {
  const Pipeline& pipeline = *schedule.pipeline;
  const auto takes = [&](std::string_view kind) {
    return pipeline.takes_fusion != nullptr ? pipeline.takes_fusion(kind) : kind != kPartitions;
  };
  if (takes(schedule.fusion.kind)) return;
  std::vector<std::string_view> taken = names(fusion_kinds());
  std::erase_if(taken, [&](std::string_view kind) { return !takes(kind); });
  field.expected(fmt::format("a fusion that pipeline {} takes: {}", pipeline.name, fmt::join(taken, ", ")));
}

void read_schedule_fusion(const Field& field, const Choices& choices, Schedule& schedule) {
  const Field usual = Field::parse(fmt::format(R"("{}")", schedule.pipeline->default_fusion), "fusion");
  schedule.fusion = read_fusion(choices.fusion ? *choices.fusion : usual);
  const std::optional<Field> own = field.find("fusion");
  check_fusion(schedule, own ? *own : field);
}

/// Some pipelines prescribe their own algorithm.
void read_schedule_collectives(const Choices& choices, Schedule& schedule) {
  const Pipeline& pipeline = *schedule.pipeline;
  if (pipeline.algorithm != nullptr) {
    schedule.all_reduce = pipeline.algorithm(schedule.options);
    if (choices.collectives)
      choices.collectives->expected(fmt::format("no collectives, as pipeline {} has its own", pipeline.name));
  } else if (choices.collectives) {
    schedule.all_reduce = read_collectives(*choices.collectives);
  }
}

/// A plan holds for the options that it was made with; absent if the fusion is no plan of this pipeline.
std::optional<PipelineOptions> options_of_plan(const Choices& choices, const Pipeline& pipeline) {
  if (!choices.fusion || !choices.fusion->is_object()) return {};
  const std::optional<Field> kind = choices.fusion->find("kind");
  if (!kind || !kind->is_text() || kind->text() != "plan") return {};
  const PlanFile plan = read_plan_file(choices.fusion->at("file").follow());
  if (plan.pipeline != pipeline.name) return {};
  return plan.options;
}

Schedule from_object(const Field& field) {
  const Choices choices = choices_of(field);
  Schedule schedule;
  schedule.pipeline = &pipeline(choices.pipeline ? choices.pipeline->one_of(names(pipelines())) : "wfbp");
  allow_schedule_keys(field, choices, *schedule.pipeline);
  if (choices.base && schedule.pipeline->name == choices.base->at("pipeline").text())
    schedule.options = read_options(*choices.base, *schedule.pipeline);
  if (const auto planned = options_of_plan(choices, *schedule.pipeline)) schedule.options = *planned;
  schedule.options = read_options(field, *schedule.pipeline, schedule.options);
  read_schedule_fusion(field, choices, schedule);
  read_schedule_collectives(choices, schedule);
  read_compression(field, choices, schedule);
  schedule.name = describe(field, *schedule.pipeline);
  if (schedule.name.empty()) schedule.name = "wfbp";
  if (const auto label = field.find("label")) schedule.name = label->name();
  return schedule;
}

}  // namespace

bool goes_by_layer(const Schedule& schedule) {
  return schedule.pipeline->program(1, schedule.options).by_layer.has_value();
}

std::span<const Preset> presets() { return kPresets; }

Schedule read_schedule(const Field& field) {
  if (field.is_object()) return from_object(field);
  const std::string name = field.one_of(names(presets()));
  if (entry(presets(), name).is_sparse)
    field.expected(fmt::format(R"(a density with it: {{"name": "{}", "density": ...}})", name));
  if (entry(presets(), name).needs_compressor)
    field.expected(fmt::format(R"(a compressor with it: {{"name": "{}", "compression": ...}})", name));
  return preset_schedule(name);
}

Schedule preset_schedule(std::string_view name) {
  Schedule schedule = from_object(Field::parse(entry(presets(), name).json, std::string(name)));
  schedule.name = name;
  return schedule;
}

std::vector<Schedule> lossless_schedules() {
  std::vector<Schedule> all;
  for (const Preset& preset : presets())
    if (!preset.is_alias && !preset.needs_compressor && !preset.is_other_setup)
      all.push_back(preset_schedule(preset.name));
  return all;
}

}  // namespace planner
