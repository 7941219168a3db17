// What a GPU says of itself while it measures: clocks and temperature, by NVML where the driver has brought
// it.

#pragma once

#include <memory>
#include <optional>
#include <string>

namespace profiler::cuda {

struct Reading {
  unsigned processor_mhz = 0;
  unsigned memory_mhz = 0;
  unsigned celsius = 0;
};

class Sensors {
 public:
  Sensors() = default;
  Sensors(const Sensors&) = delete;
  Sensors& operator=(const Sensors&) = delete;
  virtual ~Sensors() = default;

  /// None where the device does not say.
  virtual std::optional<Reading> read() = 0;
};

/// Of the device at "0000:1b:00.0"; nullptr where there is no NVML or it does not know that one.
std::unique_ptr<Sensors> open_sensors(const std::string& pci_bus);

}  // namespace profiler::cuda
