// Any bytes at all are imported or refused with InputError. The first byte picks the format (one value more
// than there are: recognise it), the rest is the log; at a zero byte a second log begins.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/errors.hpp"
#include "traces/import.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data), size);  // libFuzzer's bytes are characters to us
  const auto formats = traces::import_formats();
  const std::size_t picked = static_cast<unsigned char>(text.front()) % (formats.size() + 1);
  text.remove_prefix(1);

  traces::ImportOptions options = {.batch_size = 1};
  if (picked < formats.size()) options.format = formats[picked].name;
  const std::size_t end = text.find('\0');
  std::vector<traces::LogFile> logs = {{"GPU4", std::string(text.substr(0, end))}};
  if (end != std::string_view::npos) logs.push_back({"GPU8", std::string(text.substr(end + 1))});
  try {
    (void)traces::import_logs(logs, options);
  } catch (const models::InputError&) {  // NOLINT(bugprone-empty-catch): a refusal is a right answer
  }
  return 0;
}
