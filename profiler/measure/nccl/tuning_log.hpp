// Reads the algorithm and the protocol that NCCL has chosen, which only its log shows.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/descriptor.hpp"

namespace measure {

struct TuningChoice {
  std::string algorithm;  ///< in lower case: "ring"
  std::string protocol;   ///< "ll128"
  bool operator==(const TuningChoice&) const = default;
};

/// Reads the last line about this function, such as "AllReduce: 4096 Bytes -> Algo RING proto LL channel..."
/// of NCCL 2.22 and later. Returns nothing if there is none or it has another format.
std::optional<TuningChoice> last_choice(std::string_view log, std::string_view function);

/// Writes NCCL's log to a file in memory during its lifetime, unless the user has requested a log.
class TuningLog {
 public:
  /// `reset` makes NCCL read NCCL_DEBUG again.
  explicit TuningLog(void (*reset)());
  ~TuningLog();
  TuningLog(const TuningLog&) = delete;
  TuningLog& operator=(const TuningLog&) = delete;

  /// Returns whether the log can be used.
  static bool is_wanted();
  std::string text() const;

 private:
  std::string path() const;

  void (*reset_)();
  core::Descriptor file_;
};

}  // namespace measure
