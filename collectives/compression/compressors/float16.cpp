// Half-precision encoding: values above 65504 become infinite; NaN and infinities are kept.

#include "collectives/compression/half.hpp"
#include "collectives/compression/half_wire.hpp"

namespace compression {
namespace {

struct Traits {
  static constexpr const char* kName = "fp16";
  static constexpr const char* kSummary = "half precision";
  static std::uint16_t to(float x) { return to_float16(x); }
  static float from(std::uint16_t half) { return from_float16(half); }
};

}  // namespace

Compressor float16_compressor() { return HalfWire<Traits>::compressor(); }

}  // namespace compression
