// A fake GPU: its memory is the host's, its own kernels run one thread for each row, and its libraries are
// functions that record their arguments and, if wanted, compute the result with the CPU's kernels from
// nothing but the descriptors and pointers that they receive. So the numbers are right only if these are.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "profiler/layers/cuda/kernels_on.hpp"
#include "profiler/layers/cuda/libraries.hpp"
#include "profiler/layers/cuda/runtime.hpp"

namespace support {

/// An object that a library has created and not yet destroyed.
struct FakeObject {
  std::string kind;
  std::array<std::int64_t, 8> sizes{};  ///< as they were set, in the call's order
  std::array<double, 4> numbers{};
  std::map<int, std::vector<unsigned char>> attributes;  ///< of cuBLASLt's objects
};

struct FakeCall {
  std::string function;
  std::string text;  ///< what its descriptors say, "8x3x32x32"
};

/// The recorded events, in order, and the remaining objects. Only one at a time, because the libraries'
/// functions have no argument that identifies it.
class FakeGpu {
 public:
  enum class Mode { records, computes };

  explicit FakeGpu(Mode mode);
  FakeGpu(const FakeGpu&) = delete;
  FakeGpu& operator=(const FakeGpu&) = delete;
  ~FakeGpu();

  bool computes() const { return mode_ == Mode::computes; }
  const profiler::cuda::Libraries& libraries() const { return libraries_; }
  std::unique_ptr<profiler::cuda::Runtime> runtime();
  std::unique_ptr<profiler::cuda::Kernels> kernels();

  std::vector<FakeCall> calls;
  std::string failing;             ///< a library function that fails
  std::size_t room = 1ULL << 50U;  ///< bytes of memory
  std::size_t used = 0;
  std::size_t max_used = 0;
  std::map<void*, std::size_t> allocations;
  std::set<void*> shared;
  std::set<void*> events;
  std::map<FakeObject*, std::unique_ptr<FakeObject>> objects;
  std::set<int> algorithms;  ///< that convolutions ran with
  int gates = 0;             ///< closed so far
  int opened = 0;            ///< the last that the host has opened when an event was recorded

  bool is_clean() const { return allocations.empty() && shared.empty() && events.empty() && objects.empty(); }
  FakeObject* make(const std::string& kind);
  bool destroy(void* object, const std::string& kind);

 private:
  Mode mode_;
  profiler::cuda::Libraries libraries_;
};

}  // namespace support
