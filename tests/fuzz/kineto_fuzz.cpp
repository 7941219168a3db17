// Any bytes, gzip or not, are a trace that becomes a profile, or are refused with InputError.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include <fmt/format.h>

#include "profiler/traces/kineto/import.hpp"
#include "tests/fuzz/take_or_refuse.hpp"

namespace {

/// Traces are read from files: this one is in memory, and always the same.
int file() {
  static const int descriptor = memfd_create("trace", 0);
  return descriptor;
}

void import(std::string_view text) {
  if (ftruncate(file(), 0) != 0 ||
      pwrite(file(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    std::abort();
  (void)kineto::import_trace(fmt::format("/proc/self/fd/{}", file()), {.batch_size = 1});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::take_or_refuse(data, size, import);
}
