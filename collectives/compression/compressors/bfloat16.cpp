// bfloat16 encoding: the range of float32 with 8 significant bits; NaN and infinities are kept.

#include "collectives/compression/half.hpp"
#include "collectives/compression/half_wire.hpp"

namespace compression {
namespace {

struct Traits {
  static constexpr const char* kName = "bf16";
  static constexpr const char* kSummary = "bfloat16";
  static std::uint16_t to(float x) { return to_bfloat16(x); }
  static float from(std::uint16_t half) { return from_bfloat16(half); }
};

}  // namespace

Compressor bfloat16_compressor() { return HalfWire<Traits>::compressor(); }

}  // namespace compression
