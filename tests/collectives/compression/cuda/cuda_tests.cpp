// Every kernel on the GPU beside the CPU's functions.

#include <doctest/doctest.h>

#include <span>

#include "tests/collectives/compression/cuda/compare.hpp"
#include "tests/collectives/compression/cuda/host_lanes.hpp"
#include "tests/support/cuda_device.hpp"
#include "tests/support/needs.hpp"

namespace compression::cuda {
namespace {

using support::Random;

TEST_CASE("gpu: all lengths about a warp, a round and a tile, of all kinds of elements" *
          support::needs(support::no_cuda_device)) {
  Device device;
  std::uint32_t seed = 0;
  for (const std::size_t elements :
       {0U, 1U, 2U, 7U, 31U, 32U, 33U, 1023U, 1025U, 4095U, 4096U, 4097U, 50'001U})
    for (std::uint32_t kind = 0; kind < support::kKinds; ++kind, ++seed)
      support::compare_all(device, kind, elements, seed, seed % 4, support::some_ks(elements));
}

TEST_CASE("gpu: few elements of each kind, for tools that watch every access" *
          support::needs(support::no_cuda_device)) {
  Device device;
  for (std::uint32_t kind = 0; kind < support::kKinds; kind += 3)
    support::compare_all(device, kind, 9001, kind, kind % 2, std::vector<std::size_t>{90, 3000});
}

TEST_CASE("gpu: a million elements and three, of all kinds" * support::needs(support::no_cuda_device)) {
  Device device;
  for (std::uint32_t kind = 0; kind < support::kKinds; ++kind)
    support::compare_all(device, kind, 1'000'003, 1000 + kind, kind % 2, support::some_ks(1'000'003));
}

TEST_CASE("gpu: the same on every call, however blocks come" * support::needs(support::no_cuda_device)) {
  Random random(1);
  const std::vector<float> x = support::vector_of(random, 1, 3'000'001);
  Device device;
  const Buffer buffer(device, x);
  const DeviceFloats floats = {.data = buffer.floats(), .count = x.size()};
  const DeviceKept kept = mstopk(device, floats, 3000, 1);
  const SparseVector first = download(device, kept);
  const Bytes signs = download(device, onebit(device, floats));
  for (int i = 0; i < 100; ++i) {
    const DeviceKept again = mstopk(device, floats, 3000, 1);
    REQUIRE(again.mean == kept.mean);
    REQUIRE(support::same(download(device, again), first));
    REQUIRE(download(device, onebit(device, floats)) == signs);
  }
}

TEST_CASE("gpu: to the last bit what the same kernels give on the host" *
          support::needs(support::no_cuda_device)) {
  Random random(2);
  const std::vector<float> x = support::vector_of(random, 1, 100'003);
  Device device;
  Device host(support::host_engine(1));
  const Buffer buffer(device, x);
  const Buffer on_host(host, x);
  const DeviceFloats floats = {.data = buffer.floats(), .count = x.size()};
  const DeviceFloats host_floats = {.data = on_host.floats(), .count = x.size()};
  CHECK(mstopk(device, floats, 1000, 1).mean == mstopk(host, host_floats, 1000, 1).mean);
  CHECK(download(device, efsignsgd(device, floats)) == download(host, efsignsgd(host, host_floats)));
  CHECK(download(device, onebit(device, floats)) == download(host, onebit(host, host_floats)));
}

}  // namespace
}  // namespace compression::cuda
