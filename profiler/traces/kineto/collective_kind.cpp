#include "profiler/traces/kineto/collective_kind.hpp"

namespace kineto {

using core::CollectiveKind;

std::string plain_name(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != '_') out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::optional<CollectiveKind> collective_kind(std::string_view name) {
  const std::string text = plain_name(name);
  if (text.find("allreduce") != std::string::npos) return CollectiveKind::all_reduce;
  if (text.find("reducescatter") != std::string::npos) return CollectiveKind::reduce_scatter;
  if (text.find("allgather") != std::string::npos) return CollectiveKind::all_gather;
  return std::nullopt;
}

}  // namespace kineto
