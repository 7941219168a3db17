// The largest numbers that a file may hold (contract, section 1), and the largest files.

#pragma once

#include <cstddef>
#include <cstdint>

namespace core {

constexpr double kMaxTimeUs = 1e12;
constexpr std::int64_t kMaxElements = 1'000'000'000'000;
constexpr std::int64_t kMaxElementsInAll = 1'000'000'000'000'000;  // so that bytes stay exact as doubles
constexpr std::int64_t kMaxBytes = 8'000'000'000'000'000;
constexpr std::int64_t kMaxWorkers = 1'000'000;

// What a program run may read, so that it stays within 2 GiB of memory (docs/reliability.md has the figures).
constexpr std::size_t kMaxJsonBytes = std::size_t{64} << 20U;
constexpr std::size_t kMaxJsonValues = 4'000'000;
constexpr std::size_t kMaxLogBytes = std::size_t{16} << 20U;  // a log or a table that is read line by line
constexpr std::size_t kMaxLogBytesInAll = std::size_t{64} << 20U;  // of one command

}  // namespace core
