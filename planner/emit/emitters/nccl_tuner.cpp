// NCCL's example tuner plugin (plugins/tuner/example in NCCL's repository), which reads rules from the CSV
// file that NCCL_TUNER_CONFIG_FILE names: the first rule whose ranges hold decides. Rules go by the bytes of
// a collective, not by its place in the iteration, so two groups of one size get the same algorithm. The
// plugin asks for one channel unless a rule has another number than -1; NCCL takes 0 for its own number
// (src/enqueue.cc, getAlgoInfo).

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "planner/emit/emitters/report.hpp"

namespace planner {
namespace {

using nlohmann::ordered_json;

/// NCCL's name of an all-reduce algorithm; none for those that NCCL does not have.
std::optional<std::string_view> nccl_name(const Algorithm& algorithm) {
  if (algorithm.name == "ring") return "ring";
  if (algorithm.name == "binary_tree" || algorithm.name == "double_binary_tree") return "tree";
  return std::nullopt;
}

struct Choice {
  std::int64_t bytes = 0;
  std::string algorithm;  ///< NCCL's name
};

struct Rule {
  std::int64_t min_bytes = 0;
  std::int64_t max_bytes = 0;
  std::string algorithm;
};

/// The sizes in which the plan's groups are reduced, with NCCL's algorithm, in order of size. Of groups of
/// one size the first counts; `differs` collects the others, and groups whose algorithm NCCL lacks.
std::vector<Choice> choices(const EmitRequest& request, std::vector<std::string>& differs) {
  const PlanFile& plan = request.plan;
  std::map<std::int64_t, std::string> by_size;
  for (std::size_t i = 0; i < plan.groups.size(); ++i) {
    const PlanGroup& group = plan.groups[i];
    const Algorithm& algorithm = group.transfer.all_reduce.value_or(plan.all_reduce);
    const std::optional<std::string_view> name = nccl_name(algorithm);
    if (!name) {
      differs.push_back(
          fmt::format("Group {}: NCCL has no {}; it chooses by itself.", i + 1, algorithm.name));
      continue;
    }
    const std::int64_t bytes = group.bytes / core::bytes_per_element(request.workload.profile->dtype) *
                               core::bytes_per_element(request.reduce_type());
    const auto [found, is_new] = by_size.try_emplace(bytes, std::string(*name));
    if (!is_new && found->second != *name)
      differs.push_back(fmt::format("Group {}: another group of {} bytes goes by {}, and so does this one.",
                                    i + 1, bytes, found->second));
  }
  std::vector<Choice> out;
  for (const auto& [bytes, name] : by_size) out.push_back({bytes, name});
  return out;
}

/// One rule for each run of sizes with the same algorithm; runs meet halfway between their sizes.
std::vector<Rule> rules(const std::vector<Choice>& choices) {
  std::vector<Rule> out;
  for (const Choice& choice : choices) {
    if (!out.empty() && out.back().algorithm == choice.algorithm) {
      out.back().max_bytes = choice.bytes;
      continue;
    }
    std::int64_t from = 0;
    if (!out.empty()) {
      from = out.back().max_bytes + (choice.bytes - out.back().max_bytes) / 2 + 1;
      out.back().max_bytes = from - 1;
      from = std::min(from, choice.bytes);
    }
    out.push_back({.min_bytes = from, .max_bytes = choice.bytes, .algorithm = choice.algorithm});
  }
  constexpr std::int64_t kAnySize = std::int64_t{1} << 50;
  if (!out.empty()) out.back().max_bytes = std::max(out.back().max_bytes, kAnySize);
  return out;
}

constexpr std::string_view kPriced = "as planned; what NCCL makes of these rules is not.";
constexpr std::array<std::string_view, 2> kReadOnly = {
    "in the plugin's plugin.c, at 35512d6f, the first rule that fits decides.",
    "NCCL's enqueue.cc replaces 0 channels by its own number; the plugin turns -1 into one channel."};
constexpr std::array<std::string_view, 4> kDoesNot = {
    "leave other collectives alone: the plugin gives those that fit no rule one channel.",
    "apply to communicators of another number of ranks, or where NCCL rules the algorithm out.",
    "tell collectives of one size from each other, whatever they carry.",
    "say anything of protocols: the plan has none."};

/// Lines that the plugin takes for comments, as it cuts lines of 256 characters.
std::string closing() {
  std::string out = fmt::format("# Priced: {}\n", kPriced);
  for (const std::string_view text : kReadOnly) out += fmt::format("# Read, not run: {}\n", text);
  for (const std::string_view text : kDoesNot) out += fmt::format("# Does not {}\n", text);
  return out;
}

Emission emit_nccl_tuner(const EmitRequest& request) {
  const PlanFile& plan = request.plan;
  std::vector<std::string> differs;
  const std::vector<Rule> all = rules(choices(request, differs));
  std::string text = fmt::format(
      "# NCCL tuner rules for model {}: {} groups on {} workers (pipeline {}, {:.1f} us per iteration)\n"
      "# NCCL_TUNER_PLUGIN=libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE=this file\n"
      "# The plugin wants a protocol with each algorithm: simple is that of large messages.\n"
      "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff\n",
      in_quotes(plan.model), plan.groups.size(), plan.workers, plan.pipeline, plan.iteration_us);
  if (plan.pipeline == "dear" || plan.pipeline == "zero" || plan.pipeline == "sharded")
    differs.push_back(
        fmt::format("Pipeline {} sends reduce-scatters and all-gathers, for which these rules say nothing.",
                    plan.pipeline));
  if (!plan.compressor.is_none())
    differs.push_back("Sizes are those of the gradients: what a compressor sends is smaller.");
  ordered_json rows = ordered_json::array();
  for (const Rule& rule : all) {
    text += fmt::format("allreduce,{},{},{},simple,0,-1,{},-1,-1\n", rule.min_bytes, rule.max_bytes,
                        rule.algorithm, plan.workers);
    rows.push_back(
        {{"min_bytes", rule.min_bytes}, {"max_bytes", rule.max_bytes}, {"algorithm", rule.algorithm}});
  }
  for (const std::string& note : differs) text += "# " + note + '\n';
  text += closing();
  const ordered_json json = {{"target", "nccl-tuner"}, {"rules", rows},          {"notes", differs},
                             {"priced_as", kPriced},   {"read_only", kReadOnly}, {"does_not", kDoesNot}};
  return {.text = text, .json = json};
}

}  // namespace

Emitter nccl_tuner_emitter() {
  return {"nccl-tuner", "rules for NCCL's example tuner plugin: the algorithm of each group",
          emit_nccl_tuner};
}

}  // namespace planner
