#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "models/errors.hpp"
#include "profiler/measure/backend.hpp"
#include "transport/launch.hpp"

namespace measure {

void check_ranks(const CollectiveBackend& backend, const EngineWishes& wishes, std::uint32_t ranks) {
  if (backend.uses_control) return;
  const auto ends = transport::launch(1, [&](std::uint32_t) {
    const std::string most = std::to_string(backend.most_ranks(wishes));
    return std::fputs(most.c_str(), stdout) < 0 ? 1 : 0;
  });
  std::string said = ends[0].err;
  while (!said.empty() && said.back() == '\n') said.pop_back();
  if (!ends[0].is_good())
    throw models::WorldError(ends[0].exit_code > 0 && !said.empty() ? said : transport::failures(ends));
  const std::uint64_t most = std::stoull(ends[0].out);
  if (ranks > most)
    throw models::InputError(
        fmt::format("--workers: expected at most {}, one for each GPU of this host, or --share-gpu, got '{}'",
                    most, ranks));
}

}  // namespace measure
