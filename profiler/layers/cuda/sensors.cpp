#include "profiler/layers/cuda/sensors.hpp"

#include <utility>

#include "core/errors.hpp"
#include "profiler/cuda_runtime/shared_library.hpp"

namespace profiler::cuda {
namespace {

// The toolkit does not always include NVML's header; these few declarations have not changed since 2012.
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

std::optional<Nvml> load() try {
  using cuda_runtime::load;
  const auto library = cuda_runtime::SharedLibrary::open({.what = "NVML", .files = {"libnvidia-ml.so.1"}});
  Nvml out;
  load(library, out.init, "nvmlInit_v2");
  load(library, out.shutdown, "nvmlShutdown");
  load(library, out.device_at, "nvmlDeviceGetHandleByPciBusId_v2");
  load(library, out.clock, "nvmlDeviceGetClockInfo");
  load(library, out.temperature, "nvmlDeviceGetTemperature");
  if (out.init() != kNvmlSuccess) return std::nullopt;
  return out;
} catch (const core::EnvironmentError&) {  // continues without clocks and temperature
  return std::nullopt;
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
