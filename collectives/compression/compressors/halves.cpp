// Half-precision encodings; NaN and infinities are kept.

#include "collectives/compression/half.hpp"
#include "collectives/compression/half_wire.hpp"

namespace compression {
namespace {

/// Values above 65504 become infinite.
struct Float16 {
  static constexpr const char* kName = "fp16";
  static constexpr const char* kSummary = "half precision";
  static std::uint16_t to(float x) { return to_float16(x); }
  static float from(std::uint16_t half) { return from_float16(half); }
};

/// The range of float32 with 8 significant bits.
struct Bfloat16 {
  static constexpr const char* kName = "bf16";
  static constexpr const char* kSummary = "bfloat16";
  static std::uint16_t to(float x) { return to_bfloat16(x); }
  static float from(std::uint16_t half) { return from_bfloat16(half); }
};

}  // namespace

Compressor float16_compressor() { return HalfWire<Float16>::compressor(); }
Compressor bfloat16_compressor() { return HalfWire<Bfloat16>::compressor(); }

}  // namespace compression
