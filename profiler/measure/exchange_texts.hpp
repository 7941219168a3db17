// Gathers one text per rank on all ranks.

#pragma once

#include <string>
#include <vector>

#include "collectives/transport/bytes.hpp"
#include "collectives/transport/transport.hpp"

namespace measure {

constexpr std::size_t kMaxText = 1 << 26;

/// All ranks call it. The result is indexed by rank.
inline std::vector<std::string> exchange_texts(transport::Transport& control, std::uint32_t tag,
                                               const std::string& own) {
  std::vector<std::string> all(control.size());
  for (std::uint32_t rank = 0; rank < control.size(); ++rank)
    if (rank != control.rank()) control.send(rank, tag, transport::to_bytes(std::span<const char>(own)));
  for (std::uint32_t rank = 0; rank < control.size(); ++rank) {
    if (rank == control.rank()) {
      all[rank] = own;
      continue;
    }
    const transport::Bytes bytes = control.recv(rank, tag, kMaxText);
    all[rank].resize(bytes.size());
    transport::from_bytes<char>(bytes, all[rank]);
  }
  return all;
}

}  // namespace measure
