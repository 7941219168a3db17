// Whether AddressSanitizer is in this build, which takes ten times as long and reserves terabytes of
// addresses.

#pragma once

namespace support {

#ifdef __has_feature
#if __has_feature(address_sanitizer)  // how clang says it
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#elif defined(__SANITIZE_ADDRESS__)  // how g++ says it
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace support
