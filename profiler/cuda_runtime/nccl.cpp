#include "profiler/cuda_runtime/nccl.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"

namespace cuda_runtime {
namespace {

#define FUSEWISE_QUOTED(name) #name
#define FUSEWISE_TEXT(name) FUSEWISE_QUOTED(name)  // headers rename functions by macros

Nccl opened() {
  const SharedLibrary library = SharedLibrary::open({.what = "NCCL", .files = {"libnccl.so.2"}});
  Nccl out;
  out.file = library.file();
#define FUSEWISE_LOAD(name) load(library, out.name, FUSEWISE_TEXT(name));
  FUSEWISE_NCCL_FUNCTIONS(FUSEWISE_LOAD)
#undef FUSEWISE_LOAD
  out.last_error = reinterpret_cast<const char* (*)(ncclComm_t)>(library.find("ncclGetLastError"));
  out.reset_debug = reinterpret_cast<void (*)()>(library.find("ncclResetDebugInit"));
  return out;
}

}  // namespace

std::string Nccl::version() const {
  int number = 0;
  if (ncclGetVersion(&number) != ncclSuccess) return "of unknown version";
  constexpr int kFirstInFiveDigits = 10000;  // 2.8 was 2804, 2.9 is 20900
  const int scale = number < kFirstInFiveDigits ? 1000 : 10000;
  return fmt::format("{}.{}.{}", number / scale, number % scale / 100, number % 100);
}

void Nccl::check(ncclResult_t status, const char* what, ncclComm_t comm) const {
  if (status == ncclSuccess) return;
  std::string why = ncclGetErrorString(status);
  if (last_error != nullptr)
    if (const char* more = last_error(comm); more != nullptr && *more != '\0')
      why += fmt::format(" ({})", more);
  for (char& c : why)
    if (c == '\n' || c == '\r') c = ' ';  // keeps the message on one line
  while (!why.empty() && why.back() == ' ') why.pop_back();
  throw core::EnvironmentError(fmt::format("NCCL: {}: {}", what, why));
}

const Nccl& nccl() {
  static const Nccl all = opened();
  return all;
}

}  // namespace cuda_runtime
