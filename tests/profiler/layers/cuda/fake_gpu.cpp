#include "tests/profiler/layers/cuda/fake_gpu.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

#include <fmt/format.h>

#include "tests/profiler/layers/cuda/alone.hpp"
#include "tests/profiler/layers/cuda/fake_libraries.hpp"

namespace support {
namespace {

using profiler::OutOfMemory;

class FakeRuntime : public profiler::cuda::Runtime {
 public:
  explicit FakeRuntime(FakeGpu& gpu) : gpu_(gpu) {}

  std::string name() const override { return "fake"; }
  std::string versions() const override { return "driver 0.1, runtime 0.2"; }
  std::string pci_bus() const override { return "0000:00:00.0"; }
  void* stream() override { return this; }

  void* allocate(std::size_t bytes) override {
    if (gpu_.used + bytes > gpu_.room) throw OutOfMemory("cudaMalloc: out of memory");
    void* const out = gpu_.computes() ? ::operator new(bytes) : next_;
    next_ += (bytes + 255) / 256 * 256;
    constexpr std::size_t kMaxPoison = 1 << 20;  // of a workspace no more is ever touched
    if (gpu_.computes())
      std::memset(out, 0xff, std::min(bytes, kMaxPoison));  // NaN: nothing may be taken to be 0
    gpu_.used += bytes;
    gpu_.max_used = std::max(gpu_.max_used, gpu_.used);
    gpu_.allocations[out] = bytes;
    return out;
  }
  void release(void* memory) noexcept override {
    const auto found = gpu_.allocations.find(memory);
    if (found == gpu_.allocations.end()) std::terminate();
    gpu_.used -= found->second;
    gpu_.allocations.erase(found);
    if (gpu_.computes()) ::operator delete(memory);
  }
  std::size_t free_bytes() const override { return gpu_.room - gpu_.used; }
  void zero(void* memory, std::size_t bytes) override {
    if (gpu_.computes()) std::memset(memory, 0, bytes);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (gpu_.computes()) std::memcpy(to, from, bytes);
  }
  void upload(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void* allocate_shared(std::size_t bytes) override {
    void* const out = ::operator new(bytes);
    flags_ = static_cast<int*>(out);
    return *gpu_.shared.insert(out).first;
  }
  void release_shared(void* memory) noexcept override {
    gpu_.shared.erase(memory);
    ::operator delete(memory);
  }

  void* create_event() override { return *gpu_.events.insert(::operator new(1)).first; }
  void destroy_event(void* event) noexcept override {
    gpu_.events.erase(event);
    ::operator delete(event);
  }
  /// Events are 3 us apart for each of them recorded in between.
  void record(void* event) override {
    gpu_.opened = flags_ != nullptr ? flags_[0] : 0;
    gpu_.calls.push_back({"record", ""});
    recorded_[event] = ++records_;
  }
  double elapsed_us(void* begin, void* end) override {
    return 3.0 * (recorded_.at(end) - recorded_.at(begin));
  }
  void synchronize() override { gpu_.calls.push_back({"synchronize", ""}); }

 private:
  FakeGpu& gpu_;
  char* next_ = reinterpret_cast<char*>(1ULL << 40U);
  int* flags_ = nullptr;
  std::map<void*, int> recorded_;
  int records_ = 0;
};

class HostLaunch {
 public:
  explicit HostLaunch(FakeGpu& gpu) : gpu_(gpu) {}
  void hold(const int* /*flag*/, int /*ticket*/, std::int64_t /*max_ns*/, int* /*late*/) {
    ++gpu_.gates;
    gpu_.calls.push_back({"hold", ""});
  }
  template <typename Body>
  void each(const Body& body, std::int64_t count) {
    gpu_.calls.push_back({"own", std::to_string(count)});
    for (std::int64_t i = 0; gpu_.computes() && i < count; ++i) body(i);
  }
  template <typename Body>
  void rows(const Body& body, std::int64_t count) {
    gpu_.calls.push_back({"own", std::to_string(count)});
    for (std::int64_t i = 0; gpu_.computes() && i < count; ++i) body(support::Alone{}, i);
  }
  template <typename Body>
  void short_rows(const Body& body, std::int64_t count) {
    rows(body, count);
  }

 private:
  FakeGpu& gpu_;
};

}  // namespace

FakeGpu::FakeGpu(Mode mode) : mode_(mode), libraries_(fake_libraries()) { set_current(this); }

FakeGpu::~FakeGpu() { set_current(nullptr); }

std::unique_ptr<profiler::cuda::Runtime> FakeGpu::runtime() { return std::make_unique<FakeRuntime>(*this); }

std::unique_ptr<profiler::cuda::Kernels> FakeGpu::kernels() {
  return std::make_unique<profiler::cuda::KernelsOn<HostLaunch>>(*this);
}

FakeObject* FakeGpu::make(const std::string& kind) {
  auto made = std::make_unique<FakeObject>();
  made->kind = kind;
  FakeObject* const out = made.get();
  objects[out] = std::move(made);
  return out;
}

bool FakeGpu::destroy(void* object, const std::string& kind) {
  const auto found = objects.find(static_cast<FakeObject*>(object));
  if (found == objects.end() || found->second->kind != kind) return false;
  objects.erase(found);
  return true;
}

}  // namespace support
