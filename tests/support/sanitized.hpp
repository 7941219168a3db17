// Whether AddressSanitizer is in this build, which takes ten times as long and reserves terabytes of
// addresses.

#pragma once

namespace support {

#ifdef __SANITIZE_ADDRESS__
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace support
