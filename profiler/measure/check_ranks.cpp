#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "collectives/transport/launch.hpp"
#include "core/errors.hpp"
#include "profiler/measure/backend.hpp"

namespace measure {

void check_ranks(const CollectiveBackend& backend, const EngineOptions& options, std::uint32_t ranks) {
  if (backend.uses_control) return;
  const auto ends = transport::launch(1, [&](std::uint32_t) {
    const std::string max = std::to_string(backend.max_ranks(options));
    return std::fputs(max.c_str(), stdout) < 0 ? 1 : 0;
  });
  std::string said = ends[0].err;
  while (!said.empty() && said.back() == '\n') said.pop_back();
  if (!ends[0].is_good())
    throw core::EnvironmentError(ends[0].exit_code > 0 && !said.empty() ? said : transport::failures(ends));
  const std::uint64_t max = std::stoull(ends[0].out);
  if (ranks > max)
    throw core::InputError(
        fmt::format("--workers: expected at most {}, one for each GPU of this host, or --share-gpu, got '{}'",
                    max, ranks));
}

}  // namespace measure
