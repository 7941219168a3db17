#include "profiler/traces/kineto/collective_kind.hpp"

#include <array>

namespace kineto {

using core::CollectiveKind;

std::string plain_name(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != '_') out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

bool is_communication_kernel(std::string_view name) {
  const std::string text = plain_name(name.substr(0, 256));
  return text.find("nccl") != std::string::npos || text.find("rccl") != std::string::npos ||
         text.find("msccl") != std::string::npos;
}

std::optional<CollectiveKind> collective_kind(std::string_view name) {
  const std::string text = plain_name(name);
  if (text.find("allreduce") != std::string::npos) return CollectiveKind::all_reduce;
  if (text.find("reducescatter") != std::string::npos) return CollectiveKind::reduce_scatter;
  if (text.find("allgather") != std::string::npos) return CollectiveKind::all_gather;
  return std::nullopt;
}

std::int64_t element_bytes(std::string_view dtype) {
  struct Entry {
    std::string_view name;
    std::int64_t bytes;
  };
  constexpr auto kAll = std::to_array<Entry>(
      {{"float", 4},       {"half", 2},     {"bfloat16", 2}, {"double", 8},       {"int", 4},
       {"long", 8},        {"long int", 8}, {"byte", 1},     {"char", 1},         {"unsigned char", 1},
       {"signed char", 1}, {"bool", 1},     {"short", 2},    {"float8e4m3fn", 1}, {"float8e5m2", 1},
       {"float32", 4},     {"float16", 2},  {"float64", 8},  {"int8", 1},         {"uint8", 1},
       {"int32", 4},       {"int64", 8}});
  const std::string text = plain_name(dtype.substr(dtype.rfind(':') + 1));
  for (const Entry& entry : kAll)
    if (entry.name == text) return entry.bytes;
  return 0;
}

}  // namespace kineto
