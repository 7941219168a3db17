#include "profiler/measure/nccl/tuning_log.hpp"

#include <sys/mman.h>

#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fmt/core.h>

namespace measure {
namespace {

constexpr std::array<const char*, 3> kVariables = {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"};

/// Returns the word after `key`, in lower case.
std::string word_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return "";
  std::string out;
  for (const char c : line.substr(at + key.size())) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') break;
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

bool is_name(const std::string& word) {
  return !word.empty() && std::isalpha(static_cast<unsigned char>(word.front())) != 0;
}

}  // namespace

std::optional<TuningChoice> last_choice(std::string_view log, std::string_view function) {
  std::optional<TuningChoice> out;
  const std::string begins = " " + std::string(function) + ": ";
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(log.size(), line.size() + 1));
    const std::size_t at = line.find(begins);
    if (at == std::string_view::npos) continue;
    const TuningChoice taken = {.algorithm = word_after(line.substr(at), "-> Algo "),
                                .protocol = word_after(line.substr(at), " proto ")};
    if (is_name(taken.algorithm) && is_name(taken.protocol)) out = taken;
  }
  return out;
}

bool TuningLog::is_wanted() {
  for (const char* variable : kVariables)
    if (std::getenv(variable) != nullptr) return false;
  return true;
}

TuningLog::TuningLog(void (*reset)()) : reset_(reset), file_(::memfd_create("nccl.log", MFD_CLOEXEC)) {
  if (file_.get() < 0) return;  // then it remains unknown
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("NCCL_DEBUG_SUBSYS", "TUNING", 1);
  ::setenv("NCCL_DEBUG_FILE", path().c_str(), 1);
  reset_();
}

TuningLog::~TuningLog() {
  if (file_.get() < 0) return;
  for (const char* variable : kVariables) ::unsetenv(variable);
  reset_();
}

std::string TuningLog::path() const { return fmt::format("/proc/self/fd/{}", file_.get()); }

std::string TuningLog::text() const {
  std::ostringstream out;
  if (file_.get() >= 0) out << std::ifstream(path()).rdbuf();
  return out.str();
}

}  // namespace measure
