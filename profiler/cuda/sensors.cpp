#include "profiler/cuda/sensors.hpp"

#include <utility>

#include <dlfcn.h>

namespace profiler::cuda {
namespace {

// The toolkit does not always bring NVML's header; these few have not changed since 2012.
constexpr int kNvmlSuccess = 0;
constexpr int kProcessorClock = 1;  // NVML_CLOCK_SM
constexpr int kMemoryClock = 2;
constexpr int kChip = 0;  // NVML_TEMPERATURE_GPU
using NvmlDevice = void*;

struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*device_at)(const char* pci_bus, NvmlDevice* out) = nullptr;
  int (*clock)(NvmlDevice device, int which, unsigned* out) = nullptr;
  int (*temperature)(NvmlDevice device, int which, unsigned* out) = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function& to) {
  to = reinterpret_cast<Function>(::dlsym(library, name));
  return to != nullptr;
}

std::optional<Nvml> load() {
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW);  // stays open until the process ends
  Nvml out;
  if (library == nullptr || !find(library, "nvmlInit_v2", out.init) ||
      !find(library, "nvmlShutdown", out.shutdown) ||
      !find(library, "nvmlDeviceGetHandleByPciBusId_v2", out.device_at) ||
      !find(library, "nvmlDeviceGetClockInfo", out.clock) ||
      !find(library, "nvmlDeviceGetTemperature", out.temperature) || out.init() != kNvmlSuccess)
    return std::nullopt;
  return out;
}

class NvmlSensors : public Sensors {
 public:
  NvmlSensors(const Nvml& nvml, NvmlDevice device) : nvml_(nvml), device_(device) {}
  NvmlSensors(const NvmlSensors&) = delete;
  NvmlSensors& operator=(const NvmlSensors&) = delete;
  ~NvmlSensors() override { nvml_.shutdown(); }

  std::optional<Reading> read() override {
    Reading out;
    if (nvml_.clock(device_, kProcessorClock, &out.processor_mhz) != kNvmlSuccess ||
        nvml_.clock(device_, kMemoryClock, &out.memory_mhz) != kNvmlSuccess ||
        nvml_.temperature(device_, kChip, &out.celsius) != kNvmlSuccess)
      return std::nullopt;
    return out;
  }

 private:
  Nvml nvml_;
  NvmlDevice device_;
};

}  // namespace

std::unique_ptr<Sensors> open_sensors(const std::string& pci_bus) {
  const std::optional<Nvml> nvml = load();
  if (!nvml) return nullptr;
  NvmlDevice device = nullptr;
  if (nvml->device_at(pci_bus.c_str(), &device) == kNvmlSuccess)
    return std::make_unique<NvmlSensors>(*nvml, device);
  nvml->shutdown();
  return nullptr;
}

}  // namespace profiler::cuda
