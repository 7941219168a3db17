// Reads a GPU's clocks and temperature during a measurement, by NVML if the driver provides it.

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

  /// Returns nothing if the device does not say.
  virtual std::optional<Reading> read() = 0;
};

/// Opens the sensors of the device at "0000:1b:00.0"; nullptr if there is no NVML or it does not know the
/// device.
std::unique_ptr<Sensors> open_sensors(const std::string& pci_bus);

}  // namespace profiler::cuda
