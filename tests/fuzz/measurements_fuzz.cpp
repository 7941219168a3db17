// Any bytes are measurements, and some of their rows are picked, or they are refused with InputError.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/errors.hpp"
#include "validate/measurements/measurements.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto rows = validate::read_measurements(text, "fuzz.csv");
    (void)validate::select_rows(rows, "model=" + rows.front().model);
    (void)validate::select_rows(rows, rows.back().schedule);
  } catch (const core::InputError&) {  // NOLINT(bugprone-empty-catch): a refusal is a right answer
  }
  return 0;
}
