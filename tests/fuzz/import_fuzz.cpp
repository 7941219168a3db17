// Any bytes at all are imported or refused with InputError. The first byte picks the format (one value more
// than there are: recognise it), the rest is the log; at a zero byte a second log begins. What can be fitted
// is.

#include <string>
#include <vector>

#include "profiler/fit/report.hpp"
#include "profiler/traces/import.hpp"
#include "tests/fuzz/take_or_refuse.hpp"

namespace {

void import(std::string_view text) {
  if (text.empty()) return;
  const auto formats = traces::import_formats();
  const std::size_t picked = static_cast<unsigned char>(text.front()) % (formats.size() + 1);
  text.remove_prefix(1);

  traces::ImportOptions options = {.batch_size = 1};
  if (picked < formats.size()) options.format = formats[picked].name;
  const std::size_t end = text.find('\0');
  std::vector<traces::LogFile> logs = {{"GPU4", std::string(text.substr(0, end))}};
  if (end != std::string_view::npos) logs.push_back({"GPU8", std::string(text.substr(end + 1))});
  if (picked < formats.size() && formats[picked].is_measured()) {
    const fit::Report report = fit::fit(traces::read_measurements(logs, options),
                                        {.name = "n", .line_rate_gbps = 10, .predict = {16}});
    (void)fit::report_table(report);
    (void)fit::report_json(report);
    (void)core::read_network(core::Field::parse(network_text(report.network), "n.json"));
  }
  (void)traces::import_logs(logs, options);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::take_or_refuse(data, size, import);
}
