// Any bytes are a trace of a rank, an execution trace or an export of Nsight Systems, or are refused with
// InputError.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include <fmt/format.h>

#include "profiler/traces/ranks/execution_trace.hpp"
#include "profiler/traces/ranks/read_kineto.hpp"
#include "profiler/traces/ranks/read_nsys.hpp"
#include "profiler/traces/ranks/report.hpp"
#include "profiler/traces/ranks/source_kind.hpp"
#include "tests/fuzz/take_or_refuse.hpp"

namespace {

/// Traces are read from files: this one is in memory, and always the same.
int file() {
  static const int descriptor = memfd_create("trace", 0);
  return descriptor;
}

void report(std::vector<ranks::RankTrace> traces) {
  const ranks::Report out = ranks::make_report(std::move(traces));
  (void)report_text(out);
  (void)report_json(out);
}

/// The trace of two ranks: the same events, once as they are and once a second later.
void import(std::string_view text) {
  if (ftruncate(file(), 0) != 0 ||
      pwrite(file(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    std::abort();
  const std::string path = fmt::format("/proc/self/fd/{}", file());
  switch (ranks::source_kind(path)) {
    case ranks::SourceKind::nsys: return report(ranks::read_nsys(path, "step"));
    case ranks::SourceKind::execution_trace: {
      const ranks::ExecutionTrace trace = ranks::read_execution_trace(path);
      (void)execution_text(trace);
      return (void)execution_json(trace);
    }
    case ranks::SourceKind::kineto:
    case ranks::SourceKind::log: break;
  }
  constexpr std::int64_t kSecondNs = 1'000'000'000;
  std::vector<ranks::RankTrace> both = {ranks::read_kineto(path, "ProfilerStep#")};
  both.push_back(both.front());
  both[0].rank = 0;
  both[1].rank = 1;
  change_times(both[1], [](std::int64_t ns) { return ns + kSecondNs; });
  report(std::move(both));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::take_or_refuse(data, size, import);
}
