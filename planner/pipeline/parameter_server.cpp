// Parameter servers (MG-WFBP, section 4.3): wait-free back-propagation in which a group is pushed to the
// servers and pulled again; each is a message with startup and bytes, one right after the other.

#include <array>

#include "core/limits.hpp"
#include "planner/pipeline/pipeline.hpp"

namespace planner {
namespace {

constexpr std::array<std::string_view, 1> kKeys = {"servers"};

void read(const core::Field& field, PipelineOptions& options) {
  if (const auto servers = field.find("servers")) options.servers = servers->integer(1, core::kMaxWorkers);
}

Program program(std::uint32_t groups, const PipelineOptions& options) {
  return pipeline("wfbp").program(groups, options);
}

Algorithm algorithm(const PipelineOptions& options) {
  return {.name = "parameter_server", .servers = options.servers};
}

}  // namespace

Pipeline parameter_server() {
  return {.name = "parameter_server",
          .summary = "as wfbp, pushing each group to servers and pulling it again",
          .option_keys = kKeys,
          .program = program,
          .read = read,
          .algorithm = algorithm};
}

}  // namespace planner
