// The names of NCCL's algorithms and protocols: here, in NCCL and in a network. The same in every build.

#pragma once

#include <array>
#include <string_view>
#include <vector>

namespace measure {

constexpr std::string_view kNcclSummary = "between GPUs by NCCL, a process for each, on one host or many";

struct NcclAlgorithm {
  std::string_view name;
  const char* in_nccl;          ///< value of NCCL_ALGO
  std::string_view in_network;  ///< the corresponding algorithm of a network; empty: none
};

constexpr std::array<NcclAlgorithm, 7> kNcclAlgorithms = {{{"ring", "Ring", "ring"},
                                                           {"tree", "Tree", "double_binary_tree"},
                                                           {"collnet_direct", "CollnetDirect", ""},
                                                           {"collnet_chain", "CollnetChain", ""},
                                                           {"nvls", "NVLS", ""},
                                                           {"nvls_tree", "NVLSTree", ""},
                                                           {"pat", "PAT", ""}}};

struct NcclProtocol {
  std::string_view name;
  const char* in_nccl;  ///< value of NCCL_PROTO
};

constexpr std::array<NcclProtocol, 3> kNcclProtocols = {
    {{"simple", "Simple"}, {"ll", "LL"}, {"ll128", "LL128"}}};

template <typename Table>
std::vector<std::string_view> names_of(const Table& table) {
  std::vector<std::string_view> out;
  for (const auto& entry : table) out.push_back(entry.name);
  return out;
}

}  // namespace measure
