#include <algorithm>
#include <array>
#include <cstdlib>

#include "planner/sweep/ranks.hpp"

namespace sweep {

int launched_processes() {
  // Open MPI, MPICH and Intel MPI, MVAPICH
  constexpr std::array<const char*, 3> kSizes = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"};
  for (const char* name : kSizes)
    if (const char* size = std::getenv(name)) return std::max(1, std::atoi(size));
  return std::getenv("PMIX_RANK") != nullptr ? 1 : 0;  // PMIx does not give the number
}

}  // namespace sweep
