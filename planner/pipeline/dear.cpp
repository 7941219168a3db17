// DeAR: splits each all-reduce into two phases. Reduce-scatters overlap this iteration's backward pass,
// all-gathers the next forward pass, issued all at once or, as in the authors' code, each when forward has
// reached the previous one (`prefetch` 1).

#include <array>

#include "planner/pipeline/pipeline.hpp"

namespace planner {
namespace {

using core::CollectiveKind;

constexpr std::array<std::string_view, 1> kKeys = {"prefetch"};

void read(const core::Field& field, PipelineOptions& options) {
  if (const auto ahead = field.find("prefetch"))
    options.prefetch = static_cast<std::uint32_t>(ahead->integer(1, kMaxPrefetch));
}

Program program(std::uint32_t groups, const PipelineOptions& options) {
  Program program;
  program.update = Update::by_group;
  program.prefetch = options.prefetch;
  for (std::uint32_t group = 0; group < groups; ++group)
    program.ops.push_back({CollectiveKind::reduce_scatter, group, Issue::gradients, Delivers::nothing});
  for (std::uint32_t group = groups; group-- > 0;)
    program.ops.push_back({CollectiveKind::all_gather, group, Issue::drained, Delivers::own_layers});
  return program;
}

}  // namespace

Pipeline dear() {
  return {.name = "dear",
          .summary = "reduce-scatter under backward, all-gather under the next forward",
          .option_keys = kKeys,
          .program = program,
          .read = read};
}

}  // namespace planner
