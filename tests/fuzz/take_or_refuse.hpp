// What every fuzzer entry does with its bytes: they are taken, or refused with InputError; anything else is a
// find.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/errors.hpp"

namespace fuzz {

template <typename Take>
int take_or_refuse(const std::uint8_t* data, std::size_t size, Take take) {
  const std::string_view text(reinterpret_cast<const char*>(data),
                              size);  // libFuzzer's bytes are characters to us
  try {
    take(text);
  } catch (const core::InputError&) {  // NOLINT(bugprone-empty-catch): a refusal is a right answer
  }
  return 0;
}

}  // namespace fuzz
