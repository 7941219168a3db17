// The largest numbers that a file may hold (contract, section 1).

#pragma once

#include <cstdint>

namespace traces {

constexpr double kMostTimeUs = 1e12;
constexpr std::int64_t kMostElements = 1'000'000'000'000;
constexpr std::int64_t kMostElementsInAll = 1'000'000'000'000'000;  // so that bytes stay exact as doubles
constexpr std::int64_t kMostBytes = 8'000'000'000'000'000;
constexpr std::int64_t kMostWorkers = 1'000'000;

}  // namespace traces
