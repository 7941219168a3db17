// The largest numbers that a file may hold (contract, section 1).

#pragma once

#include <cstdint>

namespace core {

constexpr double kMaxTimeUs = 1e12;
constexpr std::int64_t kMaxElements = 1'000'000'000'000;
constexpr std::int64_t kMaxElementsInAll = 1'000'000'000'000'000;  // so that bytes stay exact as doubles
constexpr std::int64_t kMaxBytes = 8'000'000'000'000'000;
constexpr std::int64_t kMaxWorkers = 1'000'000;

}  // namespace core
